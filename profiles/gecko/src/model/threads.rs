//! How a thread is presented: its name and lifetime, and when it was paused.
//!
//! Used by both formats at the head of each thread.

use std::io::Write;

use super::process::ProcessModel;
use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::ThreadInfo;
use profiler_core::time::Timestamp;
use profiler_json::JsonWriter;

/// The name by which viewers recognise the main thread.
const MAIN_THREAD: &str = "GeckoMain";

/// The identity and the lifetime of a thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadHead<'a> {
    /// Shown name.
    pub name: &'a str,
    /// Its number.
    pub tid: ThreadId,
    /// Whether it is the main thread.
    pub is_main: bool,
    registered: Timestamp,
    ended: Option<Timestamp>,
}

impl<'a> ThreadHead<'a> {
    /// A thread of the snapshot.
    pub fn of(thread: &'a ThreadInfo) -> Self {
        // Only one thread can be the main one.
        let name = match thread.name.as_str() {
            _ if thread.is_main => MAIN_THREAD,
            MAIN_THREAD => "GeckoMain (not the main thread)",
            "" => "(unnamed)",
            name => name,
        };
        let ThreadInfo {
            tid,
            registered,
            ended,
            is_main,
            ..
        } = *thread;
        Self {
            name,
            tid,
            is_main,
            registered,
            ended,
        }
    }

    /// A placeholder for a main thread without data: without a main thread, viewers show neither
    /// the process's name nor its counters.
    pub fn missing_main(process: &ProcessModel<'_>) -> Self {
        let tid = ThreadId::new(u64::from(process.role.pid.get()));
        Self {
            is_main: true,
            ..Self::without_row(process, tid, MAIN_THREAD)
        }
    }

    /// A thread that is known by its number only.
    pub fn without_row(process: &ProcessModel<'_>, tid: ThreadId, name: &'a str) -> Self {
        let registered = process.snapshot.header.recording_start;
        Self {
            name,
            tid,
            is_main: false,
            registered,
            ended: process.ended,
        }
    }

    /// Writes the keys about the thread's process, except the process's number.
    pub fn write_process<W: Write>(process: &ProcessModel<'_>, out: &mut JsonWriter<W>) {
        out.entry_str(
            "processType",
            if process.role.is_root {
                "default"
            } else {
                "child"
            },
        );
        out.entry_str("processName", &process.role.name);
    }

    /// Writes the keys of its lifetime.
    pub fn write_lifetime<W: Write>(&self, process: &ProcessModel<'_>, out: &mut JsonWriter<W>) {
        out.entry_millis_ns("registerTime", Some(process.ns(self.registered)));
        let ended = self.ended.or(process.ended);
        out.entry_millis_ns("unregisterTime", ended.map(|at| process.ns(at)));
    }
}

/// Writes the key `pausedRanges`: the ranges in which recording was paused, as far as the pool
/// still has them.
pub fn write_pauses<W: Write>(process: &ProcessModel<'_>, out: &mut JsonWriter<W>) {
    out.entry_list("pausedRanges", &process.snapshot.pauses, |pause, out| {
        out.begin_object();
        out.entry_millis_ns("startTime", Some(process.ns(pause.start)));
        out.entry_millis_ns("endTime", pause.end.map(|end| process.ns(end)));
        out.entry_str("reason", "profiler-paused");
        out.end_object();
    });
}
