//! Joins the start and the end of a numbered span to one interval.
//!
//! Both formats pass the markers of one thread through [`OpenSpans`]. Viewers join a start and an
//! end of the same name on the same thread, the latest start first. That is wrong for spans that
//! overlap without being nested, such as the requests of a server, so the number of the span
//! decides here.
//!
//! ```text
//! start of 7 ──▶ kept ─────────┐
//! start of 8 ──▶ kept ───────┐ │
//! end of 7 ──────────────────┼─┴─▶ interval with the payload of its start
//! (no end of 8) ─────────────┴──▶ start, at the end of the thread's markers
//! ```
//!
//! Invariants: every start and every end is in the profile, in an interval or alone; at most
//! [`MOST_KEPT`] starts are kept at a time, and further ones are written alone, as are the ends
//! that are read before their starts.

use std::collections::HashMap;

use crate::entry::stack::Stack;
use crate::entry::{MarkerEntry, Timing};
use crate::ids::DefinitionId;
use crate::time::Timestamp;

/// Maximum number of starts of one thread that wait for their ends.
const MOST_KEPT: usize = 1 << 16;

/// The spans of one thread whose ends have not been read.
#[derive(Debug, Default)]
pub struct OpenSpans {
    starts: HashMap<u64, SpanStart>,
}

/// A copy of the start of a span.
#[derive(Debug)]
struct SpanStart {
    site: DefinitionId,
    at: Timestamp,
    name: Option<Box<str>>,
    payload: Box<[u8]>,
}

impl OpenSpans {
    /// Whether a marker may be one of the two ends of a span.
    #[inline]
    pub const fn concern(marker: &MarkerEntry<'_>) -> bool {
        matches!(marker.timing, Timing::Start(_) | Timing::End(_))
    }

    /// Takes a marker, whose span number is `span`, and calls `write` with the marker that is to be
    /// written instead, if any.
    pub fn join(
        &mut self,
        marker: &MarkerEntry<'_>,
        span: Option<u64>,
        write: impl FnOnce(&MarkerEntry<'_>),
    ) {
        match (span, marker.timing) {
            (Some(span), Timing::Start(at)) if self.has_room_for(span, marker) => {
                self.starts.insert(span, SpanStart::of(marker, at));
            }
            (Some(span), Timing::End(end)) => match self.starts.remove(&span) {
                Some(start) => write(&start.until(end)),
                None => write(marker),
            },
            _ => write(marker),
        }
    }

    /// Calls `write` with the starts that have no end, in the order of their times.
    pub fn finish(self, mut write: impl FnMut(&MarkerEntry<'_>)) {
        let mut open: Vec<SpanStart> = self.starts.into_values().collect();
        open.sort_by_key(|start| start.at);
        for start in &open {
            write(&start.entry(Timing::Start(start.at)));
        }
    }

    /// Whether a start can be kept. A stack is not copied. Two spans of the same number are from a
    /// damaged pool.
    fn has_room_for(&self, span: u64, start: &MarkerEntry<'_>) -> bool {
        let is_full = self.starts.len() >= MOST_KEPT;
        !is_full && start.stack.is_empty() && !self.starts.contains_key(&span)
    }
}

impl SpanStart {
    fn of(marker: &MarkerEntry<'_>, at: Timestamp) -> Self {
        Self {
            site: marker.site,
            at,
            name: marker.name.map(Box::from),
            payload: Box::from(marker.payload),
        }
    }

    /// The interval of the span. The end may be from another processor, whose clock is a little
    /// behind.
    fn until(&self, end: Timestamp) -> MarkerEntry<'_> {
        self.entry(Timing::Interval(self.at, end.max(self.at)))
    }

    fn entry(&self, timing: Timing) -> MarkerEntry<'_> {
        MarkerEntry {
            site: self.site,
            timing,
            foreign: None,
            name: self.name.as_deref(),
            payload: &self.payload,
            stack: Stack::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marker(payload: &[u8], timing: Timing) -> MarkerEntry<'_> {
        MarkerEntry {
            site: DefinitionId::NONE,
            timing,
            foreign: None,
            name: None,
            payload,
            stack: Stack::EMPTY,
        }
    }

    fn at(raw: u64) -> Timestamp {
        Timestamp::from_raw(raw)
    }

    /// What is written for these starts and ends of spans: the payload's first byte, and the times.
    fn written(marks: &[(u64, Timing)]) -> Vec<(u8, Timing)> {
        let mut spans = OpenSpans::default();
        let mut rows = Vec::new();
        for (span, timing) in marks {
            let payload = match timing {
                Timing::Start(_) => vec![u8::try_from(*span).unwrap()],
                _ => vec![255],
            };
            spans.join(&marker(&payload, *timing), Some(*span), |row| {
                rows.push((row.payload[0], row.timing));
            });
        }
        spans.finish(|row| rows.push((row.payload[0], row.timing)));
        rows
    }

    #[test]
    fn overlapping_spans_keep_their_own_ends_and_an_open_one_is_a_start() {
        let rows = written(&[
            (1, Timing::Start(at(10))),
            (2, Timing::Start(at(20))),
            (3, Timing::Start(at(25))),
            (1, Timing::End(at(30))),
            (2, Timing::End(at(40))),
            (9, Timing::End(at(50))),
        ]);
        let expected = [
            (1, Timing::Interval(at(10), at(30))),
            (2, Timing::Interval(at(20), at(40))),
            (255, Timing::End(at(50))),
            (3, Timing::Start(at(25))),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn markers_that_are_no_ends_of_spans_are_written_as_they_are() {
        let mut spans = OpenSpans::default();
        for (span, timing) in [
            (None, Timing::Start(at(1))),
            (None, Timing::End(at(2))),
            (Some(7), Timing::Instant(at(3))),
        ] {
            let marker = marker(&[], timing);
            let mut rows = 0;
            spans.join(&marker, span, |row| {
                assert_eq!(*row, marker);
                rows += 1;
            });
            assert_eq!(rows, 1);
        }
        spans.finish(|row| panic!("{row:?} was kept"));
    }

    #[test]
    fn further_starts_are_written_alone_when_too_many_wait() {
        let mut spans = OpenSpans::default();
        let mut alone = 0;
        for span in 0..MOST_KEPT as u64 + 10 {
            spans.join(&marker(&[], Timing::Start(at(span))), Some(span), |_| {
                alone += 1;
            });
        }
        assert_eq!(alone, 10);
        let mut kept = 0;
        spans.finish(|_| kept += 1);
        assert_eq!(kept, MOST_KEPT);
    }

    proptest! {
        #[test]
        fn every_start_and_every_end_is_written_once(
            marks in prop::collection::vec((0_u64..6, any::<bool>()), 0..60)
        ) {
            let marks: Vec<_> = (1..).zip(marks).map(|(time, (span, is_start))| {
                (span, if is_start { Timing::Start(at(time)) } else { Timing::End(at(time)) })
            }).collect();
            let mut times: Vec<Timestamp> = Vec::new();
            for (_, timing) in written(&marks) {
                match timing {
                    Timing::Interval(start, end) => times.extend([start, end]),
                    Timing::Start(one) | Timing::End(one) | Timing::Instant(one) => times.push(one),
                }
            }
            times.sort_unstable();
            prop_assert!(times.into_iter().eq((1..=marks.len() as u64).map(at)));
        }
    }
}
