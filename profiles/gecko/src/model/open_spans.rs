//! Joins the start and the end of a numbered span to one interval.
//!
//! Both formats pass the markers of one thread through [`OpenSpans`]. Viewers join a start and an
//! end of the same name on the same thread, the latest start first. That is wrong for spans that
//! overlap without being nested, such as the requests of a server, so the number of the span
//! decides here. The ends that other threads have recorded are noted first, because they are read
//! last.
//!
//! ```text
//! ends by other threads ──▶ noted ──┐
//! start of 7 ───────────────────────┴─▶ interval with the fields of both
//! start of 8 ──▶ kept ──┐
//! end of 8 ─────────────┴─▶ interval with the fields of both
//! start of 9 ──▶ kept ────▶ start, when too many are kept, or at the end of the thread's markers
//! ```
//!
//! Invariants: every start and every end is in the profile, in an interval or alone. Memory is
//! bounded: [`MAX_NOTED`] ends are noted; of the starts that are kept, the oldest is written alone
//! when there are more than [`MAX_KEPT`], or when their copies take more than [`MAX_BYTES`]; the
//! payloads of the noted ends have the same limit. A start or an end with a stack is written alone.

use std::collections::{BTreeMap, HashMap};

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::stack::Stack;
use profiler_core::internal::entry::{MarkerEntry, Timing};
use profiler_core::internal::payload::combined;
use profiler_core::time::Timestamp;
use profiler_core::trace::TraceContext;
use profiler_json::strings::StringId;

/// Maximum number of ends by other threads that are noted.
const MAX_NOTED: usize = 1 << 18;
/// Maximum number of starts that are kept.
const MAX_KEPT: usize = 1 << 16;
/// Maximum size of the names and payloads of the starts that are kept, and of the payloads of the
/// ends that are noted, in bytes.
const MAX_BYTES: usize = 8 << 20;

/// What the start and the end of a span have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanKey {
    /// Its number in its process.
    pub number: u64,
    /// Its name.
    pub name: StringId,
}

/// The spans of one thread.
#[derive(Debug, Default)]
pub struct OpenSpans {
    /// The starts that are kept, by the order in which they were read.
    starts: BTreeMap<u64, SpanStart>,
    /// The places in `starts`.
    places: HashMap<SpanKey, u64>,
    /// The number of starts that were ever kept.
    count: u64,
    /// The size of the names and payloads in `starts`.
    bytes: usize,
    /// The ends that other threads have recorded.
    ends: HashMap<SpanKey, NotedEnd>,
    /// The size of the payloads in `ends`.
    bytes_of_ends: usize,
}

/// A copy of the start of a span.
#[derive(Debug)]
struct SpanStart {
    key: SpanKey,
    site: DefinitionId,
    at: Timestamp,
    name: Option<Box<str>>,
    payload: Box<[u8]>,
    trace: Option<TraceContext>,
}

/// An end that is read before its start.
#[derive(Debug)]
struct NotedEnd {
    at: Timestamp,
    payload: Box<[u8]>,
    /// Its interval is written.
    is_joined: bool,
}

impl OpenSpans {
    /// Whether a marker may be one of the two ends of a span.
    #[inline]
    pub fn may_join(marker: &MarkerEntry<'_>) -> bool {
        matches!(marker.timing, Timing::Start(_) | Timing::End(_)) && marker.stack.is_empty()
    }

    /// Notes a marker that another thread has recorded, before the thread's own markers are read,
    /// if it is the end of a span.
    pub fn note(&mut self, marker: &MarkerEntry<'_>, key: Option<SpanKey>) {
        if let (Some(key), Timing::End(at)) = (key, marker.timing)
            && self.ends.len() < MAX_NOTED
            && self.bytes_of_ends.saturating_add(marker.payload.len()) <= MAX_BYTES
        {
            self.ends.entry(key).or_insert_with(|| {
                self.bytes_of_ends += marker.payload.len();
                NotedEnd {
                    at,
                    payload: Box::from(marker.payload),
                    is_joined: false,
                }
            });
        }
    }

    /// Takes a marker, with its key if it is the start or the end of a span, and calls `write` with
    /// the markers that are to be written now.
    pub fn join(
        &mut self,
        marker: &MarkerEntry<'_>,
        key: Option<SpanKey>,
        mut write: impl FnMut(&MarkerEntry<'_>),
    ) {
        match (key, marker.timing) {
            (Some(key), Timing::Start(at)) => self.start(key, marker, at, write),
            (Some(key), Timing::End(end)) if self.take_joined(key, end) => {}
            (Some(key), Timing::End(end)) => match self.take(key) {
                Some(start) => start.until(end, marker.payload, write),
                None => write(marker),
            },
            _ => write(marker),
        }
    }

    /// Calls `write` with the starts that have no end, in the order in which they were read.
    pub fn finish(self, mut write: impl FnMut(&MarkerEntry<'_>)) {
        self.starts.values().for_each(|start| write(&start.alone()));
    }

    fn start(
        &mut self,
        key: SpanKey,
        marker: &MarkerEntry<'_>,
        at: Timestamp,
        mut write: impl FnMut(&MarkerEntry<'_>),
    ) {
        if let Some(end) = self.ends.get_mut(&key).filter(|end| !end.is_joined) {
            end.is_joined = true;
            return SpanStart::of(key, marker, at).until(end.at, &end.payload, write);
        }
        // Two spans of one number are from a damaged pool.
        if self.places.contains_key(&key) || cost(marker) > MAX_BYTES {
            return write(marker);
        }
        self.keep(SpanStart::of(key, marker, at));
        while self.starts.len() > MAX_KEPT || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.starts.pop_first() else {
                break;
            };
            self.forget(&oldest);
            write(&oldest.alone());
        }
    }

    fn keep(&mut self, start: SpanStart) {
        self.places.insert(start.key, self.count);
        self.bytes = self.bytes.saturating_add(start.bytes());
        self.starts.insert(self.count, start);
        self.count = self.count.saturating_add(1);
    }

    /// Takes the start of a span, if it is kept.
    fn take(&mut self, key: SpanKey) -> Option<SpanStart> {
        let start = self.starts.remove(self.places.get(&key)?)?;
        self.forget(&start);
        Some(start)
    }

    fn forget(&mut self, start: &SpanStart) {
        self.places.remove(&start.key);
        self.bytes = self.bytes.saturating_sub(start.bytes());
    }

    /// Forgets this end if it is in an interval that is written; returns whether it is.
    fn take_joined(&mut self, key: SpanKey, end: Timestamp) -> bool {
        let noted = self.ends.get(&key);
        let is_joined = noted.is_some_and(|noted| noted.is_joined && noted.at == end);
        if is_joined {
            self.ends.remove(&key);
        }
        is_joined
    }
}

/// The size of what is copied of a start.
fn cost(marker: &MarkerEntry<'_>) -> usize {
    marker
        .payload
        .len()
        .saturating_add(marker.name.map_or(0, str::len))
}

impl SpanStart {
    fn of(key: SpanKey, marker: &MarkerEntry<'_>, at: Timestamp) -> Self {
        Self {
            key,
            site: marker.site,
            at,
            name: marker.name.map(Box::from),
            payload: Box::from(marker.payload),
            trace: marker.trace,
        }
    }

    fn bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.len());
        self.payload.len().saturating_add(name)
    }

    /// Calls `write` with the interval of the span. The end may be from another processor, whose
    /// clock is a little behind.
    fn until(&self, end: Timestamp, of_end: &[u8], write: impl FnOnce(&MarkerEntry<'_>)) {
        let timing = Timing::Interval(self.at, end.max(self.at));
        let payload = &combined(&self.payload, of_end);
        write(&MarkerEntry {
            payload,
            ..self.entry(timing)
        });
    }

    /// The start without an end.
    fn alone(&self) -> MarkerEntry<'_> {
        self.entry(Timing::Start(self.at))
    }

    fn entry(&self, timing: Timing) -> MarkerEntry<'_> {
        MarkerEntry {
            site: self.site,
            timing,
            foreign: None,
            name: self.name.as_deref(),
            payload: &self.payload,
            stack: Stack::EMPTY,
            trace: self.trace,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use profiler_json::strings::StringTable;

    fn marker(payload: &[u8], timing: Timing) -> MarkerEntry<'_> {
        MarkerEntry {
            site: DefinitionId::NONE,
            timing,
            foreign: None,
            name: None,
            payload,
            stack: Stack::EMPTY,
            trace: None,
        }
    }

    fn at(raw: u64) -> Timestamp {
        Timestamp::from_raw(raw)
    }

    fn key(number: u64) -> SpanKey {
        let name = StringTable::new().intern("span");
        SpanKey { number, name }
    }

    /// What is written for these starts and ends of spans, after the ends in `foreign`, which are
    /// read again at the end: the payload's first byte, and the times.
    fn written(foreign: &[(u64, u64)], own: &[(u64, Timing)]) -> Vec<(u8, Timing)> {
        let mut spans = OpenSpans::default();
        let mut rows = Vec::new();
        let foreign = foreign
            .iter()
            .map(|(span, end)| (*span, Timing::End(at(*end))));
        let foreign: Vec<(u64, Timing)> = foreign.collect();
        for (span, timing) in &foreign {
            spans.note(&marker(&[255], *timing), Some(key(*span)));
        }
        for (span, timing) in own.iter().chain(&foreign) {
            let payload = match timing {
                Timing::Start(_) => vec![u8::try_from(*span).unwrap()],
                _ => vec![255],
            };
            spans.join(&marker(&payload, *timing), Some(key(*span)), |row| {
                rows.push((row.payload[0], row.timing));
            });
        }
        spans.finish(|row| rows.push((row.payload[0], row.timing)));
        rows
    }

    #[test]
    fn overlapping_spans_keep_their_own_ends_and_an_open_one_is_a_start() {
        let own = [
            (1, Timing::Start(at(10))),
            (2, Timing::Start(at(20))),
            (3, Timing::Start(at(25))),
            (1, Timing::End(at(30))),
            (2, Timing::End(at(40))),
            (9, Timing::End(at(50))),
        ];
        let expected = [
            (1, Timing::Interval(at(10), at(30))),
            (2, Timing::Interval(at(20), at(40))),
            (255, Timing::End(at(50))),
            (3, Timing::Start(at(25))),
        ];
        assert_eq!(written(&[], &own), expected);
    }

    #[test]
    fn an_end_by_another_thread_belongs_to_its_start_and_is_written_once() {
        let own = [
            (1, Timing::Start(at(10))),
            (2, Timing::Start(at(20))),
            (2, Timing::End(at(30))),
        ];
        let expected = [
            (1, Timing::Interval(at(10), at(90))),
            (2, Timing::Interval(at(20), at(30))),
            (255, Timing::End(at(80))),
        ];
        assert_eq!(written(&[(1, 90), (7, 80)], &own), expected);
    }

    #[test]
    fn markers_that_are_no_ends_of_spans_are_written_as_they_are() {
        let mut spans = OpenSpans::default();
        for (key, timing) in [
            (None, Timing::Start(at(1))),
            (None, Timing::End(at(2))),
            (Some(key(7)), Timing::Instant(at(3))),
        ] {
            let marker = marker(&[], timing);
            let mut rows = 0;
            spans.join(&marker, key, |row| {
                assert_eq!(*row, marker);
                rows += 1;
            });
            assert_eq!(rows, 1);
        }
        spans.finish(|row| panic!("{row:?} was kept"));
    }

    /// The numbers of starts that are written alone because of the others, and of those that are
    /// kept to the end.
    fn alone_and_kept(starts: u64, payload: &[u8]) -> (u64, u64) {
        let mut spans = OpenSpans::default();
        let (mut alone, mut kept) = (0, 0);
        for span in 0..starts {
            let start = marker(payload, Timing::Start(at(span)));
            spans.join(&start, Some(key(span)), |row| {
                assert_eq!(row.timing, Timing::Start(at(alone)), "the oldest");
                alone += 1;
            });
        }
        spans.finish(|_| kept += 1);
        (alone, kept)
    }

    #[test]
    fn the_oldest_starts_are_written_alone_when_too_many_are_kept() {
        let most = MAX_KEPT as u64;
        assert_eq!(alone_and_kept(most + 10, &[]), (10, most));
        let large = vec![0; MAX_BYTES / 8];
        assert_eq!(alone_and_kept(20, &large), (12, 8));
        assert_eq!(alone_and_kept(3, &vec![0; MAX_BYTES + 1]), (3, 0));
    }

    proptest! {
        #[test]
        fn every_start_and_every_end_is_written_once(
            foreign in prop::collection::vec(0_u64..6, 0..10),
            marks in prop::collection::vec((0_u64..6, any::<bool>()), 0..60)
        ) {
            let foreign: Vec<_> = (1000..).zip(foreign).map(|(time, span)| (span, time)).collect();
            let marks: Vec<_> = (1..).zip(marks).map(|(time, (span, is_start))| {
                (span, if is_start { Timing::Start(at(time)) } else { Timing::End(at(time)) })
            }).collect();
            let mut times: Vec<Timestamp> = Vec::new();
            for (_, timing) in written(&foreign, &marks) {
                match timing {
                    Timing::Interval(start, end) => times.extend([start, end]),
                    Timing::Start(one) | Timing::End(one) | Timing::Instant(one) => times.push(one),
                }
            }
            times.sort_unstable();
            let own = 1..=marks.len() as u64;
            prop_assert!(times.into_iter().eq(own.chain(foreign.iter().map(|(_, time)| *time)).map(at)));
        }
    }
}
