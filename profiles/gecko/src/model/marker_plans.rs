//! The properties of markers that are computed once per call site, not once per marker.
//!
//! Names, category numbers, escaped keys and the form of each field are computed from the pool's
//! definitions; [`super::marker_rows`] looks them up by the number in the entry.

use std::borrow::Cow;
use std::collections::HashMap;

use super::categories::find_category;
use super::contexts::{has_trace_keys, is_trace_key};
use crate::CategoryRow;
use profiler_core::ids::DefinitionId;
use profiler_core::internal::reader::{Definitions, MarkerType};
use profiler_core::marker::schema::{FieldFormat, Format, MarkerSchema, RESERVED_NAMES};
use profiler_core::marker::{ProfilerMarker, SpanDetail, SpanMark, Text};
use profiler_json::writer::PreparedKey;

/// How the value of a field becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The value itself.
    Plain,
    /// The number of its text in the thread's string table.
    StringIndex,
    /// A list; a single value becomes a list of one.
    List,
    /// A list of lists; any value that is not a list becomes a list of one.
    Table,
}

impl Shape {
    fn of(format: Option<&FieldFormat>) -> Self {
        match format {
            Some(FieldFormat::Table(_)) => Self::Table,
            Some(FieldFormat::Value(Format::List)) => Self::List,
            Some(FieldFormat::Value(format)) if format.is_string_index() => Self::StringIndex,
            _ => Self::Plain,
        }
    }
}

/// A field of a payload.
#[derive(Clone, Debug)]
pub(super) struct FieldPlan {
    /// Its key.
    pub(super) key: PreparedKey,
    /// How its value is written.
    pub(super) shape: Shape,
}

/// A type of payload.
#[derive(Clone, Debug)]
pub(super) struct TypePlan {
    /// The payload's `type`.
    pub(super) name: String,
    /// Its fields, in the order of the encoded values.
    pub(super) fields: Vec<FieldPlan>,
    /// Which of the values is the number of a span, if the markers are starts and ends of spans.
    pub(super) span_field: Option<usize>,
    /// Whether its payloads may have the fields of a trace besides its own.
    pub(super) may_have_trace: bool,
}

impl TypePlan {
    fn new(marker_type: &MarkerType) -> Self {
        let schema = &marker_type.schema;
        let field = |key: &String| FieldPlan {
            key: PreparedKey::new(&safe_key(key)),
            shape: Shape::of(schema.field_named(key).map(|field| &field.format)),
        };
        let is_span = SpanMark::is_type(&schema.name);
        let span_field = marker_type.keys.iter().position(|key| key == "span");
        Self {
            name: safe_type(schema).into_owned(),
            span_field: span_field.filter(|_| is_span),
            may_have_trace: !has_trace_keys(schema)
                && !marker_type.keys.iter().any(|key| is_trace_key(key)),
            fields: marker_type.keys.iter().map(field).collect(),
        }
    }
}

/// A call site.
#[derive(Clone, Copy, Debug)]
pub(super) struct SitePlan<'a> {
    /// Name of its markers; empty if each carries its own.
    pub(super) name: &'a str,
    /// Row of its category.
    pub(super) category: u64,
    /// Type of its payloads.
    pub(super) marker_type: Option<&'a TypePlan>,
}

/// The plans of the call sites and payload types of one process.
#[derive(Debug)]
pub struct MarkerPlans<'a> {
    definitions: &'a Definitions,
    categories: &'a [CategoryRow],
    types: HashMap<DefinitionId, TypePlan>,
}

impl<'a> MarkerPlans<'a> {
    /// The plans of all types that a process defines.
    pub fn new(definitions: &'a Definitions, categories: &'a [CategoryRow]) -> Self {
        let types = definitions
            .types_by_id()
            .map(|(id, known)| (id, TypePlan::new(known)))
            .collect();
        Self {
            definitions,
            categories,
            types,
        }
    }

    /// The plan of a call site. An unknown call site has neither name nor type.
    pub(super) fn site(&self, id: DefinitionId) -> SitePlan<'_> {
        let Some(site) = self.definitions.site(id) else {
            return SitePlan {
                name: "",
                category: 0,
                marker_type: None,
            };
        };
        let category = self.definitions.category(site.category);
        let category = category.and_then(|category| find_category(self.categories, &category.name));
        let marker_type = self.types.get(&site.marker_type);
        SitePlan {
            name: &site.name,
            category: category.unwrap_or(0),
            marker_type,
        }
    }
}

/// Renames a key that viewers reserve. Viewers read the reserved keys of a payload as the type and
/// the stack of the marker, and fail if they have other contents.
pub(super) fn safe_key(key: &str) -> Cow<'_, str> {
    safe(key, matches!(key, "type" | "stack" | "cause"))
}

/// Renames a type whose name viewers, or the profiler itself, use for a type with other fields. The
/// recorder of a process does the same, but the parent does not trust what it reads.
pub(super) fn safe_type(schema: &MarkerSchema) -> Cow<'_, str> {
    let name = schema.name.as_str();
    let is_taken = match name {
        Text::TYPE_NAME => *schema != Text::schema(),
        SpanMark::TYPE_NAME => *schema != SpanMark::schema(),
        SpanDetail::TYPE_NAME => *schema != SpanDetail::schema(),
        _ => RESERVED_NAMES.contains(&name),
    };
    safe(name, is_taken)
}

fn safe(name: &str, taken: bool) -> Cow<'_, str> {
    if taken {
        Cow::Owned(format!("{name}_"))
    } else {
        Cow::Borrowed(name)
    }
}
