//! Spans: intervals that are visible while open, with numbered starts and ends.
//!
//! A [`MarkerScope`](super::MarkerScope) records one entry, when it ends. A span records two, a
//! start and an end with the same number. So an observer sees it while it is open, the profile of a
//! killed process contains its open spans, and spans of the same name are not confused. It may end
//! on another thread: the end then belongs to the thread on which it began. Made by
//! [`crate::span!`]. The numbers come from `span_number`. If the macro has fields, the start has a
//! type of its own, whose name begins with [`SpanMark::TYPE_PREFIX`], and the end has only the
//! number.

use serde::Serialize;

use super::fields::FieldNames;
use super::record::add_marker;
use super::site::MarkerSite;
use super::span_mark::SpanMark;
use super::span_number::{draw, here};
use super::{MarkerFields, MarkerOptions, MarkerTiming, ProfilerMarker, SpanOptions};
use crate::category::CategoryPair;
use crate::ids::ThreadId;
use crate::record::session_state;
use crate::schema::{Format, MarkerField, MarkerSchema};

/// A detail of an open span.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SpanDetail<'a> {
    /// The number of the span.
    pub span: u64,
    /// The text of the detail.
    pub value: &'a str,
}

impl ProfilerMarker for SpanDetail<'_> {
    const TYPE_NAME: &'static str = "SpanDetail";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name}: {marker.data.value}")
            .field(
                MarkerField::new("span", Format::Integer)
                    .label("Span")
                    .not_searchable(),
            )
            .key_label_format("value", "Details", Format::String)
    }
}

/// An open span; its end is recorded when it is dropped, on any thread.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped; bind it: let _span = span!(…)"]
pub struct MarkerSpan(Option<Open>);

#[derive(Debug)]
struct Open {
    site: &'static MarkerSite,
    category: CategoryPair,
    id: u64,
    thread: ThreadId,
    /// Whether its start has fields.
    has_fields: bool,
}

/// The number of a span that is about to open. Made by the macro, which passes it as the first
/// field.
#[derive(Debug)]
pub struct SpanDraft {
    id: u64,
    thread: ThreadId,
}

impl SpanDraft {
    /// A new number.
    #[inline]
    pub fn draw() -> Self {
        let (id, thread) = draw();
        Self { id, thread }
    }

    /// The number.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Opens the span with these fields, of which the first is the number.
    #[inline]
    pub fn open<F: MarkerFields>(
        self,
        site: &'static MarkerSite,
        category: impl Into<CategoryPair>,
        names: FieldNames,
        fields: &F,
    ) -> MarkerSpan {
        let category = category.into();
        site.add_fields(category, MarkerOptions::interval_start(), names, fields);
        MarkerSpan(Some(Open {
            site,
            category,
            id: self.id,
            thread: self.thread,
            has_fields: true,
        }))
    }
}

impl MarkerSpan {
    /// Opens a span if a session runs. Costs one entry with a payload.
    #[inline]
    pub fn new<'a>(
        site: &'static MarkerSite,
        category: impl Into<CategoryPair>,
        options: impl Into<SpanOptions<'a>>,
    ) -> Self {
        if !session_state::is_active() {
            return Self(None);
        }
        let (category, SpanOptions { label, group }) = (category.into(), options.into());
        let (id, thread) = draw();
        site.add_typed(
            category,
            MarkerOptions::interval_start(),
            &SpanMark {
                span: id,
                name: label,
                group,
            },
        );
        Self(Some(Open {
            site,
            category,
            id,
            thread,
            has_fields: false,
        }))
    }

    /// A span that records nothing.
    pub const fn disabled() -> Self {
        Self(None)
    }

    /// Adds a detail to the span: a marker of its own in a profile, a part of the span for
    /// observers.
    pub fn detail(&self, name: &str, value: &str) {
        let Some(open) = &self.0 else { return };
        let options = open.options(MarkerTiming::InstantNow);
        add_marker(
            name,
            open.category,
            options,
            &SpanDetail {
                span: open.id,
                value,
            },
        );
    }

    /// Its number in this process; `None` if it records nothing.
    pub fn id(&self) -> Option<u64> {
        self.0.as_ref().map(|open| open.id)
    }
}

impl Open {
    /// The options of a marker of this span. It belongs to the thread on which the span began.
    fn options(&self, timing: MarkerTiming) -> MarkerOptions {
        let thread = if here() == Some(self.thread) {
            None
        } else {
            Some(self.thread)
        };
        MarkerOptions {
            thread,
            ..MarkerOptions::from(timing)
        }
    }
}

impl Drop for MarkerSpan {
    #[inline]
    fn drop(&mut self) {
        let Some(open) = &self.0 else { return };
        if !session_state::is_active() {
            return;
        }
        let options = open.options(MarkerTiming::IntervalEnd);
        if open.has_fields {
            return open.site.add_end(options, open.id);
        }
        let end = SpanMark {
            span: open.id,
            name: None,
            group: None,
        };
        open.site.add_typed(open.category, options, &end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_may_end_on_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<MarkerSpan>();
    }
}
