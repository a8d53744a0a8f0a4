//! Tests of folding: the law, over random histories, and the cases that are easy to get wrong.

use proptest::prelude::*;

use super::*;

fn at(done: u64) -> Timestamp {
    Timestamp::from_raw(done)
}

/// A receiver's state after the updates that it received.
#[derive(Clone, Debug, Default, PartialEq)]
struct Receiver {
    unreleased: u64,
    released: u64,
    oldest: Option<Timestamp>,
    wanted: u64,
    allowance: u64,
    chunks: Vec<ReleasedChunk>,
}

impl Receiver {
    fn apply(&mut self, update: &Update) {
        self.unreleased = update.unreleased_bytes;
        self.released = update.released_bytes;
        self.oldest = update.oldest_done;
        self.wanted += update.wanted_bytes;
        self.allowance = update.allowance.get();
        self.chunks.retain(|chunk| {
            update
                .oldest_done
                .is_some_and(|oldest| chunk.done >= oldest)
        });
        for chunk in &update.newly_released {
            insert_by_done(&mut self.chunks, *chunk);
        }
    }
}

/// A manager without memory: releases in any order, destroys the oldest, reports.
#[derive(Default)]
struct Manager {
    released: Vec<ReleasedChunk>,
    unreported: Vec<ReleasedChunk>,
    destroyed: u64,
    wanted: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Release(u64, u64),
    DestroyOldest,
    DestroyAll,
    Want(u64),
    Report,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_u64..500, 1_u64..9).prop_map(|(done, bytes)| Step::Release(done, bytes)),
        2 => Just(Step::DestroyOldest),
        1 => Just(Step::DestroyAll),
        1 => (1_u64..100).prop_map(Step::Want),
        4 => Just(Step::Report),
    ];
    prop::collection::vec(step, 1..80)
}

impl Manager {
    fn step(&mut self, step: &Step) -> Option<Update> {
        match *step {
            Step::Release(done, bytes) => {
                // Like the real manager: a chunk released late is listed as younger than the
                // destroyed ones.
                let chunk = ReleasedChunk {
                    done: at(done.max(self.destroyed + 1)),
                    bytes,
                };
                // Two chunks with the same instant would be one chunk to a receiver.
                if self.released.iter().all(|other| other.done != chunk.done) {
                    insert_by_done(&mut self.released, chunk);
                    insert_by_done(&mut self.unreported, chunk);
                }
            }
            Step::DestroyOldest if self.released.is_empty() => {}
            Step::DestroyOldest => {
                let gone = self.released.remove(0);
                self.destroyed = gone.done.raw();
                self.unreported.retain(|chunk| *chunk != gone);
            }
            Step::DestroyAll => {
                self.destroyed = self
                    .released
                    .last()
                    .map_or(self.destroyed, |last| last.done.raw());
                self.released.clear();
                self.unreported.clear();
            }
            Step::Want(bytes) => self.wanted += bytes,
            Step::Report => return Some(self.report()),
        }
        None
    }

    fn report(&mut self) -> Update {
        Update {
            unreleased_bytes: 7,
            released_bytes: self.released.iter().map(|chunk| chunk.bytes).sum(),
            oldest_done: self.released.first().map(|chunk| chunk.done),
            newly_released: std::mem::take(&mut self.unreported),
            wanted_bytes: std::mem::take(&mut self.wanted),
            allowance: ByteLimit::new(99),
        }
    }
}

proptest! {
    #[test]
    fn folding_equals_applying_in_turn(
        steps in steps(),
        sent in prop::collection::vec(any::<bool>(), 80),
    ) {
        let mut manager = Manager::default();
        let mut one_by_one = Receiver::default();
        let mut folded = Receiver::default();
        let mut waiting = ManagerUpdate::None;
        for (step, send) in steps.iter().chain([&Step::Report]).zip(sent.into_iter().chain([true])) {
            if let Some(update) = manager.step(step) {
                one_by_one.apply(&update);
                waiting.fold(ManagerUpdate::Changed(update));
            }
            if let (true, ManagerUpdate::Changed(update)) = (send, waiting.clone()) {
                folded.apply(&update);
                waiting = ManagerUpdate::None;
            }
        }
        let last = manager.report();
        one_by_one.apply(&last);
        waiting.fold(ManagerUpdate::Changed(last));
        if let ManagerUpdate::Changed(update) = waiting.take() {
            folded.apply(&update);
        }
        prop_assert_eq!(&folded, &one_by_one);
        // Both know exactly the existing chunks: no duplicates, no destroyed ones, none missing.
        prop_assert_eq!(folded.chunks, manager.released);
    }

    #[test]
    fn a_list_too_long_is_merged_without_losing_bytes(count in 1_usize..3000, folds in 1_usize..4) {
        let chunk = |done: usize| ReleasedChunk { done: at(done as u64 + 1), bytes: 3 };
        let mut all = ManagerUpdate::None;
        for fold in 0..folds {
            let newly_released = (fold * count..(fold + 1) * count).map(chunk).collect();
            let mut update = update(Some(1), newly_released);
            update.limit_list();
            all.fold(ManagerUpdate::Changed(update));
        }
        let ManagerUpdate::Changed(all) = all else { return Ok(()) };
        prop_assert!(all.newly_released.len() <= Update::MAX_LISTED);
        let bytes: u64 = all.newly_released.iter().map(|chunk| chunk.bytes).sum();
        prop_assert_eq!(bytes, 3 * (count * folds) as u64);
        prop_assert_eq!(all.newly_released.last(), Some(&chunk(count * folds - 1)));
        prop_assert!(all.newly_released.is_sorted_by_key(|chunk| chunk.done));
    }
}

fn update(oldest: Option<u64>, newly_released: Vec<ReleasedChunk>) -> Update {
    Update {
        unreleased_bytes: 0,
        released_bytes: newly_released.iter().map(|chunk| chunk.bytes).sum(),
        oldest_done: oldest.map(at),
        newly_released,
        wanted_bytes: 0,
        allowance: ByteLimit::new(0),
    }
}

fn changed(oldest: Option<u64>, listed: &[u64]) -> ManagerUpdate {
    let chunk = |done: &u64| ReleasedChunk {
        done: at(*done),
        bytes: 1,
    };
    ManagerUpdate::Changed(update(oldest, listed.iter().map(chunk).collect()))
}

fn listed(update: &ManagerUpdate) -> Vec<u64> {
    match update {
        ManagerUpdate::Changed(update) => update
            .newly_released
            .iter()
            .map(|chunk| chunk.done.raw())
            .collect(),
        _ => panic!("no report: {update:?}"),
    }
}

#[test]
fn a_report_without_released_chunks_clears_the_list() {
    let mut waiting = changed(Some(1), &[1, 2]);
    waiting.fold(changed(None, &[]));
    assert_eq!(listed(&waiting), [0; 0]);
}

#[test]
fn a_later_oldest_chunk_removes_destroyed_chunks_from_the_list() {
    let mut waiting = changed(Some(1), &[1, 2, 4]);
    waiting.fold(changed(Some(4), &[5]));
    assert_eq!(listed(&waiting), [4, 5]);
}

#[test]
fn a_chunk_released_late_is_listed_once_and_in_its_place() {
    let mut waiting = changed(Some(2), &[2, 6]);
    waiting.fold(changed(Some(2), &[4]));
    assert_eq!(listed(&waiting), [2, 4, 6]);
}

#[test]
fn no_update_changes_nothing_and_final_stays_final() {
    let mut waiting = changed(Some(1), &[1]);
    waiting.fold(ManagerUpdate::None);
    assert_eq!(listed(&waiting), [1]);
    waiting.fold(ManagerUpdate::Final);
    waiting.fold(changed(Some(1), &[1]));
    assert_eq!(waiting, ManagerUpdate::Final);
    assert_eq!(waiting.take(), ManagerUpdate::Final);
    assert!(waiting.is_some());
}
