//! The spans of one thread, and what each of them contains.
//!
//! Used by both passes. A span is an interval, or a start and an end that were recorded apart:
//! these are paired by number, or by name, the latest start first. A span of `tracing` names its
//! parent; any other lies within the innermost interval that contains it and is not of `tracing`,
//! because spans of asynchronous functions overlap without being nested.

use std::collections::HashMap;

use super::super::recording::Thread;
use super::kinds::MarkerKind;
use profiler_reader::bounded_ns;
use profiler_reader::{RawMarker, as_index};

/// The number of enclosing intervals that are tried.
const MAX_TRIED: usize = 64;

/// A span of a thread. At least one of its times is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSpan<'m> {
    pub(super) start: Option<i64>,
    pub(super) end: Option<i64>,
    pub(super) kind: MarkerKind,
    /// The interval or the start; the end if the start is missing.
    pub(super) marker: RawMarker<'m>,
    /// The end, if it is another marker.
    pub(super) end_marker: Option<RawMarker<'m>>,
    /// The place of the marker among those of its thread.
    pub(super) row: usize,
    /// The innermost span that contains it.
    pub(super) within: Option<usize>,
}

impl ThreadSpan<'_> {
    /// The first known time.
    pub(super) fn first(&self) -> i64 {
        self.start.or(self.end).unwrap_or(0)
    }
}

/// A marker at a point in time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadInstant<'m> {
    pub(super) at: i64,
    pub(super) kind: MarkerKind,
    pub(super) marker: RawMarker<'m>,
    pub(super) owner: Owner,
}

/// The span that a marker belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The span of the process with this number.
    Number(u64),
    /// A span of the thread.
    Span(usize),
    /// None.
    Nothing,
}

/// The markers of a thread. See the [module](self).
#[derive(Debug, Default)]
pub(in super::super) struct ThreadSpans<'m> {
    pub(super) spans: Vec<ThreadSpan<'m>>,
    pub(super) instants: Vec<ThreadInstant<'m>>,
    /// The places of spans, in the order of their starts; a span comes after those that contain it.
    pub(super) order: Vec<usize>,
    /// The places of spans by number.
    pub(super) by_number: HashMap<u64, usize>,
}

impl<'m> ThreadSpans<'m> {
    pub(in super::super) fn of(thread: &Thread<'m>) -> Self {
        let mut read = Reading {
            shift_ns: thread.shift_ns,
            ..Reading::default()
        };
        thread
            .markers
            .iter()
            .enumerate()
            .for_each(|(row, marker)| read.add(row, marker));
        let mut all = read.all;
        for (place, span) in all.spans.iter().enumerate() {
            if let MarkerKind::Plain { number } | MarkerKind::Traced { number, .. } = span.kind {
                all.by_number.entry(number).or_insert(place);
            }
        }
        all.enclose();
        all
    }

    /// Finds what contains each span and each instant.
    fn enclose(&mut self) {
        let mut queries: Vec<Query> = (0..).zip(&self.spans).map(Query::of_span).collect();
        let instants = (0..)
            .zip(&self.instants)
            .filter(|(_, instant)| instant.kind.number().is_none());
        queries.extend(instants.map(|(place, instant)| Query {
            start: instant.at,
            end: instant.at,
            asks: Asks::Instant(place),
            contains: false,
        }));
        // Of two with the same start, the longer contains the other.
        queries.sort_by_key(|query| (query.start, std::cmp::Reverse(query.end)));
        let mut open: Vec<(i64, usize)> = Vec::new();
        for query in queries {
            while open.last().is_some_and(|(end, _)| *end <= query.start) {
                open.pop();
            }
            let tried = open.iter().rev().take(MAX_TRIED);
            let found = tried.copied().find(|(end, _)| *end >= query.end);
            let within = found.map(|(_, place)| place);
            match query.asks {
                Asks::Span(place) => {
                    self.order.push(place);
                    self.set_within(place, within);
                    if query.contains && open.last().is_none_or(|(end, _)| *end >= query.end) {
                        open.push((query.end, place));
                    }
                }
                Asks::Instant(place) => self.set_owner(place, within),
            }
        }
    }

    fn set_within(&mut self, place: usize, within: Option<usize>) {
        if let Some(span) = self.spans.get_mut(place) {
            span.within = within;
        }
    }

    fn set_owner(&mut self, place: usize, within: Option<usize>) {
        let span = within.and_then(|within| Some((within, self.spans.get(within)?.kind)));
        let owner = match span {
            Some((_, MarkerKind::Poll { number })) => Owner::Number(number),
            Some((within, _)) => Owner::Span(within),
            None => Owner::Nothing,
        };
        if let Some(instant) = self.instants.get_mut(place) {
            instant.owner = owner;
        }
    }
}

/// A span or an instant for which the enclosing span is asked.
#[derive(Clone, Copy, Debug)]
struct Query {
    start: i64,
    end: i64,
    asks: Asks,
    /// Whether it may contain others.
    contains: bool,
}

#[derive(Clone, Copy, Debug)]
enum Asks {
    Span(usize),
    Instant(usize),
}

impl Query {
    fn of_span((place, span): (usize, &ThreadSpan<'_>)) -> Self {
        let is_whole = span.start.is_some() && span.end.is_some();
        Self {
            start: span.first(),
            end: span.end.unwrap_or(i64::MAX),
            asks: Asks::Span(place),
            contains: is_whole
                && !matches!(
                    span.kind,
                    MarkerKind::Traced { .. } | MarkerKind::Context { .. }
                ),
        }
    }
}

/// The name and the number of a start whose end is another marker.
type Pair = (Option<usize>, Option<u64>);

/// Sorts the markers of a thread.
#[derive(Debug, Default)]
struct Reading<'m> {
    shift_ns: i64,
    all: ThreadSpans<'m>,
    /// The spans that have only a start so far.
    started: HashMap<Pair, Vec<usize>>,
}

impl<'m> Reading<'m> {
    fn add(&mut self, row: usize, marker: RawMarker<'m>) {
        let kind = MarkerKind::of(&marker);
        let at = |ms: f64| {
            ms.is_finite()
                .then(|| bounded_ns(ms).saturating_add(self.shift_ns))
        };
        let (start, end) = (at(marker.start), at(marker.end));
        let (start, end) = match (as_index(marker.phase), start, end) {
            _ if kind == MarkerKind::OfProfiler => return,
            (Some(1), Some(start), Some(end)) => (Some(start), Some(end.max(start))),
            (Some(2), Some(start), _) => (Some(start), None),
            (Some(3), _, Some(end)) if self.end(end, marker, kind) => return,
            (Some(3), _, Some(end)) => (None, Some(end)),
            (_, Some(at), _) => return self.instant(at, marker, kind),
            _ => return,
        };
        if end.is_none() {
            let started = self.started.entry(pair(&marker, kind)).or_default();
            started.push(self.all.spans.len());
        }
        self.all.spans.push(ThreadSpan {
            start,
            end,
            kind,
            marker,
            end_marker: None,
            row,
            within: None,
        });
    }

    fn instant(&mut self, at: i64, marker: RawMarker<'m>, kind: MarkerKind) {
        self.all.instants.push(ThreadInstant {
            at,
            kind,
            marker,
            owner: kind.number().map_or(Owner::Nothing, Owner::Number),
        });
    }

    /// Ends a span that has started. Returns whether there is one.
    fn end(&mut self, end: i64, marker: RawMarker<'m>, kind: MarkerKind) -> bool {
        let started = self.started.get_mut(&pair(&marker, kind));
        let place = started.and_then(Vec::pop);
        let Some(span) = place.and_then(|place| self.all.spans.get_mut(place)) else {
            return false;
        };
        span.end = Some(end.max(span.first()));
        span.end_marker = Some(marker);
        true
    }
}

fn pair(marker: &RawMarker<'_>, kind: MarkerKind) -> Pair {
    (as_index(marker.name), kind.number())
}
