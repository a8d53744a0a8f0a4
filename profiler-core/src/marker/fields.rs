//! Markers whose fields are given in the macro.
//!
//! Called by the macros. Each call site defines a marker type when it first records. The type has
//! one field for each key; the type of the value decides its format. Sites with the same name, keys
//! and formats have the same type. Invariant: the keys and the types of a
//! site never change.

use super::payload::{FieldWriter, PayloadError};
use super::record::Payload;
use super::site::{MarkerSite, define_schema};
use super::span_mark::SpanMark;
use super::{MarkerFields, MarkerOptions};
use crate::category::CategoryPair;
use crate::manager::ChunkManager;
use crate::marker_value::FieldSink;
use crate::record::session_state;
use crate::schema::{Format, MarkerField, MarkerSchema};
use crate::time::Timestamp;

/// The maximum length of a formatted text, in bytes.
const MAX_TEXT: usize = 1 << 16;
/// The Gecko version whose format names appear in type names: the newest.
const FORMAT_NAMES: u32 = u32::MAX;

/// The names of the fields of a call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldNames {
    keys: &'static [&'static str],
    /// Whether the first field is the number of a span.
    is_span: bool,
}

impl FieldNames {
    /// Those of a marker.
    pub const fn new(keys: &'static [&'static str]) -> Self {
        Self {
            keys,
            is_span: false,
        }
    }

    /// Those of a span, whose first field is its number.
    pub const fn of_span(keys: &'static [&'static str]) -> Self {
        Self {
            keys,
            is_span: true,
        }
    }
}

impl MarkerSite {
    /// Records a marker of this site with these fields. The caller has checked that a session runs.
    #[inline(always)]
    pub fn add_fields<F: MarkerFields>(
        &'static self,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        names: FieldNames,
        fields: &F,
    ) {
        let define = |manager: &ChunkManager| {
            let schema = schema(self.name(), names, F::FORMATS);
            let keys = names.keys.iter().map(|key| (*key).to_owned());
            define_schema(manager, &schema, keys.collect())
        };
        self.add_payload(category, options, Fields(fields), define);
    }

    /// Records the end of a span of this site, whose start has fields. Has no effect if the start
    /// is in the pool of another session.
    #[inline]
    pub(super) fn add_end(&'static self, options: MarkerOptions, number: u64) {
        self.add_if_known(options, Fields(&(number,)));
    }
}

/// The values of the fields of a marker.
struct Fields<'a, F>(&'a F);

impl<F> Clone for Fields<'_, F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Fields<'_, F> {}

impl<F: MarkerFields> Payload for Fields<'_, F> {
    #[inline]
    fn write(self, room: &mut [u8]) -> Result<Option<usize>, ()> {
        let mut writer = FieldWriter::new(room);
        match self.0.write(&mut writer) {
            Ok(()) => Ok(Some(writer.written())),
            Err(PayloadError::NoRoom) => Ok(None),
            Err(_) => Err(()),
        }
    }
}

/// The schema of the type of a call site.
fn schema(name: &str, names: FieldNames, formats: &[Format]) -> MarkerSchema {
    let number = usize::from(names.is_span);
    let pairs = || names.keys.iter().zip(formats).skip(number);
    let list = |text: &dyn Fn(&str, Format) -> String| -> String {
        let all: Vec<String> = pairs().map(|(key, format)| text(key, *format)).collect();
        all.join(", ")
    };
    let prefix = if names.is_span {
        SpanMark::TYPE_PREFIX
    } else {
        ""
    };
    let types = list(&|key, format| format!("{key}: {}", format.name(FORMAT_NAMES)));
    let values = list(&|key, _| format!("{key}={{marker.data.{key}}}"));
    let label = format!("{{marker.name}} — {values}");
    let schema = MarkerSchema::in_chart_and_table(format!("{prefix}{name} ({types})"))
        .tooltip_label("{marker.name}")
        .chart_label(label.clone())
        .table_label(label);
    let schema = match names.keys {
        [number, ..] if names.is_span => schema.field(
            MarkerField::new(*number, Format::Integer)
                .label("Span")
                .not_searchable(),
        ),
        _ => schema,
    };
    pairs().fold(schema, |schema, (key, format)| {
        schema.key_format(*key, *format)
    })
}

impl FieldSink for FieldWriter<'_> {
    type Error = PayloadError;

    #[inline]
    fn put_none(&mut self) -> Result<(), PayloadError> {
        self.none()
    }

    #[inline]
    fn put_bool(&mut self, value: bool) -> Result<(), PayloadError> {
        self.bool(value)
    }

    #[inline]
    fn put_u64(&mut self, value: u64) -> Result<(), PayloadError> {
        self.u64(value)
    }

    #[inline]
    fn put_i64(&mut self, value: i64) -> Result<(), PayloadError> {
        self.i64(value)
    }

    #[inline]
    fn put_f64(&mut self, value: f64) -> Result<(), PayloadError> {
        self.f64(value)
    }

    #[inline]
    fn put_text(&mut self, value: &str) -> Result<(), PayloadError> {
        self.text(value, usize::MAX)
    }

    fn put_display(&mut self, value: std::fmt::Arguments<'_>) -> Result<(), PayloadError> {
        self.display(value, MAX_TEXT)
    }
}

/// Records one interval marker with fields when it is dropped. Made by [`crate::scope!`].
///
/// The values are those at the beginning of the scope. Otherwise like
/// [`MarkerScope`](super::MarkerScope).
#[derive(Debug)]
#[must_use = "a scope ends when its guard is dropped; bind it: let _scope = scope!(…)"]
pub struct FieldScope<F: MarkerFields> {
    open: Option<OpenFields<F>>,
    /// Not `Send`: the marker belongs to the thread that opened the scope.
    thread: std::marker::PhantomData<*const ()>,
}

#[derive(Debug)]
struct OpenFields<F> {
    site: &'static MarkerSite,
    category: CategoryPair,
    start: Timestamp,
    names: FieldNames,
    fields: F,
}

impl<F: MarkerFields> FieldScope<F> {
    /// Opens a scope and evaluates the fields if a session runs. Otherwise, does nothing.
    #[inline(always)]
    pub fn new(
        site: &'static MarkerSite,
        category: impl Into<CategoryPair>,
        names: FieldNames,
        fields: impl FnOnce() -> F,
    ) -> Self {
        let open = session_state::is_active().then(|| OpenFields {
            site,
            category: category.into(),
            names,
            fields: fields(),
            start: Timestamp::now(),
        });
        Self {
            open,
            thread: std::marker::PhantomData,
        }
    }
}

impl<F: MarkerFields> Drop for FieldScope<F> {
    #[inline(always)]
    fn drop(&mut self) {
        let Some(open) = &self.open else { return };
        if session_state::is_active() {
            let options = MarkerOptions::interval_until_now_from(open.start);
            open.site
                .add_fields(open.category, options, open.names, &open.fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_after_its_marker_keys_and_formats() {
        let made = schema(
            "load",
            FieldNames::new(&["url", "bytes"]),
            <(&str, u64)>::FORMATS,
        );
        assert_eq!(made.name, "load (url: string, bytes: integer)");
        let label = "{marker.name} — url={marker.data.url}, bytes={marker.data.bytes}";
        assert_eq!(made.table_label.as_deref(), Some(label));
        assert_eq!(made.check(), Ok(()));
        let other = schema(
            "load",
            FieldNames::new(&["url", "bytes"]),
            <(&str, f64)>::FORMATS,
        );
        assert_ne!(made.name, other.name);
        let names = FieldNames::of_span(&["span", "url"]);
        let span = schema("load", names, <(u64, &str)>::FORMATS);
        assert_eq!(span.name, "Span load (url: string)");
        assert!(SpanMark::is_type(&span.name) && span.field_named("span").is_some());
    }
}
