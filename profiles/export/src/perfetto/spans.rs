//! What is shown for the markers of a thread: points, intervals, and spans that are open.
//!
//! Used by [`super::markers`]. Starts and ends that were recorded separately are one interval; they
//! are paired by their span number, or by name, the latest start first.

use std::collections::HashMap;

use super::super::nesting::{in_order, nesting};
use profiler_reader::bounded_ns;
use profiler_reader::{RawMarker, as_index};

/// A slice or an instant of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) start: i64,
    /// The end of an interval.
    pub(super) end: End,
    /// The marker with its name.
    pub(super) marker: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A point in time.
    Instant,
    /// An end whose start is missing.
    WithoutStart,
    /// An interval of one marker.
    At(i64),
    /// An interval whose end is another marker.
    Marker(i64, usize),
    /// An interval that has not ended.
    Open,
}

impl End {
    pub(super) const fn is_span(self) -> bool {
        !matches!(self, Self::Instant | Self::WithoutStart)
    }

    pub(super) const fn time(self) -> Option<i64> {
        match self {
            Self::At(end) | Self::Marker(end, _) => Some(end),
            Self::Instant | Self::WithoutStart | Self::Open => None,
        }
    }
}

/// The spans that nest, and the others, both in the order in which they begin. A span that has not
/// ended does not nest, because the end of another slice would end it.
pub(super) fn split(spans: &[Shown]) -> [Vec<Shown>; 2] {
    let ended = spans.iter().enumerate();
    let ended = ended.filter_map(|(at, one)| Some((one.start, one.end.time()?, at)));
    let order = in_order(ended);
    let is_open = |one: &&Shown| one.end == End::Open;
    let mut nested = Vec::new();
    let mut others: Vec<Shown> = spans.iter().filter(is_open).copied().collect();
    for ((_, _, at), nests) in order.iter().zip(nesting(&order)) {
        let list = if nests { &mut nested } else { &mut others };
        list.extend(spans.get(*at).copied());
    }
    others.sort_by_key(|one| one.start);
    [nested, others]
}

/// What is shown for the markers of a thread, in no particular order. A marker without a time is
/// not shown.
pub(super) fn shown(markers: &[RawMarker<'_>], shift_ns: i64) -> Vec<Shown> {
    let time = |ms: f64| {
        ms.is_finite()
            .then(|| bounded_ns(ms).saturating_add(shift_ns))
    };
    let mut shown = Vec::with_capacity(markers.len());
    let mut halves = Vec::new();
    for (at, marker) in markers.iter().enumerate() {
        let one = |start, end| Shown {
            start,
            end,
            marker: at,
        };
        match (as_index(marker.phase), time(marker.start), time(marker.end)) {
            (Some(1), Some(start), Some(end)) => shown.push(one(start, End::At(end.max(start)))),
            (Some(1 | 2), Some(start), None) | (Some(2), Some(start), Some(_)) => {
                halves.push(one(start, End::Open));
            }
            (Some(3), _, Some(end)) | (Some(1), None, Some(end)) => {
                halves.push(one(end, End::WithoutStart));
            }
            (_, Some(start), _) => shown.push(one(start, End::Instant)),
            (_, None, Some(_) | None) => {}
        }
    }
    pair(halves, markers, &mut shown);
    shown
}

/// Pairs starts with ends, and adds the pairs and what is left over.
fn pair(mut halves: Vec<Shown>, markers: &[RawMarker<'_>], shown: &mut Vec<Shown>) {
    let is_end = |half: &Shown| half.end == End::WithoutStart;
    halves.sort_by_key(|half| (half.start, is_end(half), half.marker));
    let mut open: HashMap<(u64, Option<u64>), Vec<Shown>> = HashMap::new();
    for half in halves {
        let Some(marker) = markers.get(half.marker) else {
            continue;
        };
        let of_name = open
            .entry((marker.name.to_bits(), marker.span()))
            .or_default();
        if !is_end(&half) {
            of_name.push(half);
            continue;
        }
        shown.push(match of_name.pop() {
            Some(start) => Shown {
                end: End::Marker(half.start, half.marker),
                ..start
            },
            None => half,
        });
    }
    let rest = shown.len();
    shown.extend(open.into_values().flatten());
    // Independent of the order of the table.
    if let Some(rest) = shown.get_mut(rest..) {
        rest.sort_by_key(|half| half.marker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(phase: f64, start: f64, end: f64) -> RawMarker<'static> {
        RawMarker {
            name: 0.0,
            start,
            end,
            phase,
            category: 0.0,
            data: None,
        }
    }

    #[test]
    fn the_latest_start_of_a_name_is_paired_with_the_first_end() {
        let none = f64::NAN;
        let markers = [
            marker(2.0, 1.0, none),
            marker(3.0, none, 3.0),
            marker(2.0, 2.0, none),
            marker(3.0, none, 0.5),
            marker(2.0, 4.0, none),
            marker(0.0, none, none),
            marker(0.0, 7.0, none),
        ];
        let mut shown = shown(&markers, 5);
        shown.sort_by_key(|one| one.marker);
        let ms = |ms: i64| ms * 500_000 + 5;
        let one = |marker, start, end| Shown {
            start: ms(start),
            end,
            marker,
        };
        let expected = [
            one(0, 2, End::Open),
            one(2, 4, End::Marker(ms(6), 1)),
            one(3, 1, End::WithoutStart),
            one(4, 8, End::Open),
            one(6, 14, End::Instant),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_span_that_has_not_ended_does_not_nest() {
        let one = |start, end| Shown {
            start,
            end,
            marker: 0,
        };
        let spans = [
            one(3, End::Open),
            one(0, End::At(10)),
            one(4, End::At(12)),
            one(1, End::Open),
            one(5, End::Marker(6, 1)),
        ];
        let [nested, others] = split(&spans);
        assert_eq!(nested, [spans[1], spans[4]]);
        assert_eq!(others, [spans[3], spans[0], spans[2]]);
    }
}
