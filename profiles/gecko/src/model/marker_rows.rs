//! The contents of a row of a marker table: name, times, category, payload.
//!
//! Both formats resolve a marker with [`MarkerSites::resolve`], write the parts of the row in the
//! order of their tables, and the payload with [`ResolvedMarker::write_payload`]. A marker's stack
//! is part of its payload; a marker with a stack and no payload has the type `NO_PAYLOAD`.

use std::collections::HashMap;
use std::io::Write;

use super::SpanKey;
use super::contexts::write_trace;
use super::marker_plans::{MarkerPlans, Shape, SitePlan, TypePlan};
use super::value::write_value;
use crate::ShownRange;
use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::{MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::time::Timestamp;
use profiler_json::JsonWriter;
use profiler_json::strings::{StringId, StringTable};

/// Type of markers that have a stack and no payload; Gecko's name for them.
pub(super) const NO_PAYLOAD: &str = "NoPayloadUserData";

const UNNAMED: &str = "(unnamed)";
/// Maximum number of call sites that are remembered, because entries may refer to any number.
const MAX_SITES: usize = 1 << 14;

/// The string table that a format's markers refer to.
pub trait TextTable {
    /// The number of a text that comes from a process.
    fn intern(&mut self, text: &str) -> StringId;

    /// The number of a text that comes from the profiler itself.
    fn own(&mut self, text: &str) -> StringId;
}

impl TextTable for StringTable {
    fn intern(&mut self, text: &str) -> StringId {
        Self::intern(self, text)
    }

    fn own(&mut self, text: &str) -> StringId {
        Self::intern(self, text)
    }
}

/// A call site, looked up once per string table.
#[derive(Clone, Copy, Debug)]
struct KnownSite<'a> {
    name: Option<StringId>,
    plan: SitePlan<'a>,
}

/// The call sites of one process, with their names in one string table.
#[derive(Debug)]
pub struct MarkerSites<'a> {
    plans: &'a MarkerPlans<'a>,
    known: HashMap<DefinitionId, KnownSite<'a>>,
}

/// A marker whose call site is known.
#[derive(Clone, Copy, Debug)]
pub struct ResolvedMarker<'a> {
    /// Number of its name.
    pub name: StringId,
    /// Row of its category.
    pub category: u64,
    marker_type: Option<&'a TypePlan>,
}

impl<'a> MarkerSites<'a> {
    /// No call site is known yet.
    pub fn new(plans: &'a MarkerPlans<'a>) -> Self {
        Self {
            plans,
            known: HashMap::new(),
        }
    }

    /// Looks up the contents of a marker's row except its times.
    pub fn resolve(
        &mut self,
        marker: &MarkerEntry<'_>,
        texts: &mut impl TextTable,
    ) -> ResolvedMarker<'a> {
        let KnownSite { name, plan } = self.site(marker.site, texts);
        let name = match (marker.name, name) {
            (Some(name), _) => texts.intern(name),
            (None, Some(name)) => name,
            (None, None) => texts.own(UNNAMED),
        };
        ResolvedMarker {
            name,
            category: plan.category,
            marker_type: plan.marker_type,
        }
    }

    fn site(&mut self, id: DefinitionId, texts: &mut impl TextTable) -> KnownSite<'a> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let plan = self.plans.site(id);
        let name = (!plan.name.is_empty()).then(|| texts.intern(plan.name));
        let site = KnownSite { name, plan };
        if self.known.len() < MAX_SITES {
            self.known.insert(id, site);
        }
        site
    }
}

impl ResolvedMarker<'_> {
    /// Whether it has a payload, apart from a stack.
    pub const fn has_payload(&self) -> bool {
        self.marker_type.is_some()
    }

    /// The span that a marker starts or ends, if its type is one of those of numbered spans.
    pub fn span(&self, marker: &MarkerEntry<'_>) -> Option<SpanKey> {
        let field = self.marker_type?.span_field?;
        let mut values = PayloadReader::new(marker.payload).map_while(Result::ok);
        let FieldValue::U64(number) = values.nth(field)? else {
            return None;
        };
        let name = self.name;
        Some(SpanKey { number, name })
    }

    /// Writes the type and the fields of a marker's payload into an open object, and its trace.
    pub fn write_payload<W: Write>(
        &self,
        marker: &MarkerEntry<'_>,
        texts: &mut impl TextTable,
        out: &mut JsonWriter<W>,
    ) {
        let may_have_trace = self.marker_type.is_none_or(|of| of.may_have_trace);
        let trace = marker.trace.filter(|_| may_have_trace);
        self.write_fields(marker.payload, texts, out);
        if let Some(trace) = trace {
            write_trace(trace, out);
        }
    }

    fn write_fields<W: Write>(
        &self,
        payload: &[u8],
        texts: &mut impl TextTable,
        out: &mut JsonWriter<W>,
    ) {
        let Some(marker_type) = self.marker_type else {
            return out.entry_str("type", NO_PAYLOAD);
        };
        out.entry_str("type", &marker_type.name);
        let values = PayloadReader::new(payload).map_while(Result::ok);
        for (field, value) in marker_type.fields.iter().zip(values) {
            if value != FieldValue::None {
                out.prepared_key(&field.key);
                write_field(field.shape, value, texts, out);
            }
        }
    }
}

/// The times of a marker in nanoseconds from the session's start, and its phase.
#[derive(Clone, Copy, Debug)]
pub struct MarkerTimes {
    /// When it began.
    pub start: Option<i64>,
    /// When it ended.
    pub end: Option<i64>,
    /// The viewers' number for which of the two times it has.
    pub phase: u64,
}

impl MarkerTimes {
    /// The times of a marker; `ns` converts them. The program chooses the times of an interval, so its
    /// end may be before its start.
    #[inline]
    pub fn of(timing: Timing, ns: impl Fn(Timestamp) -> i64) -> Self {
        let (start, end, phase) = match timing {
            Timing::Instant(at) => (Some(ns(at)), None, 0),
            Timing::Interval(start, end) => return Self::interval(ns(start), ns(end)),
            Timing::Start(at) => (Some(ns(at)), None, 2),
            Timing::End(at) => (None, Some(ns(at)), 3),
        };
        Self { start, end, phase }
    }

    /// An interval; an end before its start becomes the start.
    pub fn interval(start: i64, end: i64) -> Self {
        Self {
            start: Some(start),
            end: Some(end.max(start)),
            phase: 1,
        }
    }

    /// Its start or, without one, its end.
    pub fn first(&self) -> i64 {
        self.start.or(self.end).unwrap_or(0)
    }
}

/// Writes a time of a marker, and includes it in `shown`. Viewers take 0 for a missing time, so 0
/// becomes 1 ns.
#[inline]
pub fn write_marker_time<W: Write>(
    ns: Option<i64>,
    shown: &mut ShownRange,
    out: &mut JsonWriter<W>,
) {
    let Some(ns) = ns else { return out.null() };
    shown.include(ns);
    out.millis_ns(if ns == 0 { 1 } else { ns });
}

fn write_field<W: Write>(
    shape: Shape,
    value: FieldValue<'_>,
    texts: &mut impl TextTable,
    out: &mut JsonWriter<W>,
) {
    match shape {
        Shape::Plain => write_value(value, out),
        Shape::StringIndex => out.u64(u64::from(intern_value(value, texts).get())),
        Shape::List => write_list(value, out, write_value),
        Shape::Table => write_list(value, out, |row, out| write_list(row, out, write_value)),
    }
}

/// Texts are interned as they are, numbers (flow identifiers) as the texts of flows: 16 hexadecimal
/// digits.
fn intern_value(value: FieldValue<'_>, texts: &mut impl TextTable) -> StringId {
    match value {
        FieldValue::Str(text) => texts.intern(text),
        FieldValue::U64(number) => texts.intern(&format!("{number:016x}")),
        FieldValue::I64(number) => texts.intern(&format!("{number:016x}")),
        FieldValue::Bool(flag) => texts.intern(if flag { "true" } else { "false" }),
        FieldValue::F64(number) => texts.intern(&number.to_string()),
        FieldValue::None | FieldValue::List(_) => texts.intern(""),
    }
}

/// Writes a list; a single value is written as a list of one.
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
