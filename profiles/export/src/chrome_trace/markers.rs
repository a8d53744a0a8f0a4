//! Writes markers as trace events.
//!
//! Used by [`super`]. A span nested within the spans around it is a complete event
//! (`X`), which trace viewers nest by time. Other spans are asynchronous pairs (`b`, `e`), as are
//! starts and ends that were recorded separately; these are paired by name and, if they have one,
//! by span number. Instants are `i`. The payload is in `args.data`, with its texts written out. A
//! flow connects its events by `bind_id`, over all processes.

use std::collections::HashMap;
use std::io::Write;

use super::{Events, Track};
use crate::nesting::{in_order, nesting};
use crate::payload::Payload;
use crate::recording::Thread;
use profiler_reader::bounded_ns;
use profiler_reader::{RawMarker, Survey, as_index};

/// Writes the markers of a thread.
pub(super) fn write<W: Write>(
    events: &mut Events<W>,
    track: Track,
    thread: &Thread<'_>,
    survey: &Survey,
) {
    let all: Vec<RawMarker<'_>> = thread.markers.iter().collect();
    let nests = nesting_markers(&all);
    let mut pairs = HashMap::new();
    for (marker, nests) in all.iter().zip(nests) {
        let name = as_index(marker.name)
            .and_then(|name| thread.texts.get(name))
            .map_or("", String::as_str);
        let category = survey.meta.category(marker.category);
        let us = |ms: f64| {
            events
                .clock
                .us_exact(bounded_ns(ms).saturating_add(thread.shift_ns))
        };
        let start = us(marker.start);
        let end = us(marker.end);
        let payload = Payload::of(marker.data, &events.text_fields, thread.texts);
        match Kind::of(marker, nests) {
            Kind::Instant => {
                events.begin(track, "i", name, category, Some(start));
                events.out.entry_str("s", "t");
                payload.end(&mut events.out);
            }
            Kind::Complete => {
                events.begin(track, "X", name, category, Some(start));
                events.out.key("dur");
                events.out.f64((end - start).max(0.0));
                payload.end(&mut events.out);
            }
            Kind::Overlapping => {
                let id = events.id();
                for (phase, at, payload) in [("b", start, payload), ("e", end, Payload::default())]
                {
                    events.begin(track, phase, name, category, Some(at));
                    events.out.entry_str("id", &id);
                    payload.end(&mut events.out);
                }
            }
            Kind::Half(phase) => {
                let pair = (name, marker.span());
                let id = pairs.entry(pair).or_insert_with(|| events.id()).clone();
                let at = if phase == "b" { start } else { end };
                events.begin(track, phase, name, category, Some(at));
                events.out.entry_str("id", &id);
                payload.end(&mut events.out);
            }
            Kind::Nothing => {}
        }
    }
}

/// The form in which a marker is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Instant,
    /// A span that nests.
    Complete,
    /// A span that does not nest.
    Overlapping,
    /// The start (`b`) or the end (`e`) of a span, recorded separately.
    Half(&'static str),
    /// A marker without a time, which is left out.
    Nothing,
}

impl Kind {
    fn of(marker: &RawMarker<'_>, nests: bool) -> Self {
        let has_start = marker.start.is_finite();
        let has_end = marker.end.is_finite();
        match as_index(marker.phase) {
            Some(1) if has_start && has_end && nests => Self::Complete,
            Some(1) if has_start && has_end => Self::Overlapping,
            Some(2) if has_start => Self::Half("b"),
            Some(3) if has_end => Self::Half("e"),
            _ if has_start => Self::Instant,
            _ => Self::Nothing,
        }
    }
}

/// For each marker, whether it is a span that nests.
fn nesting_markers(markers: &[RawMarker<'_>]) -> Vec<bool> {
    let is_span = |marker: &RawMarker<'_>| marker.start.is_finite() && marker.end.is_finite();
    let spans = markers.iter().enumerate();
    let spans = spans.filter(|(_, marker)| is_span(marker));
    let order =
        in_order(spans.map(|(at, marker)| (bounded_ns(marker.start), bounded_ns(marker.end), at)));
    let mut nested = vec![false; markers.len()];
    for ((_, _, at), nests) in order.iter().zip(nesting(&order)) {
        if let Some(nested) = nested.get_mut(*at) {
            *nested = nests;
        }
    }
    nested
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: f64, end: f64) -> RawMarker<'static> {
        RawMarker {
            name: 0.0,
            start,
            end,
            phase: 1.0,
            category: 0.0,
            data: None,
        }
    }

    #[test]
    fn a_marker_without_an_end_is_an_instant_and_one_without_times_is_nothing() {
        let spans = [span(0.0, 10.0), span(2.0, 4.0), span(3.0, 5.0)];
        assert_eq!(nesting_markers(&spans), [true, true, false]);
        let point = RawMarker {
            phase: 0.0,
            end: f64::NAN,
            ..span(1.0, 1.0)
        };
        assert_eq!(
            (nesting_markers(&[point]), Kind::of(&point, false)),
            (vec![false], Kind::Instant)
        );
        let nothing = RawMarker {
            start: f64::NAN,
            end: f64::NAN,
            ..point
        };
        assert_eq!(Kind::of(&nothing, false), Kind::Nothing);
    }
}
