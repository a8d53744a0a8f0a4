//! The markers of one thread, column by column.
//!
//! A row is a name, two times, a phase, a category, and the payload with the stack as its `cause`. ProfileStrings go to
//! the table that all threads share.

use std::collections::HashMap;
use std::io::{self, Write};

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::{MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::profile::gecko::shared::{MarkerPlans, Shape, TypePlan};
use profiler_core::internal::profile::gecko::write_value;
use profiler_core::internal::profile::{JsonWriter, ShownRange, StringId};
use profiler_core::time::{TimeConverter, Timestamp};

use super::spill::{Column, column, end};
use super::strings::ProfileStrings;

const UNNAMED: &str = "(unnamed)";
/// Call sites that are remembered.
const MOST_SITES: usize = 1 << 14;

/// A call site, looked up once per process.
#[derive(Clone, Copy, Debug)]
struct KnownSite<'a> {
    name: Option<StringId>,
    category: u64,
    marker_type: Option<&'a TypePlan>,
}

/// The call sites of one process.
#[derive(Debug)]
pub(super) struct Sites<'a> {
    plans: &'a MarkerPlans<'a>,
    known: HashMap<DefinitionId, KnownSite<'a>>,
}

impl<'a> Sites<'a> {
    pub(super) fn new(plans: &'a MarkerPlans<'a>) -> Self {
        Self { plans, known: HashMap::new() }
    }

    fn site(&mut self, id: DefinitionId, strings: &mut ProfileStrings) -> KnownSite<'a> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let plan = self.plans.site(id);
        let name = (!plan.name.is_empty()).then(|| strings.intern(plan.name));
        let site = KnownSite { name, category: plan.category, marker_type: plan.marker_type };
        // Entries may name any number.
        if self.known.len() < MOST_SITES {
            self.known.insert(id, site);
        }
        site
    }
}

/// The markers of one thread while they come.
#[derive(Debug)]
pub(super) struct MarkerColumns {
    name: Column,
    start: Column,
    end: Column,
    phase: Column,
    category: Column,
    data: Column,
    len: u64,
    shown: ShownRange,
    converter: TimeConverter,
}

impl MarkerColumns {
    pub(super) fn begin(converter: TimeConverter) -> Self {
        Self {
            name: column(),
            start: column(),
            end: column(),
            phase: column(),
            category: column(),
            data: column(),
            len: 0,
            shown: ShownRange::default(),
            converter,
        }
    }

    /// Ends the table and writes it under the key `markers`; gives the times that it spans.
    pub(super) fn finish<W: Write>(self, out: &mut JsonWriter<W>) -> io::Result<ShownRange> {
        out.key("markers");
        out.begin_object();
        end(self.data, "data", out)?;
        end(self.name, "name", out)?;
        end(self.start, "startTime", out)?;
        end(self.end, "endTime", out)?;
        end(self.phase, "phase", out)?;
        end(self.category, "category", out)?;
        out.entry_u64("length", self.len);
        out.end_object();
        Ok(self.shown)
    }

    /// Adds a marker whose stack is that number.
    pub(super) fn add(
        &mut self,
        marker: &MarkerEntry<'_>,
        stack: Option<u32>,
        sites: &mut Sites<'_>,
        strings: &mut ProfileStrings,
    ) {
        let site = sites.site(marker.site, strings);
        let name = match (marker.name, site.name) {
            (Some(name), _) => strings.intern(name),
            (None, Some(name)) => name,
            (None, None) => strings.own(UNNAMED),
        };
        let at = self.times(marker.timing);
        self.head(name, site.category);
        let cause = stack.map(|stack| (at, stack));
        match (site.marker_type, cause) {
            (None, None) => self.data.null(),
            (marker_type, cause) => write_data(marker_type, marker.payload, cause, strings, &mut self.data),
        }
    }

    /// Adds a marker of the profiler's own: an interval in the default category, whose payload
    /// `payload` writes.
    pub(super) fn add_own(
        &mut self,
        name: StringId,
        (start, end): (i64, i64),
        payload: impl FnOnce(&mut Column),
    ) {
        self.phase(Some(start), Some(end.max(start)), 1);
        self.head(name, 0);
        payload(&mut self.data);
    }

    fn head(&mut self, name: StringId, category: u64) {
        self.name.u64(u64::from(name.get()));
        self.category.u64(category);
        self.len += 1;
    }

    /// Gives the first of its times.
    fn times(&mut self, timing: Timing) -> i64 {
        let converter = self.converter;
        let ns = |at: Timestamp| converter.since_start_ns(at);
        match timing {
            Timing::Instant(at) => self.phase(Some(ns(at)), None, 0),
            Timing::Interval(start, end) => self.phase(Some(ns(start)), Some(ns(end)), 1),
            Timing::Start(at) => self.phase(Some(ns(at)), None, 2),
            Timing::End(at) => self.phase(None, Some(ns(at)), 3),
        }
    }

    fn phase(&mut self, start: Option<i64>, end: Option<i64>, phase: u64) -> i64 {
        let shown = &mut self.shown;
        // Viewers take 0 for no time at all.
        let mut time = |ns: Option<i64>, column: &mut Column| match ns {
            Some(ns) => {
                shown.include(ns);
                column.millis_ns(if ns == 0 { 1 } else { ns });
            }
            None => column.null(),
        };
        time(start, &mut self.start);
        time(end, &mut self.end);
        self.phase.u64(phase);
        start.or(end).unwrap_or(0)
    }
}

/// Writes a payload, or at least the stack.
fn write_data(
    marker_type: Option<&TypePlan>,
    payload: &[u8],
    cause: Option<(i64, u32)>,
    strings: &mut ProfileStrings,
    out: &mut Column,
) {
    out.begin_object();
    if let Some(marker_type) = marker_type {
        out.entry_str("type", &marker_type.name);
        let values = PayloadReader::new(payload).map_while(Result::ok);
        for (field, value) in marker_type.fields.iter().zip(values) {
            if value != FieldValue::None {
                out.prepared_key(&field.key);
                write_field(field.shape, value, strings, out);
            }
        }
    } else {
        out.entry_str("type", STACK_ONLY);
    }
    if let Some((at, stack)) = cause {
        out.key("cause");
        out.begin_object();
        out.entry_millis_ns("time", Some(at));
        out.entry_u64("stack", u64::from(stack));
        out.end_object();
    }
    out.end_object();
}

/// Type of the payload of markers that have a stack and nothing else.
pub(super) const STACK_ONLY: &str = "NoPayloadUserData";

fn write_field(shape: Shape, value: FieldValue<'_>, strings: &mut ProfileStrings, out: &mut Column) {
    match shape {
        Shape::Plain => write_value(value, out),
        Shape::StringIndex => out.u64(u64::from(intern_value(value, strings).get())),
        Shape::List => write_list(value, out, write_value),
        Shape::Table => write_list(value, out, |row, out| write_list(row, out, write_value)),
    }
}

/// ProfileStrings are interned as they are, numbers (flow identifiers) in hexadecimal.
fn intern_value(value: FieldValue<'_>, strings: &mut ProfileStrings) -> StringId {
    match value {
        FieldValue::Str(text) => strings.intern(text),
        FieldValue::U64(number) => strings.intern(&format!("{number:x}")),
        FieldValue::I64(number) => strings.intern(&format!("{number:x}")),
        FieldValue::Bool(flag) => strings.intern(if flag { "true" } else { "false" }),
        FieldValue::F64(number) => strings.intern(&number.to_string()),
        FieldValue::None | FieldValue::List(_) => strings.intern(""),
    }
}

/// Writes a list; what is none is written as a list of one.
fn write_list(value: FieldValue<'_>, out: &mut Column, mut write: impl FnMut(FieldValue<'_>, &mut Column)) {
    out.begin_array();
    match value {
        FieldValue::List(items) => items.for_each(|item| write(item, out)),
        single => write(single, out),
    }
    out.end_array();
}
