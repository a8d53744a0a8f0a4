//! Takes large chunks back from idle threads while recording goes on.
//!
//! Called by the maintenance thread between its passes. A busy thread holds a chunk of up to 1 MiB.
//! Without this it would keep that chunk when idle: its entries could not age out, and no other
//! thread could use it. So if nothing was written between two checks into a chunk larger than the
//! smallest class, the chunk is handed over on its owner's behalf, as finished at the first check.
//! It is then released and ages out like any other. The owner notices at its next entry, takes a
//! chunk of the smallest size, and loses nothing.
//!
//! Ready chunks are reduced too: a class of chunks that no thread requested between two checks
//! keeps no stock.
//!
//! Bounds: one check per [`CALM`], or per [`PRESSED`] while the process holds more than its
//! allowance; only while a thread holds a large chunk or one is ready, so an idle process sleeps
//! after a few checks; one barrier on all threads per check, and only if there is a chunk to take.
//! A recording thread is not affected: if it is within an entry, or begins one meanwhile, it keeps
//! its chunk.

use std::sync::Arc;
use std::time::Duration;

use super::biased_lock::SeenChunk;
use super::recorder::Recorder;
use super::recorder_list::recorders;
use crate::manager::ChunkManager;
use crate::manager::maintenance::clear_left_over_stock;
use crate::pool::slot::Commit;
use crate::sys;
use crate::time::{Anchor, Timestamp};

/// Time between two checks: how long a chunk must stay unwritten.
pub(crate) const CALM: Duration = Duration::from_secs(1);
/// Time between two checks while the allowance is below what is held.
pub(crate) const PRESSED: Duration = Duration::from_millis(100);

/// A large chunk held by a thread.
#[derive(Debug)]
struct Large {
    owner: Arc<Recorder>,
    seen: SeenChunk,
    committed: Commit,
    /// When it was first seen in this state.
    since: Timestamp,
}

/// The results of the previous checks. One per session and process.
#[derive(Debug)]
pub(crate) struct Reclaimer {
    large: Vec<Large>,
    next: Timestamp,
    /// [`CALM`] in ticks.
    calm: u64,
}

impl Reclaimer {
    pub(crate) fn new(manager: &ChunkManager) -> Self {
        let calm = u64::try_from(CALM.as_nanos()).unwrap_or(u64::MAX);
        let calm = manager
            .pool()
            .clock()
            .converter(Anchor::take())
            .ticks_in(calm);
        Self {
            large: Vec::new(),
            next: Timestamp::ZERO,
            calm,
        }
    }

    /// Checks all threads' chunks, unless it is too early. Returns the time until the next check,
    /// or `None` if no large chunk is held or ready.
    pub(crate) fn check(&mut self, manager: &ChunkManager) -> Option<Duration> {
        let now = Timestamp::now();
        let (used, allowed) = manager.pool().budget().used_and_allowed();
        let (pause, ticks) = if used > allowed {
            (PRESSED, self.calm / 10)
        } else {
            (CALM, self.calm)
        };
        let later = Timestamp::from_raw(now.raw().saturating_add(ticks));
        // The allowance may have been lowered since the pause was chosen.
        self.next = self.next.min(later);
        if now < self.next {
            return Some(pause); // the thread that woke us may hold a large chunk
        }
        self.next = later;
        self.check_all(manager, now);
        let stocked = clear_left_over_stock(manager);
        (stocked || !self.large.is_empty()).then_some(pause)
    }

    fn check_all(&mut self, manager: &ChunkManager, now: Timestamp) {
        let before = std::mem::take(&mut self.large);
        let large = recorders()
            .into_iter()
            .filter_map(|owner| large_chunk(owner, manager, now));
        let (idle, busy) = large
            .map(|large| aged(large, &before))
            .partition(|large| large.since < now);
        self.large = busy;
        self.large.extend(take_all(idle, manager, now));
    }
}

/// The owner's chunk, if it is larger than what an idle thread may hold.
fn large_chunk(owner: Arc<Recorder>, manager: &ChunkManager, now: Timestamp) -> Option<Large> {
    let seen = owner.open_chunk(manager)?;
    let slot = manager.pool().slot(seen.index)?;
    let is_large = slot.bytes() > manager.pool().layout().page;
    is_large.then(|| Large {
        owner,
        seen,
        committed: slot.committed(),
        since: now,
    })
}

/// Keeps the previous time if nothing has changed since the previous check.
fn aged(large: Large, before: &[Large]) -> Large {
    let same = |old: &&Large| {
        Arc::ptr_eq(&old.owner, &large.owner)
            && old.seen == large.seen
            && old.committed == large.committed
    };
    let since = before
        .iter()
        .find(same)
        .map_or(large.since, |old| old.since);
    Large { since, ..large }
}

/// Takes these chunks from their owners. Returns the chunks that the owners keep, for later checks:
/// all of them without the barrier, and those whose owner has just recorded again.
fn take_all(mut idle: Vec<Large>, manager: &ChunkManager, now: Timestamp) -> Vec<Large> {
    if idle.is_empty() {
        return idle;
    }
    idle.iter().for_each(|large| large.owner.disarm());
    if sys::barrier_on_all_threads() {
        let _state = manager.lock();
        idle.retain(|large| {
            !large
                .owner
                .reclaim(manager, large.seen, large.committed, large.since)
        });
    }
    idle.iter_mut().for_each(|large| large.since = now);
    idle
}
