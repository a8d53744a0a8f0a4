//! The batches that wait in the spool, and the destinations that each of them waits for.
//!
//! Used by `spool`. Pure. A batch stays until all destinations are done with it, or until the bytes
//! of all batches exceed the limit: then the oldest batch is removed, and its entries count as lost
//! for the destinations that have not got it.
//!
//! ```text
//! batches             7     8     9     10           oldest first
//! waits for           B     B     A B   A B          (7 and 8 stay because of B)
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
#[derive(Debug)]
pub(crate) struct QueuedBatch<F> {
    pub(crate) number: BatchNumber,
    /// The size of its file.
    bytes: u64,
    /// The entries that it has.
    entries: u64,
    /// For each destination whether the batch waits for it.
    waits_for: Vec<bool>,
    pub(crate) file: F,
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
    const fn add(&mut self, entries: u64) {
        self.batches = self.batches.saturating_add(1);
        self.entries = self.entries.saturating_add(entries);
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
}

/// The batches of a spool.
#[derive(Debug)]
pub(crate) struct BatchQueue<F> {
    limit: u64,
    batches: VecDeque<QueuedBatch<F>>,
    /// The sum over all batches.
    bytes: u64,
    /// The number that the next batch gets.
    next: BatchNumber,
    /// One for each destination.
    counts: Vec<DestinationCounts>,
}

impl<F> QueuedBatch<F> {
    fn waits_for(&self, destination: DestinationIndex) -> bool {
        self.waits_for.get(destination.0) == Some(&true)
    }

    /// Whether all destinations have it. Without any destination, a batch stays.
    fn is_done(&self) -> bool {
        !self.waits_for.is_empty() && !self.waits_for.contains(&true)
    }
}

impl<F> BatchQueue<F> {
    /// An empty queue of at most `limit` bytes.
    pub(crate) fn new(limit: u64, destinations: usize) -> Self {
        Self {
            limit,
            batches: VecDeque::new(),
            bytes: 0,
            next: BatchNumber(0),
            counts: vec![DestinationCounts::default(); destinations],
        }
    }

    /// Lowers the limit because of other files, but leaves a quarter of it.
    pub(crate) fn spare(&mut self, bytes: u64) {
        self.limit = self.limit.saturating_sub(bytes).max(self.limit / 4);
    }

    /// Adds a batch. Returns the batches to remove. `has` says for each destination whether it has
    /// got the batch from an earlier pusher, which has counted it.
    pub(crate) fn add(&mut self, (bytes, entries): (u64, u64), file: F, has: Vec<bool>) -> Vec<F> {
        let number = self.next;
        self.next = BatchNumber(number.0.saturating_add(1));
        let batch = QueuedBatch {
            number,
            bytes,
            entries,
            waits_for: has.into_iter().map(|has| !has).collect(),
            file,
        };
        if batch.is_done() {
            return vec![batch.file];
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.batches.push_back(batch);
        self.remove_surplus()
    }

    fn remove_surplus(&mut self) -> Vec<F> {
        let mut removed = Vec::new();
        while self.bytes > self.limit
            && let Some(oldest) = self.batches.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            for (counts, waits) in self.counts.iter_mut().zip(&oldest.waits_for) {
                if *waits {
                    counts.lost.add(oldest.entries);
                }
            }
            removed.push(oldest.file);
        }
        removed
    }

    /// The bytes of all batches.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The batches that wait for a destination.
    pub(crate) fn waiting(&self, destination: DestinationIndex) -> Amount {
        let mut sum = Amount::default();
        let waiting = self.batches.iter().filter(|it| it.waits_for(destination));
        waiting.for_each(|batch| sum.add(batch.entries));
        sum
    }

    /// The batch that a destination gets next; `None` if it has all batches.
    pub(crate) fn next_of(&self, destination: DestinationIndex) -> Option<&QueuedBatch<F>> {
        self.batches.iter().find(|it| it.waits_for(destination))
    }

    /// Whether a destination gets this batch next. False if the batch was removed.
    pub(crate) fn is_next_of(&self, destination: DestinationIndex, batch: BatchNumber) -> bool {
        let next = self.next_of(destination);
        next.is_some_and(|next| next.number == batch)
    }

    /// A destination is done with its batch. Returns the batch if all destinations are done with
    /// it, to be removed.
    pub(crate) fn finish(
        &mut self,
        destination: DestinationIndex,
        number: BatchNumber,
        end: BatchEnd,
    ) -> Option<F> {
        let place = self.batches.iter().position(|it| it.number == number)?;
        let batch = self.batches.get_mut(place)?;
        let counts = self.counts.get_mut(destination.0)?;
        let waits = batch.waits_for.get_mut(destination.0)?;
        if std::mem::take(waits) {
            match end {
                BatchEnd::Sent => counts.sent.add(batch.entries),
                BatchEnd::Rejected => counts.rejected.add(batch.entries),
            }
        }
        if !batch.is_done() {
            return None;
        }
        let done = self.batches.remove(place)?;
        self.bytes = self.bytes.saturating_sub(done.bytes);
        Some(done.file)
    }

    /// What has become of the batches of a destination.
    pub(crate) fn counts(&self, destination: DestinationIndex) -> DestinationCounts {
        let counts = self.counts.get(destination.0);
        counts.copied().unwrap_or_default()
    }
}
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: DestinationIndex = DestinationIndex(0);
    const B: DestinationIndex = DestinationIndex(1);

    /// A queue whose files are the numbers of their batches.
    type Queue = BatchQueue<u64>;

    /// Adds a batch that no destination has. Returns its number, and the batches to remove.
    fn add(queue: &mut Queue, bytes: u64, entries: u64) -> (BatchNumber, Vec<u64>) {
        let number = queue.next;
        let removed = queue.add((bytes, entries), number.0, vec![false; queue.counts.len()]);
        (number, removed)
    }

    /// The number of the batch that a destination gets next.
    fn next(queue: &Queue, destination: DestinationIndex) -> Option<BatchNumber> {
        queue.next_of(destination).map(|batch| batch.number)
    }

    #[test]
    fn a_batch_stays_until_all_destinations_are_done_with_it() {
        let mut queue = Queue::new(1000, 2);
        let (first, _) = add(&mut queue, 10, 5);
        let (second, _) = add(&mut queue, 10, 5);
        assert_eq!(queue.finish(A, first, BatchEnd::Sent), None);
        assert_eq!(next(&queue, A), Some(second));
        assert_eq!(next(&queue, B), Some(first));
        assert_eq!(queue.finish(A, second, BatchEnd::Sent), None);
        assert_eq!(next(&queue, A), None);
        assert_eq!(queue.finish(B, first, BatchEnd::Rejected), Some(first.0));
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
        let mut queue = Queue::new(25, 2);
        let (first, _) = add(&mut queue, 10, 1);
        add(&mut queue, 10, 2);
        queue.finish(A, first, BatchEnd::Sent);
        assert!(queue.is_next_of(A, BatchNumber(1)));
        let (_, removed) = add(&mut queue, 10, 4);
        assert_eq!(removed, [0]);
        assert_eq!(queue.counts(A).lost, Amount::default());
        assert_eq!(
            queue.counts(B).lost,
            Amount {
                batches: 1,
                entries: 1
            }
        );
        let (_, removed) = add(&mut queue, 20, 8);
        assert_eq!(removed, [1, 2]);
        assert!(!queue.is_next_of(A, BatchNumber(1)), "it was removed");
        assert_eq!(
            queue.counts(A).lost,
            Amount {
                batches: 2,
                entries: 6
            }
        );
        assert_eq!(next(&queue, A), Some(BatchNumber(3)));
    }

    #[test]
    fn a_batch_beyond_the_limit_alone_is_lost_at_once() {
        let mut queue = Queue::new(10, 1);
        let (_, removed) = add(&mut queue, 11, 3);
        assert_eq!(removed, [0]);
        assert_eq!((queue.bytes(), next(&queue, A)), (0, None));
        assert_eq!(queue.counts(A).lost.entries, 3);
    }

    #[test]
    fn a_destination_loses_no_batch_that_it_has_got_from_an_earlier_pusher() {
        let mut queue = Queue::new(15, 2);
        let of_a = || vec![true, false];
        assert_eq!(queue.add((10, 1), 0, of_a()), [] as [u64; 0]);
        assert_eq!(queue.add((10, 2), 1, of_a()), [0]);
        assert_eq!(queue.counts(B).lost.entries, 1);
        assert_eq!(queue.counts(A), DestinationCounts::default());
        assert_eq!(
            (next(&queue, A), next(&queue, B)),
            (None, Some(BatchNumber(1)))
        );
        assert_eq!(queue.add((1, 4), 2, vec![true; 2]), [2], "both have it");
        assert_eq!(queue.bytes(), 10);
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
            let mut queue = Queue::new(100, 3);
            let mut added = 0;
            let mut files = Vec::new();
            for step in steps {
                match step {
                    Step::Add(bytes) => {
                        let (number, removed) = add(&mut queue, bytes, 1);
                        added += 1;
                        files.push(number.0);
                        files.retain(|file| !removed.contains(file));
                    }
                    Step::Finish(of, is_sent) => {
                        let of = DestinationIndex(of);
                        if let Some(batch) = next(&queue, of) {
                            let end = if is_sent { BatchEnd::Sent } else { BatchEnd::Rejected };
                            let removed = queue.finish(of, batch, end);
                            files.retain(|file| Some(*file) != removed);
                        }
                    }
                }
                let bytes: u64 = queue.batches.iter().map(|batch| batch.bytes).sum();
                prop_assert!(bytes == queue.bytes() && bytes <= 100);
                prop_assert_eq!(files.len(), queue.batches.len());
                for of in (0..3).map(DestinationIndex) {
                    let DestinationCounts { sent, lost, rejected } = queue.counts(of);
                    let over = sent.batches + lost.batches + rejected.batches;
                    prop_assert_eq!(over + queue.waiting(of).batches, added);
                    if let Some(batch) = next(&queue, of) {
                        prop_assert!(files.contains(&batch.0));
                    }
                }
            }
        }
    }
}
