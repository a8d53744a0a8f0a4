//! The processor time of another process, and how long it has not changed.
//!
//! Read by the reader of observed programs in each pass; used by `observed_waits`. Invariant: while
//! the clock does not change, no thread of the process has run.

use std::time::Instant;

use super::observed_place::ObservedPlace;
use super::schedule::now;
use crate::ids::ProcessId;
use crate::sys::native::tasks;
use crate::time::Timestamp;

/// The clock of a process, and how long it has not changed. The only part of a process that is
/// touched while it is idle.
#[derive(Clone, Copy, Debug)]
pub struct ObservedClock {
    /// `None` if the process is not found.
    pid: Option<ProcessId>,
    /// The processor time at the last reading; `None` if the system does not report it.
    pub(super) cpu_ns: Option<u64>,
    /// When this value was read first.
    pub(super) since: Instant,
    /// The last time at which it was still the same.
    pub(super) until: Option<Timestamp>,
    /// The last time at which the value before was still the same.
    pub(super) until_before: Option<Timestamp>,
}

impl ObservedClock {
    /// The clock of the process there.
    #[must_use]
    pub fn new(place: &ObservedPlace) -> Self {
        Self {
            pid: place.start.map(|_| place.pid),
            cpu_ns: None,
            since: now(),
            until: None,
            until_before: None,
        }
    }

    /// Reads the clock. False if no thread has run since the last call: then the process has taken
    /// no sample since then, either.
    pub fn has_run(&mut self) -> bool {
        let at = Timestamp::now();
        let cpu_ns = self.pid.and_then(tasks::process_cpu_ns);
        if cpu_ns.is_some() && cpu_ns == self.cpu_ns {
            self.until = Some(at);
            return false;
        }
        *self = Self {
            cpu_ns: cpu_ns.or(self.cpu_ns), // a process that has ended has no clock
            since: now(),
            until: None,
            until_before: self.until,
            ..*self
        };
        true
    }

    /// The last time that was read from the clock, in nanoseconds. `None` if the system has never
    /// shown it.
    #[must_use]
    pub const fn cpu_ns(&self) -> Option<u64> {
        self.cpu_ns
    }

    /// Whether the system shows the clock.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        self.cpu_ns.is_some()
    }
}
