//! An observed process that stays open between looks.
//!
//! Used by `observed_waits`. Opening a process and reading its `stat` file in each look would take
//! a large part of the reader's time. A descriptor refers to a process and not to its number, so no
//! other process can take its place. Invariant: at most [`MAX_KEPT`] processes are kept, because
//! each takes a descriptor.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::observed_place::ObservedPlace;
use super::schedule::now;
use crate::sys::native::other_process::OtherProcess;

/// The maximum number of processes that are kept open.
const MAX_KEPT: usize = 256;
/// The time between two checks whether a kept process has executed another program. Usually, its
/// file shows this earlier.
const READ_AGAIN: Duration = Duration::from_millis(100);

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// One of [`MAX_KEPT`] places.
#[derive(Debug)]
struct KeptPlace;

impl KeptPlace {
    fn take() -> Option<Self> {
        let more = |kept| (kept < MAX_KEPT).then_some(kept + 1);
        let taken = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then_some(Self)
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A process that may be open.
#[derive(Debug)]
pub(super) struct KeptProcess {
    kept: Option<(OtherProcess, KeptPlace)>,
    read: Instant,
}

impl KeptProcess {
    pub(super) fn new() -> Self {
        Self {
            kept: None,
            read: now(),
        }
    }

    /// The process, with the present number of its threads. `None` if it has ended.
    pub(super) fn open(&mut self, place: &ObservedPlace) -> Option<OpenProcess> {
        let Some((mut process, kept)) = self.kept.take() else {
            self.read = now();
            let process = OtherProcess::open(place.pid, place.start?)?;
            return Some(OpenProcess {
                process,
                place: None,
                is_read: true,
            });
        };
        let is_due = self.read.elapsed() >= READ_AGAIN;
        let is_there = if is_due {
            self.read = now();
            process.read_again()
        } else {
            process.count_threads()
        };
        is_there.then_some(OpenProcess {
            process,
            place: Some(kept),
            is_read: is_due,
        })
    }

    /// Keeps the process open until the next look, if there will be one and there is a place.
    pub(super) fn keep(&mut self, open: OpenProcess, has_next: bool) {
        let place = open.place.or_else(KeptPlace::take).filter(|_| has_next);
        self.kept = place.map(|place| (open.process, place));
    }

    /// Gives the place back until the next look.
    pub(super) fn close(&mut self) {
        self.kept = None;
    }
}

/// A process that is open.
#[derive(Debug)]
pub(super) struct OpenProcess {
    pub(super) process: OtherProcess,
    place: Option<KeptPlace>,
    /// Whether it was read for this look, besides the number of its threads.
    is_read: bool,
}

impl OpenProcess {
    /// Reads again which program the process executes, if that was not done for this look. False if
    /// it has ended.
    pub(super) fn read_again(&mut self) -> bool {
        std::mem::replace(&mut self.is_read, true) || self.process.read_again()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::ids::ProcessId;
    use crate::sys::ProcessStat;
    use crate::time::Timestamp;

    #[test]
    fn a_kept_process_is_the_same_until_it_ends_and_gives_its_place_back() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = ProcessId::new(child.id());
        let place = ObservedPlace {
            pid,
            start: ProcessStat::of(pid).and_then(|stat| stat.start()),
            base_ns: 0,
            began: Timestamp::now(),
            is_outside: false,
        };
        let mut kept = KeptProcess::new();
        for _ in 0..3 {
            let open = kept.open(&place).unwrap();
            assert_eq!(open.process.threads(), 1);
            kept.keep(open, true);
            assert!(kept.kept.is_some());
        }
        kept.close();
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
        let open = kept.open(&place).unwrap();
        kept.keep(open, true);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(kept.open(&place).is_none(), "it has ended");
        assert!(kept.kept.is_none());
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
    }
}
