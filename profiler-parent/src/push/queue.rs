//! The batches that wait in the spool, and how far each destination has got with them.
//!
//! Used by `spool`. Pure. A batch stays until all destinations are done with it, or until the bytes
//! of all batches exceed the limit: then the oldest batch is removed, and its entries count as lost
//! for the destinations that have not got it.
//!
//! ```text
//! batches        7   8   9   10            oldest first
//! destination A          ▲ next = 9
//! destination B  ▲ next = 7                 (7 and 8 stay because of B)
//! ```
//!
//! Invariant: for each destination, every batch is sent, by this pusher or an earlier one, or is
//! rejected, is lost, or waits.

use std::collections::VecDeque;

/// The number of a batch in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BatchNumber(pub(crate) u64);

/// The place of a destination in the options of the pusher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DestinationIndex(pub(crate) usize);

/// A batch that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedBatch {
    pub(crate) number: BatchNumber,
    /// The size of its file.
    pub(crate) bytes: u64,
    /// The entries that it has.
    pub(crate) entries: u64,
}

/// What has become of the batches of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestinationCounts {
    pub(crate) sent: Amount,
    /// Removed before it was sent, because the spool was full.
    pub(crate) lost: Amount,
    /// Given up, because the destination refuses it or because it cannot be read.
    pub(crate) rejected: Amount,
}

/// A number of batches, and of the entries in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) batches: u64,
    pub(crate) entries: u64,
}

impl Amount {
    const fn add(&mut self, batch: &QueuedBatch) {
        self.batches = self.batches.saturating_add(1);
        self.entries = self.entries.saturating_add(batch.entries);
    }
}

/// The outcome of a batch at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    /// It has accepted all bodies.
    Sent,
    /// It has refused at least one body, the batch cannot be read, or another pusher has taken over
    /// the directory of the batch.
    Rejected,
    /// It has got the batch from an earlier pusher, which has counted it.
    SentEarlier,
}

#[derive(Clone, Copy, Debug)]
struct DestinationProgress {
    /// The batch that it gets next.
    next: BatchNumber,
    counts: DestinationCounts,
}

/// The batches of a spool.
#[derive(Debug)]
pub(crate) struct BatchQueue {
    limit: u64,
    batches: VecDeque<QueuedBatch>,
    next: BatchNumber,
    destinations: Vec<DestinationProgress>,
}

impl BatchQueue {
    /// An empty queue of at most `limit` bytes.
    pub(crate) fn new(limit: u64, destinations: usize) -> Self {
        let first = BatchNumber(0);
        let progress = DestinationProgress {
            next: first,
            counts: DestinationCounts::default(),
        };
        Self {
            limit,
            batches: VecDeque::new(),
            next: first,
            destinations: vec![progress; destinations],
        }
    }

    /// The number that the next batch gets.
    pub(crate) const fn next_number(&self) -> BatchNumber {
        self.next
    }

    /// Adds a batch. Returns the batches to remove. `has` says whether a destination has got a
    /// batch from an earlier pusher: it loses nothing with it.
    pub(crate) fn add(
        &mut self,
        bytes: u64,
        entries: u64,
        has: impl Fn(BatchNumber, DestinationIndex) -> bool,
    ) -> Vec<BatchNumber> {
        let number = self.next;
        self.next = BatchNumber(number.0.saturating_add(1));
        self.batches.push_back(QueuedBatch {
            number,
            bytes,
            entries,
        });
        self.remove_surplus(has)
    }

    fn remove_surplus(
        &mut self,
        has: impl Fn(BatchNumber, DestinationIndex) -> bool,
    ) -> Vec<BatchNumber> {
        let mut removed = Vec::new();
        while self.bytes() > self.limit
            && let Some(oldest) = self.batches.pop_front()
        {
            for (place, destination) in self.destinations.iter_mut().enumerate() {
                if destination.next <= oldest.number {
                    if !has(oldest.number, DestinationIndex(place)) {
                        destination.counts.lost.add(&oldest);
                    }
                    destination.next = after(oldest.number);
                }
            }
            removed.push(oldest.number);
        }
        removed
    }

    /// The bytes of all batches.
    pub(crate) fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// The batches that wait for a destination.
    pub(crate) fn waiting(&self, destination: DestinationIndex) -> Amount {
        let next = self.position(destination);
        let waiting = self.batches.iter().filter(|batch| batch.number >= next);
        waiting.fold(Amount::default(), |mut sum, batch| {
            sum.add(batch);
            sum
        })
    }

    /// The batch that a destination gets next; `None` if it has all batches.
    pub(crate) fn next_of(&self, destination: DestinationIndex) -> Option<BatchNumber> {
        let next = self.position(destination);
        (self.batches.back()?.number >= next).then_some(next)
    }

    /// Whether a destination gets this batch next. False if the batch was removed.
    pub(crate) fn is_next_of(&self, destination: DestinationIndex, batch: BatchNumber) -> bool {
        self.next_of(destination) == Some(batch)
    }

    /// The batch that a destination gets next, which may not have been added yet.
    fn position(&self, destination: DestinationIndex) -> BatchNumber {
        let progress = self.destinations.get(destination.0);
        progress.map_or(after(self.next), |progress| progress.next)
    }

    /// A destination is done with its batch. Returns the batches that all destinations are done
    /// with, to be removed.
    pub(crate) fn finish(
        &mut self,
        destination: DestinationIndex,
        number: BatchNumber,
        end: BatchEnd,
    ) -> Vec<BatchNumber> {
        let batch = self.batches.iter().find(|batch| batch.number == number);
        let progress = self.destinations.get_mut(destination.0);
        if let (Some(batch), Some(progress)) = (batch, progress)
            && progress.next == number
        {
            let counts = &mut progress.counts;
            match end {
                BatchEnd::Sent => counts.sent.add(batch),
                BatchEnd::Rejected => counts.rejected.add(batch),
                BatchEnd::SentEarlier => {}
            }
            progress.next = after(number);
        }
        self.remove_done()
    }

    fn remove_done(&mut self) -> Vec<BatchNumber> {
        let next = self.destinations.iter().map(|each| each.next);
        let first = next.min().unwrap_or(self.next);
        let done = self.batches.partition_point(|batch| batch.number < first);
        self.batches
            .drain(..done)
            .map(|batch| batch.number)
            .collect()
    }

    /// What has become of the batches of a destination.
    pub(crate) fn counts(&self, destination: DestinationIndex) -> DestinationCounts {
        let progress = self.destinations.get(destination.0);
        progress.map_or_else(DestinationCounts::default, |progress| progress.counts)
    }
}

/// The number of the batch after this one.
const fn after(batch: BatchNumber) -> BatchNumber {
    BatchNumber(batch.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: DestinationIndex = DestinationIndex(0);
    const B: DestinationIndex = DestinationIndex(1);

    /// Adds a batch that no destination has. Returns its number, and the batches to remove.
    fn add(queue: &mut BatchQueue, bytes: u64, entries: u64) -> (BatchNumber, Vec<BatchNumber>) {
        let number = queue.next_number();
        (number, queue.add(bytes, entries, |_, _| false))
    }

    fn numbers(batches: &[BatchNumber]) -> Vec<u64> {
        batches.iter().map(|batch| batch.0).collect()
    }

    #[test]
    fn a_batch_stays_until_all_destinations_are_done_with_it() {
        let mut queue = BatchQueue::new(1000, 2);
        let (first, _) = add(&mut queue, 10, 5);
        let (second, _) = add(&mut queue, 10, 5);
        assert_eq!(queue.finish(A, first, BatchEnd::Sent), []);
        assert_eq!(queue.next_of(A).unwrap(), second);
        assert_eq!(queue.next_of(B).unwrap(), first);
        assert_eq!(queue.finish(A, second, BatchEnd::Sent), []);
        assert_eq!(queue.next_of(A), None);
        assert_eq!(queue.finish(B, first, BatchEnd::Rejected), [first]);
        assert_eq!(queue.bytes(), 10);
        let waiting = [A, B].map(|destination| queue.waiting(destination).batches);
        assert_eq!(waiting, [0, 1]);
        assert_eq!(
            queue.counts(B).rejected,
            Amount {
                batches: 1,
                entries: 5
            }
        );
    }

    #[test]
    fn the_oldest_batches_are_lost_for_the_destinations_that_have_not_got_them() {
        let mut queue = BatchQueue::new(25, 2);
        let (first, _) = add(&mut queue, 10, 1);
        add(&mut queue, 10, 2);
        queue.finish(A, first, BatchEnd::Sent);
        assert!(queue.is_next_of(A, BatchNumber(1)));
        let (_, removed) = add(&mut queue, 10, 4);
        assert_eq!(numbers(&removed), [0]);
        assert_eq!(queue.counts(A).lost, Amount::default());
        assert_eq!(
            queue.counts(B).lost,
            Amount {
                batches: 1,
                entries: 1
            }
        );
        let (_, removed) = add(&mut queue, 20, 8);
        assert_eq!(numbers(&removed), [1, 2]);
        assert!(!queue.is_next_of(A, BatchNumber(1)), "it was removed");
        assert_eq!(
            queue.counts(A).lost,
            Amount {
                batches: 2,
                entries: 6
            }
        );
        assert_eq!(queue.next_of(A).unwrap(), BatchNumber(3));
    }

    #[test]
    fn a_batch_beyond_the_limit_alone_is_lost_at_once() {
        let mut queue = BatchQueue::new(10, 1);
        let (_, removed) = add(&mut queue, 11, 3);
        assert_eq!(numbers(&removed), [0]);
        assert_eq!((queue.bytes(), queue.next_of(A)), (0, None));
        assert_eq!(queue.counts(A).lost.entries, 3);
    }

    #[test]
    fn a_destination_loses_no_batch_that_it_has_got_from_an_earlier_pusher() {
        let mut queue = BatchQueue::new(15, 2);
        let of_a = |_, destination| destination == A;
        assert_eq!(queue.add(10, 1, of_a), []);
        assert_eq!(numbers(&queue.add(10, 2, of_a)), [0]);
        assert_eq!(queue.counts(A).lost, Amount::default());
        assert_eq!(queue.counts(B).lost.entries, 1);
        let second = queue.next_of(A).unwrap();
        queue.finish(A, second, BatchEnd::SentEarlier);
        assert_eq!(queue.counts(A), DestinationCounts::default());
        assert_eq!(queue.next_of(A), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u64),
        Finish(usize, bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0_u64..40).prop_map(Step::Add),
            (0_usize..3, any::<bool>()).prop_map(|(of, sent)| Step::Finish(of, sent)),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn every_batch_is_sent_rejected_lost_or_waits(steps in steps()) {
            let mut queue = BatchQueue::new(100, 3);
            let mut added = 0;
            let mut files = Vec::new();
            for step in steps {
                match step {
                    Step::Add(bytes) => {
                        let (number, removed) = add(&mut queue, bytes, 1);
                        added += 1;
                        files.push(number);
                        files.retain(|file| !removed.contains(file));
                    }
                    Step::Finish(of, is_sent) => {
                        let of = DestinationIndex(of);
                        if let Some(batch) = queue.next_of(of) {
                            let end = if is_sent { BatchEnd::Sent } else { BatchEnd::Rejected };
                            let removed = queue.finish(of, batch, end);
                            files.retain(|file| !removed.contains(file));
                        }
                    }
                }
                prop_assert!(queue.bytes() <= 100);
                prop_assert_eq!(files.len(), queue.batches.len());
                for of in (0..3).map(DestinationIndex) {
                    let DestinationCounts { sent, lost, rejected } = queue.counts(of);
                    let over = sent.batches + lost.batches + rejected.batches;
                    prop_assert_eq!(over + queue.waiting(of).batches, added);
                    if let Some(batch) = queue.next_of(of) {
                        prop_assert!(files.contains(&batch));
                    }
                }
            }
        }
    }
}
