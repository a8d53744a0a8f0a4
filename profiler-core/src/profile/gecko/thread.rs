//! One thread: who it is, its samples, its markers, and the tables that these refer to.
//!
//! [`begin`] gives the table of samples, that of markers comes out of it, and [`end`] writes the rest: stacks, frames and
//! texts come last, when all rows have used them. All tables have all columns of the declared version, which
//! viewers look up by name.

use std::io::Write;

use super::context::Context;
use super::markers::MarkerTable;
use super::samples::SampleTable;
use crate::ids::ThreadId;
use crate::profile::json::JsonWriter;
use crate::profile::spec::ShownRange;
use crate::reader::ThreadInfo;
use crate::time::Timestamp;

/// What viewers recognise the main thread by.
const MAIN_THREAD: &str = "GeckoMain";

/// How a thread is presented.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadHead<'a> {
    name: &'a str,
    tid: ThreadId,
    registered: Timestamp,
    ended: Option<Timestamp>,
}

impl<'a> ThreadHead<'a> {
    pub(super) fn of(thread: &'a ThreadInfo) -> Self {
        // Only one thread can be the main one.
        let name = match thread.name.as_str() {
            _ if thread.is_main => MAIN_THREAD,
            MAIN_THREAD => "GeckoMain (not the main thread)",
            "" => "(unnamed)",
            name => name,
        };
        Self { name, tid: thread.tid, registered: thread.registered, ended: thread.ended }
    }

    /// Stands for a main thread of which nothing is left: without one, viewers show neither
    /// the process's name nor its counters.
    pub(super) fn missing_main(context: &Context<'_>) -> Self {
        let header = &context.snapshot.header;
        let tid = ThreadId::new(u64::from(context.role.pid.get()));
        Self { name: MAIN_THREAD, tid, registered: header.recording_start, ended: context.ended }
    }
}

/// Begins a thread; its samples come first.
pub(super) fn begin<'a, 'w, W: Write>(
    context: &'a Context<'a>,
    head: ThreadHead<'_>,
    out: &'w mut JsonWriter<W>,
) -> SampleTable<'a, 'w, W> {
    out.begin_object();
    write_head(context, head, out);
    SampleTable::begin(context, out)
}

/// Ends a thread whose rows are all written; gives back the times they span.
pub(super) fn end<W: Write>(markers: MarkerTable<'_, '_, W>) -> ShownRange {
    let (shown, out) = markers.end();
    out.end_object();
    shown
}

fn write_head<W: Write>(context: &Context<'_>, head: ThreadHead<'_>, out: &mut JsonWriter<W>) {
    out.entry_str("name", head.name);
    out.entry_str("processType", if context.role.is_root { "default" } else { "child" });
    out.entry_str("processName", &context.role.name);
    out.entry_u64("pid", u64::from(context.role.pid.get()));
    out.entry_u64("tid", head.tid.get());
    out.entry_millis_ns("registerTime", Some(context.ns(head.registered)));
    out.entry_millis_ns("unregisterTime", head.ended.or(context.ended).map(|at| context.ns(at)));
}
