//! A future as an interval, with a label while it is polled.
//!
//! Invariants: the interval begins with the first poll in a session, and is recorded in this
//! session or not at all; the label is closed when the poll ends, also by a panic; a poll with a
//! known label allocates nothing and waits for nothing.

#![allow(unsafe_code)]

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Serialize;

use super::is_recording;
use crate::category;
use crate::label::{Label, LabelScope};
use crate::marker::span_number::{draw_span_number, options_of_span};
use crate::marker::{MarkerTiming, ProfilerMarker, add_marker};
use crate::pinned::parts_of_pinned;
use crate::pool::tag::pool_tag;
use crate::schema::{Format, MarkerSchema};
use crate::time::Timestamp;
use crate::trace::{TraceContext, current_trace, set_trace};

/// A future that is recorded as an interval, see
/// [`RecordFuture::scoped`](super::RecordFuture::scoped).
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Scoped<F> {
    future: F,
    /// Behind the future, so that the drop of the future is part of the interval.
    scope: FutureScope,
}

parts_of_pinned!(Scoped {
    future,
    scope: FutureScope
});

impl<F> Scoped<F> {
    pub(super) const fn new(
        future: F,
        name: &'static str,
        place: &'static Location<'static>,
    ) -> Self {
        let label = Label::new(name, place.file(), place.line());
        Self {
            future,
            scope: FutureScope { label, open: None },
        }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (future, scope) = self.parts();
        if !is_recording() {
            return future.poll(context);
        }
        let local = 0_u8;
        let address = std::ptr::from_ref(&local).addr() as u64;
        let poll = scope.begin_poll(address);
        let polled = future.poll(context);
        poll.end(match polled {
            Poll::Ready(_) => End::Completed,
            Poll::Pending => End::Dropped,
        });
        if polled.is_ready() {
            scope.end();
        }
        polled
    }
}

/// What is known of a future while it exists.
#[derive(Debug)]
struct FutureScope {
    label: Label,
    open: Option<OpenInterval>,
}

/// An interval that has begun.
#[derive(Debug)]
struct OpenInterval {
    /// The number that knows the thread of the first poll.
    number: u64,
    start: Timestamp,
    /// The tag of the session's pool.
    tag: u64,
    /// The trace of the last poll, to which the interval belongs wherever the future is dropped.
    trace: Option<TraceContext>,
    polls: u32,
    end: End,
    /// Whether there was room for the label.
    has_label: bool,
}

/// How an interval ends if the future is not polled again.
#[derive(Clone, Copy, Debug)]
enum End {
    Completed,
    Dropped,
    Panicked,
}

impl End {
    const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Dropped => "dropped",
            Self::Panicked => "panicked",
        }
    }
}

impl OpenInterval {
    fn begin(tag: u64) -> Self {
        Self {
            number: draw_span_number(),
            start: Timestamp::now(),
            tag,
            trace: None,
            polls: 0,
            end: End::Dropped,
            has_label: true,
        }
    }
}

impl FutureScope {
    /// Begins a poll, and the interval if this session has not seen the future. `address` is in the
    /// stack frame of the poll.
    #[inline]
    fn begin_poll(&mut self, address: u64) -> OpenPoll<'_> {
        let tag = pool_tag();
        self.open.take_if(|open| open.tag != tag);
        let open = self.open.get_or_insert_with(|| OpenInterval::begin(tag));
        open.polls = open.polls.saturating_add(1);
        open.end = End::Panicked;
        open.trace = current_trace();
        let label = match open.has_label {
            true => LabelScope::open_shared(&self.label, &category::OTHER, address),
            false => LabelScope::disabled(),
        };
        open.has_label = label.is_open();
        OpenPoll {
            end: &mut open.end,
            _label: label,
        }
    }

    /// Ends the interval, and records it.
    fn end(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !is_recording() || open.tag != pool_tag() {
            return;
        }
        let timing = MarkerTiming::IntervalUntilNowFrom(open.start);
        let mark = ScopedFuture {
            polls: open.polls,
            end: open.end.name(),
        };
        let before = set_trace(open.trace);
        add_marker(
            self.label.name(),
            &category::OTHER,
            options_of_span(open.number, timing),
            &mark,
        );
        set_trace(before);
    }
}

impl Drop for FutureScope {
    #[inline]
    fn drop(&mut self) {
        if self.open.is_some() {
            self.end();
        }
    }
}

/// A poll while it runs. Its label is closed when it is dropped, also by a panic.
struct OpenPoll<'a> {
    end: &'a mut End,
    _label: LabelScope,
}

impl OpenPoll<'_> {
    /// Ends the poll: `end` is how the interval ends if the future is not polled again.
    #[inline]
    fn end(self, end: End) {
        *self.end = end;
    }
}

/// The marker of the interval.
#[derive(Debug, Serialize)]
struct ScopedFuture {
    polls: u32,
    end: &'static str,
}

impl ProfilerMarker for ScopedFuture {
    const TYPE_NAME: &'static str = "ScopedFuture";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .tooltip_label("{marker.name}")
            .chart_label("{marker.name}")
            .table_label("{marker.name} ({marker.data.end}, polls: {marker.data.polls})")
            .key_label_format("polls", "Polls", Format::Integer)
            .key_label_format("end", "End", Format::UniqueString)
            .static_label_value(
                "Description",
                "A future, from its first poll to its completion or its drop",
            )
    }
}
