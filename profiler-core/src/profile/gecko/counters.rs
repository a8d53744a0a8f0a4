//! Counters: how each one went, or at least what it came to.
//!
//! The pool holds every counter's value now; the sampler records how it went. Rows say how much was added since the
//! row before, and viewers take the first row as 0: the rows of a counter begin with nothing when recording began, and
//! end with what it came to at the capture. Of one whose first entries are evicted, what was before the first that is
//! left is not known; only of memory is it shown as if it had been added then.

use std::io::Write;

use super::context::Context;
use super::machine;
use crate::ids::CounterIndex;
use crate::params::Features;
use crate::profile::json::JsonWriter;
use crate::reader::{CounterDefinition, CounterInfo};

/// What viewers draw as bytes that are there, rather than as a rate.
const MEMORY: &str = "Memory";
const RESIDENT_MEMORY: &str = "Resident memory";

/// The memory of a process that lives, if the session wants memory counters and did not record this one.
pub(super) fn resident_memory(context: &Context<'_>) -> Option<CounterInfo> {
    let params = context.snapshot.header.params.as_ref();
    let is_known = context.snapshot.counters.iter().any(|known| known.definition.name == RESIDENT_MEMORY);
    let wanted = !is_known && params.is_some_and(|params| params.features.contains(Features::MEMORY));
    let bytes =
        if wanted && context.ended.is_none() { machine::resident_bytes(context.role.pid) } else { None };
    let definition = CounterDefinition {
        cell: CounterIndex::new(u32::MAX),
        name: RESIDENT_MEMORY.to_owned(),
        category: MEMORY.to_owned(),
        description: "Memory that the process has resident".to_owned(),
    };
    bytes.map(|bytes| CounterInfo { definition, value: i64::try_from(bytes).unwrap_or(i64::MAX), number: 1 })
}

/// Writes one counter.
#[derive(Debug)]
pub(super) struct CounterTable<'a, 'w, W: Write> {
    context: &'a Context<'a>,
    counter: &'a CounterInfo,
    out: &'w mut JsonWriter<W>,
    /// When, value and number of the row before.
    last: Option<(i64, i64, u64)>,
}

impl<'a, 'w, W: Write> CounterTable<'a, 'w, W> {
    /// Begins a counter, up to its rows.
    pub(super) fn begin(
        context: &'a Context<'a>,
        counter: &'a CounterInfo,
        out: &'w mut JsonWriter<W>,
    ) -> Self {
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
        Self { context, counter, out, last: None }
    }

    /// Writes what the counter came to at some time. `is_whole`: the first of these is the first that there was.
    pub(super) fn write(&mut self, at_ns: i64, value: i64, number: u64, is_whole: bool) {
        if self.last.is_none() {
            let start = if is_whole { self.context.recording_start_ns() } else { at_ns };
            self.write_row(start, 0, 0);
            let is_known = is_whole || self.counter.definition.category == MEMORY;
            self.last = Some(if is_known { (start, 0, 0) } else { (start, value, number) });
            if !is_known {
                return;
            }
        }
        let Some((last_ns, last_value, last_number)) = self.last else { return };
        let at_ns = at_ns.max(last_ns);
        self.write_row(at_ns, value.saturating_sub(last_value), number.saturating_sub(last_number));
        self.last = Some((at_ns, value, number));
    }

    /// Ends the counter with what it is now.
    pub(super) fn end(mut self) {
        let end = self.context.ended.map_or_else(|| self.context.capture_ns(), |at| self.context.ns(at));
        let after = self.last.map_or_else(|| self.context.recording_start_ns(), |(at_ns, ..)| at_ns);
        self.write(end.max(after.saturating_add(1)), self.counter.value, self.counter.number, true);
        self.out.end_array();
        self.out.end_object();
        self.out.end_object();
    }

    fn write_row(&mut self, at_ns: i64, count: i64, number: u64) {
        self.out.begin_array();
        self.out.millis_ns(at_ns);
        self.out.i64(count);
        self.out.u64(number);
        self.out.end_array();
    }
}
