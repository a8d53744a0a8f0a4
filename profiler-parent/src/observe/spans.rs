//! Which end belongs to which start: the spans of one process that are open.
//!
//! A pure state machine, fed with starts and ends in the order of each thread. Spans with a number
//! ([`profiler_core::marker::MarkerSpan`]) are paired by it, on whatever thread they end. Those without (markers that
//! say "begins now" and "ends now") are paired on their own thread only, by name and text, the innermost first.
//! Invariants: a start is given back at most once; an end is never given another thread's start by its name; at most
//! [`MOST_OPEN`] are kept, of at most [`MOST_BYTES`], so a process that never ends anything costs a bounded amount: the
//! oldest go first, because what was begun last is likeliest to end. One that went is counted then, and not again when it
//! ends after all ([`evicted`]).
//!
//! Threads are read one after the other, so the end of a numbered span may be read before its start; it waits for one
//! more pass.

mod evicted;

use std::collections::{BTreeMap, HashMap};

use profiler_core::ids::ThreadId;
use profiler_core::time::{TimeConverter, Timestamp};

use super::event::{Detail, ObservedMarker, SharedText, SpanNumber};
use crate::session_time::SessionNs;
use evicted::EvictedSpans;

/// Open spans of one process that are kept.
const MOST_OPEN: usize = 1024;
/// Bytes of all of them, with what was said of them.
const MOST_BYTES: usize = 2 << 20;
/// Groups of one thread's open spans of which its markers are told.
const MOST_GROUPS: usize = 64;
/// Ends that wait for their start.
const MOST_EARLY: usize = 1024;
/// Details that one span keeps.
const MOST_DETAILS: usize = 64;

/// A span that is open.
#[derive(Clone, Debug)]
pub(super) struct OpenSpan {
    /// What is known of it.
    pub(super) marker: ObservedMarker,
    pub(super) start: Timestamp,
    /// Its number in its process, if it has one.
    pub(super) id: Option<u64>,
    /// What distinguishes it from others of the same name, if it has no number.
    pub(super) label: Option<String>,
    /// The group of what its thread records meanwhile.
    pub(super) group: Option<SharedText>,
}

impl OpenSpan {
    /// As it is shown while it is open.
    pub(super) fn as_shown(&self, number: SpanNumber, converter: TimeConverter) -> ObservedMarker {
        let start = SessionNs(converter.since_start_ns(self.start));
        ObservedMarker { start, end: None, span: Some(number), ..self.marker.clone() }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        let label = self.label.as_ref().map_or(0, String::len);
        let group = self.group.as_ref().map_or(0, |group| group.len());
        self.marker.weight() + label + group
    }
}

/// What is open on one thread.
#[derive(Debug, Default)]
struct OfThread {
    /// In the order in which they began.
    numbers: Vec<SpanNumber>,
    /// How many of them are without a number in their process.
    unnumbered: usize,
    /// Groups of what the thread records meanwhile, and how many of them say so.
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
        self.unnumbered = self.unnumbered.saturating_sub(usize::from(span.id.is_none()));
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
    early: HashMap<u64, (Timestamp, u64)>,
    evicted: EvictedSpans,
    orphans: u64,
}

impl Spans {
    /// A span begins. If its end has been seen already it is over: it is given back with its end.
    pub(super) fn start(&mut self, number: SpanNumber, span: OpenSpan) -> Option<(OpenSpan, Timestamp)> {
        if let Some((end, _)) = span.id.and_then(|id| self.early.remove(&id)) {
            return Some((span, end));
        }
        let weight = span.weight();
        self.make_room(weight);
        if let Some(id) = span.id {
            self.by_id.insert(id, number);
        }
        self.by_thread.entry(span.marker.origin.thread).or_default().add(number, &span);
        self.bytes = self.bytes.saturating_add(weight);
        self.open.insert(number, span);
        None
    }

    /// Evicts the oldest until there is room for one more of `bytes` bytes.
    fn make_room(&mut self, weight: usize) {
        while self.open.len() >= MOST_OPEN || self.bytes.saturating_add(weight) > MOST_BYTES {
            let Some(oldest) = self.open.keys().next().copied() else { return };
            let Some(span) = self.remove(oldest) else { continue };
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

    /// The span with this number in its process ends.
    pub(super) fn end_numbered(&mut self, id: u64, at: Timestamp, pass: u64) -> Option<OpenSpan> {
        if let Some(number) = self.by_id.get(&id).copied() {
            return self.remove(number);
        }
        if self.evicted.end_numbered(id) {
            return None;
        }
        if self.early.len() < MOST_EARLY {
            self.early.insert(id, (at, pass));
        } else {
            self.orphans += 1;
        }
        None
    }

    /// The innermost span of this name and text that has no number ends on its thread.
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

    /// Something more is said of an open span.
    pub(super) fn detail(&mut self, id: u64, detail: Detail) {
        let Some(span) = self.by_id.get(&id).and_then(|number| self.open.get_mut(number)) else {
            self.orphans += u64::from(!self.evicted.knows_numbered(id));
            return;
        };
        let bytes = self.bytes.saturating_add(detail.weight());
        if span.marker.details.len() < MOST_DETAILS && bytes <= MOST_BYTES {
            span.marker.details.push(detail);
            self.bytes = bytes;
        } else {
            span.marker.cut = true;
        }
    }

    /// The groups to which belongs what this thread records now.
    pub(super) fn groups(&self, thread: ThreadId) -> Vec<SharedText> {
        let groups =
            self.by_thread.get(&thread).map(|of| of.groups.keys().take(MOST_GROUPS).cloned().collect());
        groups.unwrap_or_default()
    }

    /// Threads that have spans open that only they can end.
    pub(super) fn threads(&self) -> impl Iterator<Item = ThreadId> {
        self.by_thread.iter().filter(|(_, of)| of.unnumbered > 0).map(|(thread, _)| *thread)
    }

    fn numbers(&self, thread: ThreadId) -> &[SpanNumber] {
        self.by_thread.get(&thread).map(|of| of.numbers.as_slice()).unwrap_or_default()
    }

    /// A pass is over: ends whose start did not come in it or the one before have none.
    pub(super) fn end_pass(&mut self, pass: u64) {
        let before = self.early.len();
        self.early.retain(|_, (_, seen)| *seen >= pass);
        self.orphans += (before - self.early.len()) as u64;
    }

    /// Drops the open spans without a number of a thread that has exited.
    pub(super) fn forget_thread(&mut self, thread: ThreadId) {
        let unnumbered = |number: &&SpanNumber| self.open.get(number).is_some_and(|span| span.id.is_none());
        let numbers: Vec<SpanNumber> = self.numbers(thread).iter().filter(unnumbered).copied().collect();
        for number in numbers {
            self.orphans += u64::from(self.remove(number).is_some());
        }
        self.evicted.forget_thread(thread);
    }

    /// All open spans, the oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = (SpanNumber, &OpenSpan)> {
        self.open.iter().map(|(number, span)| (*number, span))
    }

    /// Takes all open spans; nothing ends them any more.
    pub(super) fn take_all(&mut self) -> Vec<(SpanNumber, OpenSpan)> {
        self.by_id.clear();
        self.by_thread.clear();
        self.bytes = 0;
        self.evicted = EvictedSpans::default();
        std::mem::take(&mut self.open).into_iter().collect()
    }

    /// Ends without a start, starts that had to make room, and starts that nobody can end, so far; a span counts once. What
    /// is said of a span that is not known counts like an end.
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
        if let Some(of) = self.by_thread.get_mut(&thread) {
            of.remove(number, &span);
            if of.numbers.is_empty() {
                self.by_thread.remove(&thread);
            }
        }
        Some(span)
    }
}

#[cfg(test)]
mod tests;
