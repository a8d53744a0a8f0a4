//! The machine on which a profile was recorded, and how exactly its start is known in wall time.
//!
//! Both formats write it into `meta` of the root. `hosts`, which programs read, has one entry.
//! `extra`, which viewers show with the other properties of the profile, has a section about the
//! host and the sections of the writer. `profiler merge` aligns profiles of several machines by
//! these keys. Written once per capture, by the process that writes the whole profile. Invariants:
//! clocks are compared only in the boot in which the session has recorded; a pool of another boot,
//! which may be that of another machine, gets no host name; all captures of a session state the
//! same start.
//!
//! ```text
//! start of the session:  wall time S, line s
//! capture:               wall time C, line c      change = (C - S) - (c - s)
//!                        system clock m           start = m - (c - s)
//! ```

use std::io::Write;
use std::panic::catch_unwind;

use sysinfo::System;

use super::meta::MetaSection;
use super::process::ProcessModel;
use profiler_core::ids::BootId;
use profiler_core::internal::sys;
use profiler_core::internal::sys::ClockError;
use profiler_core::time::{ClockKind, SessionClock, WallReading};
use profiler_json::JsonWriter;

/// What is known about a machine and its clocks.
#[derive(Clone, Debug)]
struct Host {
    /// `None` if the session may have recorded on another machine.
    pub name: Option<String>,
    boot: BootId,
    clocks: Option<HostClocks>,
}

/// The clocks of the machine, read in the same boot as the session's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostClocks {
    kind: ClockKind,
    namespace: u64,
    /// The session's start on the system's clock that the session's line follows, in nanoseconds.
    start_ns: u64,
    /// How far apart the line and the wall clock were read, in nanoseconds.
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
        let start = i128::from(now.system) - since_start;
        Self {
            kind: clock.kind,
            namespace: now.namespace,
            start_ns: u64::try_from(start).unwrap_or(0),
            width_ns: now.width_ns,
            change_ns: i64::try_from(by_wall - since_start).unwrap_or(i64::MAX),
            error,
        }
    }

    /// The name of the clock that the session shares with others: its boot, its time namespace, and
    /// whether it stops while the machine is suspended.
    fn id(&self, boot: BootId) -> String {
        let kind = match self.kind {
            ClockKind::CycleCounter => "",
            ClockKind::Monotonic => "-monotonic",
        };
        format!("{:032x}-{}{kind}", boot.get(), self.namespace)
    }

    fn write<W: Write>(&self, boot: BootId, out: &mut JsonWriter<W>) {
        out.entry_str("clockId", &self.id(boot));
        out.entry_u64("startClockNs", self.start_ns);
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
        let is_of_this_boot = is_of_boot(process.snapshot.header.boot, boot);
        let clocks = (is_of_this_boot && boot.get() != 0).then(|| {
            let (now, error) = (WallReading::take(), sys::clock_error());
            HostClocks::compare(&process.clock, now, error)
        });
        Self {
            name: is_of_this_boot.then(own_name),
            boot,
            clocks,
        }
    }

    fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str_if("name", self.name.as_deref());
        if let Some(clocks) = &self.clocks {
            clocks.write(self.boot, out);
        }
        out.end_object();
    }

    fn section(&self) -> MetaSection {
        let clock = self.clocks.map(|clocks| clocks.told());
        let rows = [("Host name", self.name.clone()), ("Wall clock", clock)];
        let rows = rows
            .into_iter()
            .filter_map(|(label, text)| Some((label, text?)));
        MetaSection {
            label: "Host",
            rows: rows.collect(),
        }
    }
}

/// Whether a pool was recorded in the boot `now`, as far as it says so. Only a pool in a file
/// outlives the boot, and has its identifier.
fn is_of_boot(recorded: BootId, now: BootId) -> bool {
    recorded.get() == 0 || recorded == now
}

fn own_name() -> String {
    // `sysinfo` may panic if the system answers with unexpected contents.
    let name = catch_unwind(System::host_name).ok().and_then(Result::ok);
    name.unwrap_or_default()
}

/// Writes the keys `hosts` and `extra` of the root's `meta`. `extra` has the section about the
/// host, followed by `sections`.
pub fn write_host<W: Write>(
    process: &ProcessModel<'_>,
    sections: &[MetaSection],
    out: &mut JsonWriter<W>,
) {
    let host = Host::of(process);
    out.entry_list("hosts", [&host], Host::write);
    let of_host = host.section();
    let all = std::iter::once(&of_host).chain(sections);
    out.entry_list("extra", all, MetaSection::write);
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_core::time::{Anchor, ClockKind, MonotonicNs, Timestamp, UnixNs};

    fn clock(kind: ClockKind) -> SessionClock {
        SessionClock {
            kind,
            start: Anchor {
                ticks: Timestamp::from_raw(500),
                monotonic: MonotonicNs(500),
            },
            start_unix: UnixNs(1_000_000),
        }
    }

    const NOW: WallReading = WallReading {
        line: MonotonicNs(700),
        unix: UnixNs(1_000_150),
        system: 10_700,
        namespace: 3,
        width_ns: 40,
    };

    #[test]
    fn a_wall_clock_that_was_moved_is_noticed_and_the_start_on_the_boot_clock_is_not_moved() {
        let clocks = HostClocks::compare(&clock(ClockKind::CycleCounter), NOW, None);
        assert_eq!((clocks.change_ns, clocks.start_ns), (-50, 10_500));
    }

    #[test]
    fn sessions_whose_clock_stops_in_suspend_share_no_clock_with_those_whose_clock_does_not() {
        let kinds = [ClockKind::CycleCounter, ClockKind::Monotonic];
        let [boot, monotonic] =
            kinds.map(|kind| HostClocks::compare(&clock(kind), NOW, None).id(BootId::new(7)));
        assert_eq!(boot, format!("{:032x}-3", 7));
        assert_eq!(monotonic, format!("{boot}-monotonic"));
    }

    #[test]
    fn a_pool_of_another_boot_gets_neither_the_name_nor_the_clocks_of_this_machine() {
        let [none, this, other] = [0, 7, 8].map(BootId::new);
        let is_here = |recorded| is_of_boot(recorded, this);
        assert_eq!([none, this, other].map(is_here), [true, true, false]);
        assert!(!is_of_boot(other, none), "this boot is unknown");
        let elsewhere = Host {
            name: None,
            boot: this,
            clocks: None,
        };
        let mut out = JsonWriter::new(Vec::new());
        out.begin_array();
        elsewhere.write(&mut out);
        elsewhere.section().write(&mut out);
        out.end_array();
        let written = String::from_utf8(out.finish().unwrap()).unwrap();
        assert_eq!(written, r#"[{},{"label":"Host","entries":[]}]"#);
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!own_name().is_empty());
    }
}
