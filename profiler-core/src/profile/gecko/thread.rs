//! One thread: its markers, and the tables that viewers insist on.
//!
//! Samples, stacks and frames are empty tables with all columns of the declared version, which
//! viewers look up by name. The string table comes last, when all rows have used it.

use std::io::Write;

use super::context::Context;
use super::markers::MarkerTable;
use crate::ids::ThreadId;
use crate::profile::json::JsonWriter;
use crate::profile::spec::ShownRange;
use crate::reader::ThreadInfo;
use crate::time::Timestamp;

/// What viewers recognise the main thread by.
const MAIN_THREAD: &str = "GeckoMain";

const EMPTY_TABLES: [(&str, &str); 3] = [
    ("samples", r#"{"schema":{"stack":0,"time":1,"eventDelay":2},"data":[]}"#),
    ("stackTable", r#"{"schema":{"prefix":0,"frame":1},"data":[]}"#),
    (
        "frameTable",
        r#"{"schema":{"location":0,"relevantForJS":1,"innerWindowID":2,"implementation":3,"line":4,"column":5,"category":6,"subcategory":7},"data":[]}"#,
    ),
];

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

/// Writes a thread, whose markers `fill` writes; gives back the times they span.
pub(super) fn write<'a, W: Write, E>(
    context: &'a Context<'a>,
    head: ThreadHead<'_>,
    out: &mut JsonWriter<W>,
    fill: impl FnOnce(&mut MarkerTable<'a, '_, W>) -> Result<(), E>,
) -> Result<ShownRange, E> {
    out.begin_object();
    write_head(context, head, out);
    for (key, table) in EMPTY_TABLES {
        out.key(key);
        out.raw(table);
    }
    let mut markers = MarkerTable::begin(context, out);
    fill(&mut markers)?;
    let (strings, shown) = markers.end();
    out.key("stringTable");
    strings.write_json(out);
    out.end_object();
    Ok(shown)
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
