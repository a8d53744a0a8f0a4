//! What a span or an event becomes in the recording: entries and labels.
//!
//! Used by the subscriber and by the layer, which know how `tracing` calls them. The start of a
//! span is written with its fields at once, so a span that is open when its process is killed is in
//! the profile. Its end has only its number. Everything here does nothing while no session runs.

use profiler_core::internal::runtime_site::end_span;
use profiler_core::internal::span_number::draw_span_number;
use profiler_core::label::LabelScope;
use profiler_core::marker::{MarkerOptions, add_marker};
use profiler_core::time::Timestamp;
use tracing_core::{Event, span};

use crate::call_site::{CallSite, site_of_span};
use crate::entered::{self, Entered};
use crate::field_values;
use crate::rules::RecordingRules;
use crate::span_id::RecordedSpan;
use crate::span_marks::{Relation, SpanPoll, link};

/// The recorded spans as the caller knows them: finds one by a number of `tracing`.
pub(crate) trait FindSpan {
    /// The span with this number, if it is recorded.
    fn find(&self, id: &span::Id) -> Option<RecordedSpan>;
}

/// A span that is about to begin.
#[inline]
pub(crate) fn draw(site: &CallSite) -> RecordedSpan {
    RecordedSpan::new(site.number, draw_span_number())
}

/// Begins a span.
#[inline]
pub(crate) fn begin(
    span: RecordedSpan,
    site: &CallSite,
    attributes: &span::Attributes<'_>,
    spans: &impl FindSpan,
) {
    let parent = match attributes.parent() {
        Some(id) => spans.find(id),
        None if attributes.is_contextual() => entered_span(),
        None => None,
    };
    site.markers.add(MarkerOptions::interval_start(), |out| {
        out.u64(span.number())?;
        match parent {
            Some(parent) => out.u64(parent.number())?,
            None => out.none()?,
        }
        field_values::write(site, out, |visitor| attributes.record(visitor))
    });
    if let (Some(parent), false) = (parent, attributes.is_contextual()) {
        link(Relation::Parent, parent, span);
    }
}

/// The innermost recorded span that the calling thread has entered.
pub(crate) fn entered_span() -> Option<RecordedSpan> {
    RecordedSpan::from_word(entered::innermost_recorded()?)
}

/// Ends a span, on any thread.
#[inline]
pub(crate) fn end(span: RecordedSpan) {
    if let Some(site) = site_of_span(span) {
        end_span(&site.markers, span.number());
    }
}

/// Notes that the calling thread has entered a span, and opens its label.
#[inline]
pub(crate) fn enter(id: &span::Id, span: Option<RecordedSpan>, rules: &RecordingRules) {
    let kept = span.filter(|_| entered::has_place());
    let label = match kept.and_then(site_of_span) {
        Some(site) => open_label(site, id),
        None => u32::MAX,
    };
    let since = if rules.polls && kept.is_some() {
        Timestamp::now()
    } else {
        Timestamp::ZERO
    };
    entered::push(Entered {
        id: id.into_u64(),
        span: span.map_or(0, RecordedSpan::word),
        since,
        label,
    });
}

/// Opens the label of a call site.
#[inline]
fn open_label(site: &'static CallSite, id: &span::Id) -> u32 {
    let category = site.markers.category().category();
    LabelScope::open_at(&site.label, category, address_near_caller(id))
}

/// The distance within which a number of `tracing` is taken to be on the thread's stack.
const NEAR: usize = 64 * 1024;
/// More than the stack that `enter` uses, and less than most functions of the host do.
const OWN_STACK: usize = 256;

/// An address in the frame of the function that has entered a span. A `Span` on the stack contains
/// its number, so this is usually the number's address. Otherwise, as in a future on the heap, it
/// is an address a little above the frames of this crate.
#[inline(always)]
fn address_near_caller(id: &span::Id) -> u64 {
    let place = 0_u8;
    let here = std::ptr::from_ref(&place).addr();
    let of_id = std::ptr::from_ref(id).addr();
    let is_near = of_id.wrapping_sub(here) < NEAR;
    let address = if is_near { of_id } else { here + OWN_STACK };
    address as u64
}

/// Notes that the calling thread has left a span, closes its label, and records the time since it
/// was entered if the rules say so.
#[inline]
pub(crate) fn exit(id: &span::Id, rules: &RecordingRules) {
    entered::pop(id.into_u64(), |entered| {
        LabelScope::close(entered.label);
        if rules.polls && entered.since != Timestamp::ZERO {
            record_poll(entered.span, entered.since);
        }
    });
}

#[inline(never)]
fn record_poll(span: u64, since: Timestamp) {
    let Some(span) = RecordedSpan::from_word(span) else {
        return;
    };
    let Some(site) = site_of_span(span) else {
        return;
    };
    add_marker(
        site.metadata.name(),
        site.markers.category(),
        MarkerOptions::interval_until_now_from(since),
        &SpanPoll {
            span: span.number(),
        },
    );
}

/// Records values that are added to an open span.
pub(crate) fn add_values(span: RecordedSpan, values: &span::Record<'_>) {
    let Some(site) = site_of_span(span) else {
        return;
    };
    site.markers.add(MarkerOptions::default(), |out| {
        out.u64(span.number())?;
        out.none()?;
        field_values::write(site, out, |visitor| values.record(visitor))
    });
}

/// Records that a span follows from another one.
pub(crate) fn follow(span: RecordedSpan, follows: RecordedSpan) {
    link(Relation::Follows, follows, span);
}

/// Records an event.
pub(crate) fn event(site: &CallSite, event: &Event<'_>, spans: &impl FindSpan) {
    let span = match event.parent() {
        Some(id) => spans.find(id),
        None if event.is_contextual() => entered_span(),
        None => None,
    };
    site.markers.add(MarkerOptions::default(), |out| {
        match span {
            Some(span) => out.u64(span.number())?,
            None => out.none()?,
        }
        field_values::write(site, out, |visitor| event.record(visitor))
    });
}
