//! The machine on which a profile was recorded, and how exactly its start is known in wall time.
//!
//! Both formats write it into `meta` of the root: `hosts` for programs, with one entry, and `extra`
//! for people, which viewers show with the other properties of the profile. `profiler merge` aligns
//! profiles of several machines by these keys. Written once per capture, by the process that
//! writes the whole profile. Invariant: clocks are compared only in the boot in which the session
//! has recorded.
//!
//! ```text
//! start of the session:  wall time S, line s
//! capture:               wall time C, line c      change = (C - S) - (c - s)
//! ```

use std::io::Write;
use std::panic::catch_unwind;

use sysinfo::System;

use super::process::ProcessModel;
use crate::ids::BootId;
use crate::profile::json::JsonWriter;
use crate::sys::{self, ClockError};
use crate::time::{SessionClock, WallReading};

/// What is known about a machine and its clocks.
#[derive(Clone, Debug)]
struct Host {
    name: String,
    boot: BootId,
    clocks: Option<HostClocks>,
}

/// The clocks of the machine, read in the same boot as the session's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostClocks {
    namespace: u64,
    /// The session's start, in nanoseconds since the machine's start.
    start_since_boot: u64,
    /// How far apart the clocks of the anchor were read, in nanoseconds.
    width_ns: u64,
    /// How much the wall clock has moved against the session's clock since the session's start.
    change_ns: i64,
    error: Option<ClockError>,
}

impl HostClocks {
    /// Compares the clocks now with those at the session's start.
    fn compare(clock: &SessionClock, now: WallReading, error: Option<ClockError>) -> Self {
        let since_start = i128::from(now.line.0) - i128::from(clock.start.monotonic.0);
        let by_wall = i128::from(now.unix.0) - i128::from(clock.start_unix.0);
        let start_since_boot = i128::from(now.since_boot) - since_start;
        Self {
            namespace: now.namespace,
            start_since_boot: u64::try_from(start_since_boot).unwrap_or(0),
            width_ns: now.width_ns,
            change_ns: i64::try_from(by_wall - since_start).unwrap_or(i64::MAX),
            error,
        }
    }

    fn write<W: Write>(&self, boot: BootId, out: &mut JsonWriter<W>) {
        let clock = format!("{:032x}-{}", boot.get(), self.namespace);
        out.entry_str("clockId", &clock);
        out.entry_u64("startClockNs", self.start_since_boot);
        out.entry_object("wallClock", |out| {
            out.entry_millis_ns("readMs", signed(self.width_ns));
            out.entry_millis_ns("changeMs", Some(self.change_ns));
            if let Some(error) = self.error {
                out.entry_bool("isSynchronized", error.is_synchronized);
                out.entry_millis_ns("maxErrorMs", signed(error.most_ns));
                out.entry_millis_ns("estimatedErrorMs", signed(error.estimated_ns));
            }
        });
    }

    /// The state of the wall clock, in words.
    fn told(&self) -> String {
        let millis = |ns: u64| ns as f64 / 1e6;
        match self.error {
            Some(error) if error.is_synchronized => {
                let [most, estimated] = [error.most_ns, error.estimated_ns].map(millis);
                format!("synchronised, within {most} ms (estimate: {estimated} ms)")
            }
            Some(_) => "not synchronised".to_owned(),
            None => "unknown whether it was synchronised".to_owned(),
        }
    }
}

fn signed(ns: u64) -> Option<i64> {
    i64::try_from(ns).ok()
}

impl Host {
    /// This machine, on which `process` has recorded.
    fn of(process: &ProcessModel<'_>) -> Self {
        let boot = sys::boot_id();
        let recorded = process.snapshot.header.boot.get();
        // Only a pool in a file outlives the boot, and says in which it was made.
        let is_of_this_boot = boot.get() != 0 && (recorded == 0 || recorded == boot.get());
        let clocks = is_of_this_boot.then(|| {
            let (now, error) = (WallReading::take(), sys::clock_error());
            HostClocks::compare(&process.clock, now, error)
        });
        // `sysinfo` may panic if the system answers with unexpected contents.
        let name = catch_unwind(System::host_name).ok().and_then(Result::ok);
        Self {
            name: name.unwrap_or_default(),
            boot,
            clocks,
        }
    }

    fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("name", &self.name);
        if let Some(clocks) = &self.clocks {
            clocks.write(self.boot, out);
        }
        out.end_object();
    }

    fn write_section<W: Write>(&self, out: &mut JsonWriter<W>) {
        let clock = self.clocks.map(|clocks| clocks.told());
        let rows = [
            ("Host name", Some(self.name.clone())),
            ("Wall clock", clock),
        ];
        let rows = rows
            .into_iter()
            .filter_map(|(label, text)| Some((label, text?)));
        out.begin_object();
        out.entry_str("label", "Host");
        out.entry_list("entries", rows, |(label, text), out| {
            out.begin_object();
            out.entry_str("label", label);
            out.entry_str("format", "string");
            out.entry_str("value", &text);
            out.end_object();
        });
        out.end_object();
    }
}

/// Writes the keys `hosts` and `extra` of the root's `meta`.
pub fn write_host<W: Write>(process: &ProcessModel<'_>, out: &mut JsonWriter<W>) {
    let host = Host::of(process);
    out.entry_list("hosts", [&host], Host::write);
    out.entry_list("extra", [&host], Host::write_section);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Anchor, ClockKind, MonotonicNs, Timestamp, UnixNs};

    #[test]
    fn a_wall_clock_that_was_moved_is_noticed_and_the_start_on_the_boot_clock_is_not_moved() {
        let clock = SessionClock {
            kind: ClockKind::Monotonic,
            start: Anchor {
                ticks: Timestamp::from_raw(500),
                monotonic: MonotonicNs(500),
            },
            start_unix: UnixNs(1_000_000),
        };
        let now = WallReading {
            line: MonotonicNs(700),
            unix: UnixNs(1_000_150),
            since_boot: 10_700,
            namespace: 3,
            width_ns: 40,
        };
        let clocks = HostClocks::compare(&clock, now, None);
        assert_eq!((clocks.change_ns, clocks.start_since_boot), (-50, 10_500));
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(System::host_name().is_ok_and(|name| !name.is_empty()));
    }
}
