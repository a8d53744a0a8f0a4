//! Which end belongs to which start: the spans of one process that are open.
//!
//! A pure state machine, fed with starts and ends in the order of each thread. Spans with a number
//! ([`profiler_core::marker::MarkerSpan`]) are paired by it, on whatever thread they end. Those without (markers that
//! say "begins now" and "ends now") are paired on their own thread only, by name and text, the innermost first.
//! Invariants: a start is given back at most once; an end is never given another thread's start by its name; at most
//! [`MOST_OPEN`] are kept, so a process that never ends anything costs a bounded amount.
//!
//! Threads are read one after the other, so the end of a numbered span may be read before its start; it waits for one
//! more pass.

use std::collections::{BTreeMap, HashMap};

use profiler_core::ids::ThreadId;
use profiler_core::time::{TimeConverter, Timestamp};

use super::event::{Detail, ObservedMarker, SessionNs, SharedText, SpanNumber};

/// Open spans of one process that are kept.
const MOST_OPEN: usize = 1024;
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
    /// What tells it from others of the same name, if it has no number.
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
}

/// The open spans of one process.
#[derive(Debug, Default)]
pub(super) struct Spans {
    open: BTreeMap<SpanNumber, OpenSpan>,
    by_id: HashMap<u64, SpanNumber>,
    by_thread: HashMap<ThreadId, Vec<SpanNumber>>,
    early: HashMap<u64, (Timestamp, u64)>,
    orphans: u64,
}

impl Spans {
    /// A span begins. If its end has been seen already it is over: it is given back with its end.
    pub(super) fn start(&mut self, number: SpanNumber, span: OpenSpan) -> Option<(OpenSpan, Timestamp)> {
        if let Some((end, _)) = span.id.and_then(|id| self.early.remove(&id)) {
            return Some((span, end));
        }
        if self.open.len() >= MOST_OPEN {
            self.orphans += 1;
            return None;
        }
        if let Some(id) = span.id {
            self.by_id.insert(id, number);
        }
        self.by_thread.entry(span.marker.origin.thread).or_default().push(number);
        self.open.insert(number, span);
        None
    }

    /// The span with this number in its process ends.
    pub(super) fn end_numbered(&mut self, id: u64, at: Timestamp, pass: u64) -> Option<OpenSpan> {
        if let Some(number) = self.by_id.get(&id).copied() {
            return self.remove(number);
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
        let numbers = self.by_thread.get(&thread).map(Vec::as_slice).unwrap_or_default();
        let is_it = |number: &&SpanNumber| {
            let span = self.open.get(number);
            span.is_some_and(|span| {
                span.id.is_none() && *span.marker.name == *name && span.label.as_deref() == label
            })
        };
        let found = numbers.iter().rev().find(is_it).copied();
        self.orphans += u64::from(found.is_none());
        self.remove(found?)
    }

    /// Something more is said of an open span.
    pub(super) fn detail(&mut self, id: u64, detail: Detail) {
        let span = self.by_id.get(&id).and_then(|number| self.open.get_mut(number));
        match span {
            Some(span) if span.marker.details.len() < MOST_DETAILS => span.marker.details.push(detail),
            Some(span) => span.marker.cut = true,
            None => self.orphans += 1,
        }
    }

    /// The groups to which belongs what this thread records now.
    pub(super) fn groups(&self, thread: ThreadId) -> Vec<SharedText> {
        let numbers = self.by_thread.get(&thread).map(Vec::as_slice).unwrap_or_default();
        let mut groups: Vec<SharedText> =
            numbers.iter().filter_map(|number| self.open.get(number)?.group.clone()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// A pass is over: ends whose start did not come in it or the one before have none.
    pub(super) fn end_pass(&mut self, pass: u64) {
        let before = self.early.len();
        self.early.retain(|_, (_, seen)| *seen >= pass);
        self.orphans += (before - self.early.len()) as u64;
    }

    /// The thread that had this number has ended: what it left open without a number nobody can end.
    pub(super) fn forget_thread(&mut self, thread: ThreadId) {
        let numbers = self.by_thread.get(&thread).cloned().unwrap_or_default();
        let unnumbered = |number: &&SpanNumber| self.open.get(number).is_some_and(|span| span.id.is_none());
        for number in numbers.iter().filter(unnumbered).copied().collect::<Vec<_>>() {
            self.orphans += u64::from(self.remove(number).is_some());
        }
    }

    /// All open spans, the oldest first.
    pub(super) fn open(&self) -> impl Iterator<Item = (SpanNumber, &OpenSpan)> {
        self.open.iter().map(|(number, span)| (*number, span))
    }

    /// Takes all open spans; nothing ends them any more.
    pub(super) fn take_all(&mut self) -> Vec<(SpanNumber, OpenSpan)> {
        self.by_id.clear();
        self.by_thread.clear();
        std::mem::take(&mut self.open).into_iter().collect()
    }

    /// Ends without a start, starts without room, and starts that nobody can end, so far.
    pub(super) const fn orphans(&self) -> u64 {
        self.orphans
    }

    fn remove(&mut self, number: SpanNumber) -> Option<OpenSpan> {
        let span = self.open.remove(&number)?;
        if let Some(id) = span.id {
            self.by_id.remove(&id);
        }
        let thread = span.marker.origin.thread;
        if let Some(numbers) = self.by_thread.get_mut(&thread) {
            numbers.retain(|one| *one != number);
            if numbers.is_empty() {
                self.by_thread.remove(&thread);
            }
        }
        Some(span)
    }
}

#[cfg(test)]
mod tests;
