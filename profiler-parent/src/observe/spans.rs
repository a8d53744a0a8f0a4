//! Pairs the ends of spans with their starts: the open spans of one process.
//!
//! A pure state machine, fed by [`super::process`] with starts and ends in the order of each
//! thread. Spans with a number ([`profiler_core::marker::MarkerSpan`]) are paired by the number,
//! also if they end on another thread. Spans without one (separate start and end markers) are
//! paired by name and text on their own thread only, the innermost first. Invariants: a start is
//! returned at most once; an end is never paired by name with a start of another thread; at most
//! [`MAX_OPEN`] spans of at most [`MAX_BYTES`] are kept, so a process that never ends its spans
//! costs a bounded amount. The oldest spans are evicted first, because the latest ones are the
//! likeliest to end. An evicted span is counted at eviction, and not again at its end
//! ([`evicted`]).
//!
//! Threads are read in turn, so the end of a numbered span may be read before its start; such an
//! end is kept for one more pass.

mod evicted;

use std::collections::{BTreeMap, HashMap};

use profiler_core::ids::ThreadId;
use profiler_core::time::{TimeConverter, Timestamp};

use super::event::{Detail, ObservedMarker, SharedText, SpanNumber};
use crate::session_time::SessionNs;
use evicted::EvictedSpans;

/// Limit on the open spans of one process.
const MAX_OPEN: usize = 1024;
/// Limit on the bytes of the open spans of one process, including details.
const MAX_BYTES: usize = 2 << 20;
/// Limit on the groups that a marker inherits from the open spans of its thread.
const MAX_GROUPS: usize = 64;
/// Limit on the ends that wait for their start.
const MAX_EARLY: usize = 1024;
/// Limit on the details of one span.
const MAX_DETAILS: usize = 64;

/// An open span.
#[derive(Clone, Debug)]
pub(super) struct OpenSpan {
    /// The marker, without its end.
    pub(super) marker: ObservedMarker,
    pub(super) start: Timestamp,
    /// The number of the span in its process, if it has one.
    pub(super) id: Option<u64>,
    /// The text that distinguishes it from other spans of the same name, if it has no number.
    pub(super) label: Option<String>,
    /// The group of the markers that its thread records while the span is open.
    pub(super) group: Option<SharedText>,
}

impl OpenSpan {
    /// The marker as it is reported while the span is open.
    pub(super) fn as_shown(&self, number: SpanNumber, converter: TimeConverter) -> ObservedMarker {
        let start = SessionNs(converter.since_start_ns(self.start));
        ObservedMarker {
            start,
            end: None,
            span: Some(number),
            ..self.marker.clone()
        }
    }

    /// Approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        let label = self.label.as_ref().map_or(0, String::len);
        let group = self.group.as_ref().map_or(0, |group| group.len());
        self.marker.weight() + label + group
    }
}

/// The open spans of one thread.
#[derive(Debug, Default)]
struct OfThread {
    /// In the order of their starts.
    numbers: Vec<SpanNumber>,
    /// Number of spans without a number in their process.
    unnumbered: usize,
    /// The groups of the thread's markers, with the number of open spans that set each.
    groups: BTreeMap<SharedText, usize>,
}

impl OfThread {
    fn add(&mut self, number: SpanNumber, span: &OpenSpan) {
        self.numbers.push(number);
        self.unnumbered += usize::from(span.id.is_none());
        if let Some(group) = &span.group {
            *self.groups.entry(group.clone()).or_default() += 1;
        }
    }

    fn remove(&mut self, number: SpanNumber, span: &OpenSpan) {
        self.numbers.retain(|one| *one != number);
        self.unnumbered = self
            .unnumbered
            .saturating_sub(usize::from(span.id.is_none()));
        let Some(group) = &span.group else { return };
        if let Some(count) = self.groups.get_mut(group) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.groups.remove(group);
            }
        }
    }
}

/// The open spans of one process.
#[derive(Debug, Default)]
pub(super) struct Spans {
    open: BTreeMap<SpanNumber, OpenSpan>,
    bytes: usize,
    by_id: HashMap<u64, SpanNumber>,
    by_thread: HashMap<ThreadId, OfThread>,
    /// Ends that were read before their start: the time, and the pass that read them.
    early: HashMap<u64, (Timestamp, u64)>,
    evicted: EvictedSpans,
    orphans: u64,
}

impl Spans {
    /// Begins a span. Returns the span with its end if the end was read before the start.
    pub(super) fn start(
        &mut self,
        number: SpanNumber,
        span: OpenSpan,
    ) -> Option<(OpenSpan, Timestamp)> {
        if let Some((end, _)) = span.id.and_then(|id| self.early.remove(&id)) {
            return Some((span, end));
        }
        let weight = span.weight();
        self.make_room(weight);
        if let Some(id) = span.id {
            self.by_id.insert(id, number);
        }
        self.by_thread
            .entry(span.marker.origin.thread)
            .or_default()
            .add(number, &span);
        self.bytes = self.bytes.saturating_add(weight);
        self.open.insert(number, span);
        None
    }

    /// Evicts the oldest spans until there is room for `weight` more bytes and one more span.
    fn make_room(&mut self, weight: usize) {
        while self.open.len() >= MAX_OPEN || self.bytes.saturating_add(weight) > MAX_BYTES {
            let Some(oldest) = self.open.keys().next().copied() else {
                return;
            };
            let Some(span) = self.remove(oldest) else {
                continue;
            };
            self.orphans += 1;
            match span.id {
                Some(id) => self.evicted.add_numbered(id),
                None => self.evicted.add_named(
                    span.marker.origin.thread,
                    &span.marker.name,
                    span.label.as_deref(),
                ),
            }
        }
    }

    /// Ends the span with this number in its process.
    pub(super) fn end_numbered(&mut self, id: u64, at: Timestamp, pass: u64) -> Option<OpenSpan> {
        if let Some(number) = self.by_id.get(&id).copied() {
            return self.remove(number);
        }
        if self.evicted.end_numbered(id) {
            return None;
        }
        if self.early.len() < MAX_EARLY {
            self.early.insert(id, (at, pass));
        } else {
            self.orphans += 1;
        }
        None
    }

    /// Ends the innermost unnumbered span of this name and text on its thread.
    pub(super) fn end_named(
        &mut self,
        thread: ThreadId,
        name: &str,
        label: Option<&str>,
    ) -> Option<OpenSpan> {
        let numbers = self.numbers(thread);
        let is_it = |number: &&SpanNumber| {
            let span = self.open.get(number);
            span.is_some_and(|span| {
                span.id.is_none() && *span.marker.name == *name && span.label.as_deref() == label
            })
        };
        let found = numbers.iter().rev().find(is_it).copied();
        if found.is_none() && !self.evicted.end_named(thread, name, label) {
            self.orphans += 1;
        }
        self.remove(found?)
    }

    /// Adds a detail to an open span.
    pub(super) fn detail(&mut self, id: u64, detail: Detail) {
        let Some(span) = self
            .by_id
            .get(&id)
            .and_then(|number| self.open.get_mut(number))
        else {
            self.orphans += u64::from(!self.evicted.knows_numbered(id));
            return;
        };
        let bytes = self.bytes.saturating_add(detail.weight());
        if span.marker.details.len() < MAX_DETAILS && bytes <= MAX_BYTES {
            span.marker.details.push(detail);
            self.bytes = bytes;
        } else {
            span.marker.cut = true;
        }
    }

    /// The groups of the markers that this thread records now.
    pub(super) fn groups(&self, thread: ThreadId) -> Vec<SharedText> {
        let groups = self
            .by_thread
            .get(&thread)
            .map(|spans| spans.groups.keys().take(MAX_GROUPS).cloned().collect());
        groups.unwrap_or_default()
    }

    /// Threads with unnumbered open spans, which only the thread itself can end.
    pub(super) fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.by_thread
            .iter()
            .filter(|(_, spans)| spans.unnumbered > 0)
            .map(|(thread, _)| *thread)
    }

    fn numbers(&self, thread: ThreadId) -> &[SpanNumber] {
        self.by_thread
            .get(&thread)
            .map(|spans| spans.numbers.as_slice())
            .unwrap_or_default()
    }

    /// Ends a pass: drops and counts the ends whose start was read neither in this pass nor in the
    /// one before.
    pub(super) fn end_pass(&mut self, pass: u64) {
        let before = self.early.len();
        self.early.retain(|_, (_, seen)| *seen >= pass);
        self.orphans += (before - self.early.len()) as u64;
    }

    /// Drops the unnumbered open spans of an exited thread.
    pub(super) fn forget_thread(&mut self, thread: ThreadId) {
        let unnumbered =
            |number: &&SpanNumber| self.open.get(number).is_some_and(|span| span.id.is_none());
        let numbers: Vec<SpanNumber> = self
            .numbers(thread)
            .iter()
            .filter(unnumbered)
            .copied()
            .collect();
        for number in numbers {
            self.orphans += u64::from(self.remove(number).is_some());
        }
        self.evicted.forget_thread(thread);
    }

    /// All open spans, the oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = (SpanNumber, &OpenSpan)> {
        self.open.iter().map(|(number, span)| (*number, span))
    }

    /// Removes and returns all open spans.
    pub(super) fn take_all(&mut self) -> Vec<(SpanNumber, OpenSpan)> {
        self.by_id.clear();
        self.by_thread.clear();
        self.bytes = 0;
        self.evicted = EvictedSpans::default();
        std::mem::take(&mut self.open).into_iter().collect()
    }

    /// Counts ends without a start, evicted starts, and starts whose thread has exited, so far;
    /// each span counts once. A detail of an unknown span counts like an end without a start.
    pub(super) const fn orphans(&self) -> u64 {
        self.orphans
    }

    fn remove(&mut self, number: SpanNumber) -> Option<OpenSpan> {
        let span = self.open.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(span.weight());
        if let Some(id) = span.id {
            self.by_id.remove(&id);
        }
        let thread = span.marker.origin.thread;
        if let Some(spans) = self.by_thread.get_mut(&thread) {
            spans.remove(number, &span);
            if spans.numbers.is_empty() {
                self.by_thread.remove(&thread);
            }
        }
        Some(span)
    }
}

#[cfg(test)]
mod tests;
