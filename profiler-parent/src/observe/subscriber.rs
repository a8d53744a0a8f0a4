//! One observer on the side of the reader thread: its filter, its schedule, and its pending
//! markers.
//!
//! Owned by the reader thread. Invariants: a batch is sent only if something happened; a batch that
//! does not fit into the observer's queue is counted, and the reader thread never waits for room.
//! Dropping the subscriber closes the queue.

use std::sync::Weak;
use std::time::Duration;

use profiler_core::time::{TimeConverter, Timestamp};

use super::event::{Batch, BatchClock, ObservedMarker, SpanNumber};
use super::filter::{Filter, Head};
use super::queue::BatchQueue;
use super::schedule::Schedule;
use super::spans::OpenSpan;
use crate::session_time::SessionNs;

/// Limit on the running spans in a batch.
const MAX_RUNNING: usize = 256;

/// Options of an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObserverOptions {
    /// Time between two batches while something happens. Default: 200 ms; at least 5 ms.
    pub period: Duration,
    /// Markers after which a batch is sent before the period ends. Default: 2048. The number is
    /// checked every 50 ms, or less often if reading is expensive, but at least once a second. With
    /// `usize::MAX`, a batch is sent early only if it would fill a quarter of the queue, which is
    /// checked once a second.
    pub batch_markers: usize,
    /// Limit on the bytes in the queue, not counting the batch that is being filled. Default: 8
    /// MiB.
    pub queue_bytes: usize,
}

impl Default for ObserverOptions {
    fn default() -> Self {
        Self {
            period: Duration::from_millis(200),
            batch_markers: 2048,
            queue_bytes: 8 << 20,
        }
    }
}

impl ObserverOptions {
    /// Sets the time between two batches.
    #[must_use]
    pub const fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets the approximate limit on the markers in a batch.
    #[must_use]
    pub const fn batch_markers(mut self, markers: usize) -> Self {
        self.batch_markers = markers;
        self
    }

    /// Sets the limit on the bytes in the queue.
    #[must_use]
    pub const fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }
}

/// The losses of all processes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tallies {
    pub(super) missed: u64,
    pub(super) orphans: u64,
    pub(super) unreadable: u64,
}

impl Tallies {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            missed: self.missed.saturating_add(other.missed),
            orphans: self.orphans.saturating_add(other.orphans),
            unreadable: self.unreadable.saturating_add(other.unreadable),
        }
    }

    const fn since(self, before: Self) -> Self {
        Self {
            missed: self.missed.saturating_sub(before.missed),
            orphans: self.orphans.saturating_sub(before.orphans),
            unreadable: self.unreadable,
        }
    }
}

/// The state last reported to the observer, besides markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ReportedState {
    running: Vec<(SpanNumber, usize)>,
    tallies: Tallies,
    dropped: u64,
}

/// One observer.
#[derive(Debug)]
pub(super) struct Subscriber {
    filter: Filter,
    options: ObserverOptions,
    /// When the observer was attached.
    since: Timestamp,
    /// The entries from before the observer was attached have been read.
    caught_up: bool,
    schedule: Schedule,
    queue: Weak<BatchQueue>,
    pending: Vec<ObservedMarker>,
    pending_bytes: usize,
    running: (Vec<ObservedMarker>, u64),
    /// The losses before the observer was attached.
    at_first: Tallies,
    tallies: Tallies,
    dropped: u64,
    reported: ReportedState,
    sequence: u64,
}

impl Subscriber {
    pub(super) fn new(
        filter: Filter,
        options: ObserverOptions,
        queue: Weak<BatchQueue>,
        clock: BatchClock,
    ) -> Self {
        Self {
            filter,
            options,
            since: Timestamp::MAX,
            caught_up: false,
            schedule: Schedule::new(options.period, clock.now),
            queue,
            pending: Vec::new(),
            pending_bytes: 0,
            running: (Vec::new(), 0),
            at_first: Tallies::default(),
            tallies: Tallies::default(),
            dropped: 0,
            reported: ReportedState::default(),
            sequence: 0,
        }
    }

    /// Whether the observer still exists.
    pub(super) fn is_there(&self) -> bool {
        self.queue.strong_count() > 0
    }

    /// Whether the number of markers can cause a batch before it is due.
    pub(super) const fn wants_batches_by_size(&self) -> bool {
        self.options.batch_markers < usize::MAX
    }

    /// Sets the time of attachment to now. Called by the reader thread: the observer does not
    /// receive entries that an earlier pass has read.
    pub(super) fn begin(&mut self) -> Timestamp {
        self.since = Timestamp::now();
        self.since
    }

    pub(super) const fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// Ends the first read: all entries from before the attachment have been read, later ones are
    /// new.
    pub(super) fn catch_up(&mut self, tallies: Tallies) {
        (self.caught_up, self.at_first, self.tallies) = (true, tallies, tallies);
        self.reported.tallies = Tallies {
            unreadable: tallies.unreadable,
            ..Tallies::default()
        };
    }

    /// Whether the observer wants a marker that ended at `last`.
    pub(super) fn wants(&self, head: &Head<'_>, last: Timestamp) -> bool {
        (self.caught_up || last >= self.since) && self.filter.wants(head)
    }

    /// Adds a marker that the observer wants.
    pub(super) fn take(&mut self, marker: &ObservedMarker, began: Timestamp, clock: BatchClock) {
        let marker = ObservedMarker {
            opened_before: began < self.since,
            ..marker.clone()
        };
        if let Some(number) = marker.span {
            self.running
                .0
                .retain(|running| running.span != Some(number));
        }
        self.pending_bytes = self.pending_bytes.saturating_add(marker.weight());
        self.pending.push(marker);
        let is_large = self.pending_bytes >= self.large();
        if self.pending.len() >= self.options.batch_markers.max(1) || is_large {
            self.send(clock);
        }
    }

    /// Selects the running spans for the next batch.
    pub(super) fn update_running<'a>(
        &mut self,
        open: impl Iterator<Item = (SpanNumber, &'a OpenSpan)>,
        converter: TimeConverter,
        clock: BatchClock,
    ) {
        let age =
            |start: SessionNs| u64::try_from(clock.now.0.saturating_sub(start.0)).unwrap_or(0);
        let wants = |span: &OpenSpan| {
            self.filter
                .wants(&Head::of(&span.marker, age(span.marker.start)))
        };
        let mut wanted: Vec<(SpanNumber, &OpenSpan)> =
            open.filter(|(_, span)| wants(span)).collect();
        wanted.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let mut running = Vec::new();
        let mut bytes = 0_usize;
        // The latest spans: spans that never end must not hide the others.
        for (number, span) in wanted.iter().take(MAX_RUNNING) {
            bytes = bytes.saturating_add(span.weight());
            if bytes > self.large() && !running.is_empty() {
                break;
            }
            let opened_before = span.start < self.since;
            running.push(ObservedMarker {
                opened_before,
                ..span.as_shown(*number, converter)
            });
        }
        running.reverse();
        let left_out = wanted.len().saturating_sub(running.len());
        self.running = (running, left_out as u64);
    }

    /// Bytes at which a batch is sent early.
    const fn large(&self) -> usize {
        self.options.queue_bytes / 4
    }

    /// Sends the pending markers if anything happened since the last batch.
    pub(super) fn flush(&mut self, tallies: Tallies, clock: BatchClock) {
        self.tallies = tallies;
        if !self.pending.is_empty() || self.news() != self.reported {
            self.send(clock);
        }
    }

    fn news(&self) -> ReportedState {
        let running = self.running.0.iter();
        ReportedState {
            running: running
                .filter_map(|one| Some((one.span?, one.details.len())))
                .collect(),
            tallies: self.tallies.since(self.at_first),
            dropped: self.dropped,
        }
    }

    fn send(&mut self, clock: BatchClock) {
        let markers = std::mem::take(&mut self.pending);
        let bytes = std::mem::take(&mut self.pending_bytes);
        let Some(queue) = self.queue.upgrade() else {
            return;
        };
        let news = self.news();
        let count = markers.len() as u64;
        let running_bytes: usize = self.running.0.iter().map(ObservedMarker::weight).sum();
        let batch = Batch {
            sequence: self.sequence,
            clock,
            markers,
            running: self.running.0.clone(),
            running_left_out: self.running.1,
            dropped: self.dropped,
            missed: news.tallies.missed,
            orphans: news.tallies.orphans,
            unreadable: news.tallies.unreadable,
        };
        if queue.put(
            batch,
            bytes
                .saturating_add(running_bytes)
                .saturating_add(size_of::<Batch>()),
        ) {
            self.sequence += 1;
            self.reported = news;
        } else {
            self.dropped = self.dropped.saturating_add(count);
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade() {
            queue.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profiler_core::time::{Anchor, SessionClock};

    use super::super::event::Detail;
    use super::*;

    /// Returns the batch that an observer with a queue of this many bytes gets for these spans.
    fn running(spans: &[(SpanNumber, OpenSpan)], queue_bytes: usize) -> Batch {
        let start = SessionClock::start_now();
        let clock = BatchClock {
            start_monotonic: start.start.monotonic,
            start_unix: start.start_unix,
            now: SessionNs(1),
        };
        let options = ObserverOptions::default().queue_bytes(queue_bytes);
        let queue = Arc::new(BatchQueue::new(queue_bytes));
        let mut subscriber =
            Subscriber::new(Filter::default(), options, Arc::downgrade(&queue), clock);
        subscriber.begin();
        let open = spans.iter().map(|(number, span)| (*number, span));
        subscriber.update_running(open, start.converter(Anchor::take()), clock);
        subscriber.flush(Tallies::default(), clock);
        queue.take(Duration::ZERO).unwrap()
    }

    fn span(number: u64, details: usize) -> (SpanNumber, OpenSpan) {
        let detail = Detail {
            name: "said".into(),
            value: "v".repeat(10_000),
        };
        let marker = ObservedMarker {
            details: vec![detail; details],
            ..ObservedMarker::test_span(1, "s")
        };
        let open = OpenSpan {
            marker,
            start: Timestamp::ZERO,
            id: None,
            label: None,
            group: None,
        };
        (SpanNumber(number), open)
    }

    fn numbers(batch: &Batch) -> Vec<u64> {
        batch
            .running
            .iter()
            .filter_map(|one| Some(one.span?.0))
            .collect()
    }

    #[test]
    fn t4_the_latest_running_spans_are_listed_and_the_others_are_counted() {
        let spans: Vec<_> = (0..2_000).map(|number| span(number, 0)).collect();
        let batch = running(&spans, 8 << 20);
        assert_eq!(numbers(&batch), (2_000 - 256..2_000).collect::<Vec<_>>());
        assert_eq!(batch.running_left_out, 2_000 - 256);
    }

    #[test]
    fn running_spans_with_many_details_do_not_fill_the_queue() {
        let spans: Vec<_> = (0..100).map(|number| span(number, 10)).collect();
        let batch = running(&spans, 1 << 20);
        assert_eq!(numbers(&batch), [98, 99], "a quarter of the queue");
        assert_eq!(batch.running_left_out, 98);
        assert_eq!(
            running(&spans, 1_000).running.len(),
            1,
            "at least one span is listed"
        );
    }
}
