//! One thread of the profile: who it is, then its tables.

use std::io::{self, Write};

use profiler_core::ids::ThreadId;
use profiler_core::internal::profile::{JsonWriter, ShownRange};
use profiler_core::internal::reader::ThreadInfo;
use profiler_core::time::Timestamp;

use super::first_pass::SortedThread;
use super::markers::MarkerColumns;
use super::process::Process;
use super::samples::Ledger;

/// What viewers know the main thread by, apart from the flag.
const MAIN_THREAD: &str = "GeckoMain";

/// How a thread is presented.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    name: &'a str,
    tid: ThreadId,
    registered: Timestamp,
    ended: Option<Timestamp>,
    is_main: bool,
}

impl<'a> Head<'a> {
    pub(super) fn of(thread: &'a ThreadInfo) -> Self {
        // Only one thread can be the main one.
        let name = match thread.name.as_str() {
            _ if thread.is_main => MAIN_THREAD,
            MAIN_THREAD => "GeckoMain (not the main thread)",
            "" => "(unnamed)",
            name => name,
        };
        let ThreadInfo { tid, registered, ended, is_main, .. } = *thread;
        Self { name, tid, registered, ended, is_main }
    }

    /// Stands for a main thread of which nothing is left: without one, viewers show neither
    /// the process's name nor its counters.
    pub(super) fn missing_main(process: &Process<'_>) -> Self {
        let tid = ThreadId::new(u64::from(process.sorted.role.pid.get()));
        let registered = process.sorted.snapshot.header.recording_start;
        Self { name: MAIN_THREAD, tid, registered, ended: process.sorted.role.ended, is_main: true }
    }

    /// Of a thread of which there are samples and nothing else.
    pub(super) fn without_row(process: &Process<'_>, tid: ThreadId, name: &'a str) -> Self {
        let header = &process.sorted.snapshot.header;
        let ended = process.sorted.role.ended;
        Self { name, tid, registered: header.recording_start, ended, is_main: false }
    }

    fn write<W: Write>(&self, process: &Process<'_>, out: &mut JsonWriter<W>) {
        let role = &process.sorted.role;
        out.entry_str("name", self.name);
        out.entry_bool("isMainThread", self.is_main);
        out.entry_str("processType", if role.is_root { "default" } else { "child" });
        out.entry_str("processName", &role.name);
        out.entry_str("pid", process.pid);
        out.entry_u64("tid", self.tid.get());
        out.entry_millis_ns("processStartupTime", Some(process.recording_start_ns()));
        out.entry_millis_ns("processShutdownTime", role.ended.map(|at| process.ns(at)));
        out.entry_millis_ns("registerTime", Some(process.ns(self.registered)));
        out.entry_millis_ns("unregisterTime", self.ended.or(role.ended).map(|at| process.ns(at)));
        out.key("pausedRanges");
        out.begin_array();
        for pause in &process.sorted.snapshot.pauses {
            out.begin_object();
            out.entry_millis_ns("startTime", Some(process.ns(pause.start)));
            out.entry_millis_ns("endTime", pause.end.map(|end| process.ns(end)));
            out.entry_str("reason", "profiler-paused");
            out.end_object();
        }
        out.end_array();
    }
}

/// Writes a thread; gives the times that it spans.
pub(super) fn write<W: Write>(
    process: &Process<'_>,
    head: &Head<'_>,
    sorted: &SortedThread,
    markers: MarkerColumns,
    ledger: Ledger<'_>,
    out: &mut JsonWriter<W>,
) -> io::Result<ShownRange> {
    out.begin_object();
    head.write(process, out);
    let mut shown = ledger.samples((&sorted.samples, sorted.has_rests), out)?;
    shown += ledger.allocations(&sorted.allocations, head.tid, out)?;
    shown += markers.finish(out)?;
    out.end_object();
    Ok(shown)
}
