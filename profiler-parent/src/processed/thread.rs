//! Writes one thread of the profile: its identity and lifetime, then its tables.

use std::io::{self, Write};

use profiler_gecko::ShownRange;
use profiler_gecko::model::{ThreadHead, write_pauses};
use profiler_json::JsonWriter;

use super::markers::MarkerColumns;
use super::process::WrittenProcess;
use super::samples::Ledger;
use super::sorted_thread::SortedThread;

fn write_head<W: Write>(
    process: &WrittenProcess<'_>,
    head: &ThreadHead<'_>,
    out: &mut JsonWriter<W>,
) {
    let model = &process.model;
    out.entry_str("name", head.name);
    out.entry_bool("isMainThread", head.is_main);
    ThreadHead::write_process(model, out);
    out.entry_str("pid", process.pid);
    out.entry_u64("tid", head.tid.get());
    out.entry_millis_ns("processStartupTime", Some(model.recording_start_ns()));
    out.entry_millis_ns("processShutdownTime", model.ended.map(|at| model.ns(at)));
    head.write_lifetime(model, out);
    write_pauses(model, out);
}

/// Writes a thread. Returns the range of its times.
pub(super) fn write<W: Write>(
    process: &WrittenProcess<'_>,
    head: &ThreadHead<'_>,
    sorted: &SortedThread,
    markers: MarkerColumns,
    ledger: Ledger<'_>,
    out: &mut JsonWriter<W>,
) -> io::Result<ShownRange> {
    out.begin_object();
    write_head(process, head, out);
    let mut shown = ledger.samples(&sorted.samples, out)?;
    shown += ledger.allocations(&sorted.allocations, head.tid, out)?;
    shown += markers.finish(out)?;
    out.end_object();
    Ok(shown)
}
