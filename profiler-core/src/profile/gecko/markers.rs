//! The marker table of one thread.
//!
//! [`MarkerTable`] writes rows as entries come and keeps only the texts and stacks that they use. A row is
//! `[name, start, end, phase, category]`, with the payload as sixth column if there is one. A marker's stack is
//! part of the payload; one that has nothing else gets a type that says so.

use std::collections::HashMap;
use std::io::Write;

use super::context::Context;
use super::plan::{Shape, TypePlan};
use super::stacks::StackTable;
use super::value::write_value;
use crate::entry::stack::Stack;
use crate::entry::{MarkerEntry, Timing};
use crate::ids::{DefinitionId, ThreadId};
use crate::marker::payload::{FieldValue, PayloadReader};
use crate::profile::json::JsonWriter;
use crate::profile::spec::ShownRange;
use crate::profile::strings::{StringId, StringTable};
use crate::schema::MarkerSchema;
use crate::time::Timestamp;

/// Type of markers that have a stack and no payload; Gecko's name for them.
const NO_PAYLOAD: &str = "NoPayloadUserData";

const UNNAMED: &str = "(unnamed)";

/// A call site, looked up once per thread.
#[derive(Clone, Copy, Debug)]
struct ThreadSite<'a> {
    /// Its name's number in this thread's string table.
    name: Option<StringId>,
    category: u64,
    marker_type: Option<&'a TypePlan>,
}

/// How viewers show markers that have a stack and no payload.
pub(super) fn schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table(NO_PAYLOAD)
}

/// Writes the marker table of one thread; see the [module](self).
#[derive(Debug)]
pub(super) struct MarkerTable<'a, 'w, W: Write> {
    context: &'a Context<'a>,
    out: &'w mut JsonWriter<W>,
    strings: StringTable,
    stacks: StackTable,
    sites: HashMap<DefinitionId, ThreadSite<'a>>,
    shown: ShownRange,
}

impl<'a, 'w, W: Write> MarkerTable<'a, 'w, W> {
    /// Begins the table: key, schema, and the array of rows. `stacks` are those of the thread's samples, `shown`
    /// what these span.
    pub(super) fn begin(
        context: &'a Context<'a>,
        out: &'w mut JsonWriter<W>,
        stacks: StackTable,
        shown: ShownRange,
    ) -> Self {
        out.key("markers");
        out.begin_object();
        out.key("schema");
        out.raw(r#"{"name":0,"startTime":1,"endTime":2,"phase":3,"category":4,"data":5}"#);
        out.key("data");
        out.begin_array();
        Self { context, out, strings: StringTable::new(), stacks, sites: HashMap::new(), shown }
    }

    /// Whether there is no use in writing more.
    pub(super) const fn is_failed(&self) -> bool {
        self.out.is_failed()
    }

    /// Ends the table, and writes those that its rows and the samples refer to; gives back the times that all of
    /// them span, and the output.
    pub(super) fn end(mut self) -> (ShownRange, &'w mut JsonWriter<W>) {
        self.out.end_array();
        self.out.end_object();
        self.stacks.write(self.context, &mut self.strings, self.out);
        self.out.key("stringTable");
        self.strings.write_json(self.out);
        (self.shown, self.out)
    }

    /// Writes a marker that the thread `recorder` recorded.
    pub(super) fn write(&mut self, marker: &MarkerEntry<'_>, recorder: ThreadId) {
        let site = self.site(marker.site);
        let name = match (marker.name, site.name) {
            (Some(name), _) => self.strings.intern(name),
            (None, Some(name)) => name,
            (None, None) => self.strings.intern(UNNAMED),
        };
        self.out.begin_array();
        self.out.u64(u64::from(name.get()));
        self.write_timing(marker.timing);
        self.out.u64(site.category);
        if site.marker_type.is_some() || !marker.stack.is_empty() {
            self.out.begin_object();
            self.write_payload(site.marker_type, marker.payload);
            let elsewhere = marker.foreign.map(|_| recorder);
            self.write_stack(marker.stack, marker.timing.last(), elsewhere);
            self.out.end_object();
        }
        self.out.end_array();
    }

    /// Writes a marker of the profiler's own: an interval in the default category, whose payload
    /// `payload` writes.
    pub(super) fn write_own(
        &mut self,
        name: &str,
        (start, end): (i64, i64),
        payload: impl FnOnce(&mut JsonWriter<W>),
    ) {
        self.begin_own(name);
        self.write_phase(Some(start), Some(end.max(start)), 1);
        self.out.u64(0);
        payload(self.out);
        self.out.end_array();
    }

    /// Writes an instant in the default category, whose payload `payload` writes.
    pub(super) fn write_instant(&mut self, name: &str, at: Timestamp, payload: impl FnOnce(&mut Self)) {
        self.begin_own(name);
        self.write_timing(Timing::Instant(at));
        self.out.u64(0);
        payload(self);
        self.out.end_array();
    }

    fn begin_own(&mut self, name: &str) {
        let name = self.strings.intern(name);
        self.out.begin_array();
        self.out.u64(u64::from(name.get()));
    }

    /// For payloads that others write.
    pub(super) const fn out(&mut self) -> &mut JsonWriter<W> {
        self.out
    }

    /// Writes the stack of a marker into its payload, if it has one; `thread` took it, if not the marker's own.
    pub(super) fn write_stack(&mut self, stack: Stack<'_>, at: Timestamp, thread: Option<ThreadId>) {
        let Some(stack) = self.stacks.of(stack) else { return };
        self.out.key("stack");
        self.out.begin_object();
        if let Some(thread) = thread {
            self.out.entry_u64("tid", thread.get());
        }
        self.out.key("samples");
        self.out.begin_object();
        self.out.key("schema");
        self.out.raw(r#"{"stack":0,"time":1}"#);
        self.out.key("data");
        self.out.begin_array();
        self.out.begin_array();
        self.out.u64(u64::from(stack.get()));
        self.out.millis_ns(self.context.ns(at));
        self.out.end_array();
        self.out.end_array();
        self.out.end_object();
        self.out.end_object();
    }

    fn site(&mut self, id: DefinitionId) -> ThreadSite<'a> {
        if let Some(site) = self.sites.get(&id) {
            return *site;
        }
        let plan = self.context.plans.site(id);
        let name = (!plan.name.is_empty()).then(|| self.strings.intern(plan.name));
        let site = ThreadSite { name, category: plan.category, marker_type: plan.marker_type };
        self.sites.insert(id, site);
        site
    }

    fn write_timing(&mut self, timing: Timing) {
        let ns = |at| Some(self.context.ns(at));
        match timing {
            Timing::Instant(at) => self.write_phase(ns(at), None, 0),
            Timing::Interval(start, end) => self.write_phase(ns(start), ns(end), 1),
            Timing::Start(at) => self.write_phase(ns(at), None, 2),
            Timing::End(at) => self.write_phase(None, ns(at), 3),
        }
    }

    fn write_phase(&mut self, start: Option<i64>, end: Option<i64>, phase: u64) {
        self.write_time(start);
        self.write_time(end);
        self.out.u64(phase);
    }

    /// Viewers refuse a marker without any time and take 0 for none, so 0 becomes 1 ns.
    fn write_time(&mut self, ns: Option<i64>) {
        let Some(ns) = ns else { return self.out.null() };
        self.shown.include(ns);
        self.out.millis_ns(if ns == 0 { 1 } else { ns });
    }

    fn write_payload(&mut self, marker_type: Option<&TypePlan>, payload: &[u8]) {
        let Some(marker_type) = marker_type else { return self.out.entry_str("type", NO_PAYLOAD) };
        self.out.entry_str("type", &marker_type.name);
        for (field, value) in marker_type.fields.iter().zip(PayloadReader::new(payload).map_while(Result::ok))
        {
            if value != FieldValue::None {
                self.out.prepared_key(&field.key);
                self.write_field(field.shape, value);
            }
        }
    }

    fn write_field(&mut self, shape: Shape, value: FieldValue<'_>) {
        match shape {
            Shape::Plain => write_value(value, self.out),
            Shape::StringIndex => {
                let text = self.intern_value(value);
                self.out.u64(u64::from(text.get()));
            }
            Shape::List => write_list(value, self.out, write_value),
            Shape::Table => write_list(value, self.out, |row, out| write_list(row, out, write_value)),
        }
    }

    /// Texts are interned as they are, numbers (flow identifiers) in hexadecimal.
    fn intern_value(&mut self, value: FieldValue<'_>) -> StringId {
        match value {
            FieldValue::Str(text) => self.strings.intern(text),
            FieldValue::U64(number) => self.strings.intern(&format!("{number:x}")),
            FieldValue::I64(number) => self.strings.intern(&format!("{number:x}")),
            FieldValue::Bool(flag) => self.strings.intern(if flag { "true" } else { "false" }),
            FieldValue::F64(number) => self.strings.intern(&number.to_string()),
            FieldValue::None | FieldValue::List(_) => self.strings.intern(""),
        }
    }
}

/// Writes a list; what is none is written as a list of one.
fn write_list<W: Write>(
    value: FieldValue<'_>,
    out: &mut JsonWriter<W>,
    mut write: impl FnMut(FieldValue<'_>, &mut JsonWriter<W>),
) {
    out.begin_array();
    match value {
        FieldValue::List(items) => items.for_each(|item| write(item, out)),
        single => write(single, out),
    }
    out.end_array();
}
