//! Counters: what each one came to.
//!
//! The pool holds a counter's value, not its history, so each has two rows: nothing when
//! recording began, everything at the capture. Viewers take `count` as the difference to the
//! row before and the first row as 0.

use std::io::Write;

use super::context::Context;
use super::machine;
use crate::ids::CounterIndex;
use crate::params::Features;
use crate::profile::json::JsonWriter;
use crate::reader::{CounterDefinition, CounterInfo};

/// Writes the key `counters` with all counters of the process.
pub(super) fn write<W: Write>(context: &Context<'_>, out: &mut JsonWriter<W>) {
    out.key("counters");
    out.begin_array();
    context.snapshot.counters.iter().for_each(|counter| write_counter(context, counter, out));
    if let Some(counter) = resident_memory(context) {
        write_counter(context, &counter, out);
    }
    out.end_array();
}

/// The memory of a process that lives, if the session wants memory counters.
fn resident_memory(context: &Context<'_>) -> Option<CounterInfo> {
    let params = context.snapshot.header.params.as_ref();
    let wanted = params.is_some_and(|params| params.features.contains(Features::MEMORY));
    let bytes =
        if wanted && context.ended.is_none() { machine::resident_bytes(context.role.pid) } else { None };
    let definition = CounterDefinition {
        cell: CounterIndex::new(u32::MAX),
        name: "Resident memory".to_owned(),
        category: "Memory".to_owned(),
        description: "Memory that the process has resident".to_owned(),
    };
    bytes.map(|bytes| CounterInfo { definition, value: i64::try_from(bytes).unwrap_or(i64::MAX), number: 1 })
}

fn write_counter<W: Write>(context: &Context<'_>, counter: &CounterInfo, out: &mut JsonWriter<W>) {
    let start = context.recording_start_ns();
    let end = context.ended.map_or_else(|| context.capture_ns(), |at| context.ns(at));
    out.begin_object();
    out.entry_str("name", &counter.definition.name);
    out.entry_str("category", &counter.definition.category);
    out.entry_str("description", &counter.definition.description);
    out.key("samples");
    out.begin_object();
    out.key("schema");
    out.raw(r#"{"time":0,"count":1,"number":2}"#);
    out.key("data");
    out.begin_array();
    write_row(start, 0, 0, out);
    write_row(end.max(start.saturating_add(1)), counter.value, counter.number, out);
    out.end_array();
    out.end_object();
    out.end_object();
}

fn write_row<W: Write>(at_ns: i64, count: i64, number: u64, out: &mut JsonWriter<W>) {
    out.begin_array();
    out.millis_ns(at_ns);
    out.i64(count);
    out.u64(number);
    out.end_array();
}
