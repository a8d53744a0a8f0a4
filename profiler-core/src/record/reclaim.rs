//! Large chunks of threads that have gone idle: taken back while recording goes on.
//!
//! Called by the maintenance thread between its passes. A thread that was busy holds a chunk of up to
//! 1 MiB, and once it is idle nothing would ever end that: what it holds could neither go by
//! age nor be used by anybody. So a chunk larger than the smallest, into which nothing was written
//! between two looks, is handed over in its owner's place, as done at the first of them. It is
//! released then, and goes by age like any other. The owner finds that out at its next entry, takes
//! a chunk of the smallest size, and loses nothing.
//!
//! So does what was made ready for such threads: a class of chunks that nobody asked for between two
//! looks keeps no stock.
//!
//! Bounds: a look each [`CALM`], or each [`PRESSED`] while the process holds more than it may; only
//! while a large chunk is in a thread's hands or ready, so a process at rest sleeps after a few; one
//! barrier on all threads per look, and only if something is to be taken. A thread that records is
//! not touched: if it is in the middle of an entry, or begins one meanwhile, it keeps its chunk.

use std::sync::Arc;
use std::time::Duration;

use super::biased_lock::Seen;
use super::local::recorders;
use super::recorder::Recorder;
use crate::manager::ChunkManager;
use crate::manager::maintenance::clear_left_over_stock;
use crate::pool::slot::Commit;
use crate::sys;
use crate::time::{Anchor, Timestamp};

/// Time between two looks: how long nothing must have been written into a chunk.
pub(crate) const CALM: Duration = Duration::from_secs(1);
/// The same while the allowance was lowered below what is held.
pub(crate) const PRESSED: Duration = Duration::from_millis(100);

/// A large chunk in a thread's hands.
#[derive(Debug)]
struct Large {
    owner: Arc<Recorder>,
    seen: Seen,
    committed: Commit,
    /// When it was first seen like this.
    since: Timestamp,
}

/// What the looks before have seen. One per session and process.
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
        let calm = manager.pool().clock().converter(Anchor::take()).ticks_in(calm);
        Self { large: Vec::new(), next: Timestamp::ZERO, calm }
    }

    /// Looks at all threads' chunks, unless it is too early. Says when to look again: never, if no
    /// large chunk is held or ready.
    pub(crate) fn look(&mut self, manager: &ChunkManager) -> Option<Duration> {
        let now = Timestamp::now();
        let (used, allowed) = manager.pool().budget().used_and_allowed();
        let (pause, ticks) = if used > allowed { (PRESSED, self.calm / 10) } else { (CALM, self.calm) };
        let later = Timestamp::from_raw(now.raw().saturating_add(ticks));
        // The pressure may have come since the pause was chosen.
        self.next = self.next.min(later);
        if now < self.next {
            return Some(pause); // whoever woke us may hold one
        }
        self.next = later;
        self.look_at_all(manager, now);
        let stocked = clear_left_over_stock(manager);
        (stocked || !self.large.is_empty()).then_some(pause)
    }

    fn look_at_all(&mut self, manager: &ChunkManager, now: Timestamp) {
        let before = std::mem::take(&mut self.large);
        let large = recorders().into_iter().filter_map(|owner| large_chunk(owner, manager, now));
        let (idle, busy) = large.map(|large| aged(large, &before)).partition(|large| large.since < now);
        self.large = busy;
        self.large.extend(take_all(idle, manager, now));
    }
}

/// The owner's chunk, if it is larger than what an idle thread may hold.
fn large_chunk(owner: Arc<Recorder>, manager: &ChunkManager, now: Timestamp) -> Option<Large> {
    let seen = owner.open_chunk(manager)?;
    let slot = manager.pool().slot(seen.index)?;
    let is_large = slot.bytes() > manager.pool().layout().page;
    is_large.then(|| Large { owner, seen, committed: slot.committed(), since: now })
}

/// As old as it is when nothing has changed since the look before.
fn aged(large: Large, before: &[Large]) -> Large {
    let same = |old: &&Large| {
        Arc::ptr_eq(&old.owner, &large.owner) && old.seen == large.seen && old.committed == large.committed
    };
    let since = before.iter().find(same).map_or(large.since, |old| old.since);
    Large { since, ..large }
}

/// Takes these chunks from their owners, and gives back those that the owners keep: all of them
/// without the barrier, and that of an owner that has just gone on. They are looked at again.
fn take_all(mut idle: Vec<Large>, manager: &ChunkManager, now: Timestamp) -> Vec<Large> {
    if idle.is_empty() {
        return idle;
    }
    idle.iter().for_each(|large| large.owner.disarm());
    if sys::barrier_on_all_threads() {
        let _state = manager.lock();
        idle.retain(|large| !large.owner.reclaim(manager, large.seen, large.committed, large.since));
    }
    idle.iter_mut().for_each(|large| large.since = now);
    idle
}
