//! A registered group: its identity, and its cell in the pool.
//!
//! `groups::registry` makes one [`Registered`] for each identity, and guards commit their runs to
//! it through `groups::local` and `groups::stopwatch`. A group gets a cell, and if possible a track
//! of its own in the profile, when a session first counts it. Invariants: for a group that has its
//! cell, nothing here takes a lock or allocates; for one that has none, an entry never waits for a
//! lock: ticks that cannot be placed at once are kept and placed with the next iteration.

use crate::counter::GroupTrack;
use crate::group_kind::GroupKind;
use crate::ids::{CounterIndex, GroupIndex};
use crate::manager::ChunkManager;
use crate::pending_sum::PendingSum;
use crate::pool::definitions::Definition;
use crate::pool::header::cut;
use crate::pool::live::GroupCell;
use crate::pool::live::group::Run;
use crate::pool::tag::belongs_to;
use crate::record::backoff::spin_then_yield;
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};

/// Longest name of a group, and of a label's key or value, in bytes; a longer one is cut.
pub(crate) const MAX_NAME_BYTES: usize = 256;
/// Maximum number of labels of a group; further ones are left out.
pub(crate) const MAX_LABELS: usize = 16;
/// Maximum number of groups that have a track of their own in the profile; the program's own
/// counters need rows too.
const MAX_TRACKS: u32 = 512;
/// Iterations of a group between two requests to a pool that had no room for it.
const ASK_AGAIN: u64 = 256;

/// Identity of a group in its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) kind: GroupKind,
    pub(super) name: String,
    labels: Vec<(String, String)>,
    pub(super) is_fine: bool,
}

impl Identity {
    /// The identity with these texts. Texts that are too long are cut, and further labels are left
    /// out.
    pub(super) fn new(kind: GroupKind, name: &str, labels: &[(&str, &str)], is_fine: bool) -> Self {
        let text = |text: &str| cut(text, MAX_NAME_BYTES).to_owned();
        let labels = labels
            .iter()
            .take(MAX_LABELS)
            .map(|(key, value)| (text(key), text(value)))
            .collect();
        Self {
            kind,
            name: text(name),
            labels,
            is_fine,
        }
    }

    pub(super) const fn has_labels(&self) -> bool {
        !self.labels.is_empty()
    }
}

/// A group, shared by all its handles.
#[derive(Debug)]
pub(crate) struct Registered {
    identity: Identity,
    /// Tag of a pool (high 32), number of the group's cell in it + 1 (low 32).
    cell: AtomicU64,
    /// Tag and number, in the same form, of the counter that is the group's track.
    track: AtomicU64,
    /// Tag of the pool that last had no room for the group.
    refused_by: AtomicU64,
    tries: AtomicU64,
    /// Ticks that have no cell yet.
    waiting: PendingSum,
}

impl Registered {
    pub(super) fn new(identity: Identity) -> Self {
        let word = || AtomicU64::new(0);
        let waiting = PendingSum::new();
        Self {
            identity,
            cell: word(),
            track: word(),
            refused_by: word(),
            tries: word(),
            waiting,
        }
    }

    pub(super) const fn kind(&self) -> GroupKind {
        self.identity.kind
    }

    pub(crate) const fn is_fine(&self) -> bool {
        self.identity.is_fine
    }

    /// Tag of a pool and number of the group's cell in it, plus one: what samples of threads in the
    /// group carry. 0 if it has none.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.cell.load(Ordering::Relaxed)
    }

    /// Adds a run to the group's cell.
    pub(crate) fn commit(&self, manager: &ChunkManager, run: &Run) {
        let Some(cell) = self.cell(manager) else {
            return self.keep(run.ticks);
        };
        let kept = self.take_kept();
        cell.commit(&Run {
            ticks: run.ticks.saturating_add(kept),
            ..*run
        });
        let track =
            number_in(self.track.load(Ordering::Relaxed), manager.tag()).map(CounterIndex::new);
        if let Some(track) = track.and_then(|track| manager.pool().counter(track)) {
            let wall = i64::try_from(run.wall_ns.unwrap_or(0)).unwrap_or(i64::MAX);
            track.add_many(wall, run.ticks.saturating_add(kept));
        }
    }

    /// Keeps ticks until they can be placed.
    #[cold]
    pub(crate) fn keep(&self, ticks: u64) {
        let ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
        self.waiting
            .add(session_state::epoch_of(session_state::word()), ticks);
    }

    fn take_kept(&self) -> u64 {
        if self.waiting.is_empty() {
            0
        } else {
            ticks_of(&self.waiting)
        }
    }

    fn cell<'a>(&self, manager: &'a ChunkManager) -> Option<&'a GroupCell> {
        let known = number_in(self.cell.load(Ordering::Acquire), manager.tag());
        let number = known.or_else(|| self.place_again(manager))?;
        manager.pool().group(GroupIndex::new(number))
    }

    /// Whether the pool with this tag had no room for the group.
    pub(crate) fn is_refused_by(&self, tag: u64) -> bool {
        self.refused_by.load(Ordering::Relaxed) == tag
    }

    /// Tries to give the group a cell. Retries only every `ASK_AGAIN` iterations if the pool had no
    /// room.
    #[cold]
    pub(crate) fn place_again(&self, manager: &ChunkManager) -> Option<u32> {
        let is_refused = self.is_refused_by(manager.tag());
        let is_time = self
            .tries
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(ASK_AGAIN);
        if is_refused && !is_time {
            None
        } else {
            self.place(manager, false)
        }
    }

    /// Gives the group a cell. Waits for the manager's lock only if it `may_wait`. Otherwise
    /// retries a fixed number of times when the group is first used, because the maintenance thread
    /// of a new session holds the lock for microseconds.
    #[cold]
    pub(super) fn place(&self, manager: &ChunkManager, may_wait: bool) -> Option<u32> {
        let known = number_in(self.cell.load(Ordering::Acquire), manager.tag());
        if known.is_some() {
            return known;
        }
        let mut state = match may_wait {
            true => manager.lock(),
            false if self.waiting.is_empty() => spin_then_yield(|| manager.try_lock())?,
            false => manager.try_lock()?, // the first use has retried already
        };
        let tag = manager.tag();
        if let Some(known) = number_in(self.cell.load(Ordering::Relaxed), tag) {
            return Some(known); // another thread was faster
        }
        let Some(cell) = state
            .rows
            .add_group(manager, |cell| self.define(manager, cell))
        else {
            if self.refused_by.swap(tag, Ordering::Relaxed) != tag {
                manager.pool().count_group_left_out();
            }
            return None;
        };
        if cell.get() < MAX_TRACKS
            && let Some(track) = GroupTrack::add(manager, &mut state, &self.track_name())
        {
            self.track
                .store(tagged(tag, track.get()), Ordering::Relaxed);
        }
        // Stored last: a thread that finds the cell finds the track too.
        self.cell.store(tagged(tag, cell.get()), Ordering::Release);
        Some(cell.get())
    }

    fn define(&self, manager: &ChunkManager, cell: GroupIndex) -> Option<()> {
        let Identity {
            kind,
            name,
            labels,
            is_fine,
        } = self.identity.clone();
        let kind = kind.name().to_owned();
        let definition = Definition::Group {
            cell,
            kind,
            name,
            labels,
            is_fine,
        };
        let id = manager.pool().define(&definition).ok()?;
        manager.pool().group(cell)?.publish(id);
        Some(())
    }

    fn track_name(&self) -> String {
        let Identity { kind, name, .. } = &self.identity;
        match kind {
            GroupKind::Process => "all groups".to_owned(),
            GroupKind::Thread => format!("all groups of {name}"),
            kind => format!("{kind} {name}"),
        }
    }
}

/// Takes the ticks of this session. Only ticks of this session are kept, so the sum is never below
/// zero.
pub(super) fn ticks_of(kept: &PendingSum) -> u64 {
    u64::try_from(kept.take(session_state::epoch_of(session_state::word()))).unwrap_or(0)
}

fn tagged(tag: u64, number: u32) -> u64 {
    (tag << 32) | u64::from(number).saturating_add(1)
}

/// The number in `word` if it belongs to the pool with this tag.
fn number_in(word: u64, tag: u64) -> Option<u32> {
    let number = u32::try_from(word & 0xffff_ffff).ok()?.checked_sub(1)?;
    belongs_to(word, tag).then_some(number)
}

#[cfg(test)]
pub(super) mod model {
    use super::*;

    /// A group outside the registry, for tests of stopwatches.
    pub(crate) fn unregistered(name: &str) -> &'static Registered {
        Box::leak(Box::new(Registered::new(Identity::new(
            GroupKind::Component,
            name,
            &[],
            false,
        ))))
    }

    impl Registered {
        pub(crate) fn name(&self) -> &str {
            &self.identity.name
        }

        /// Ticks that have no cell yet.
        pub(crate) fn kept(&self) -> u64 {
            self.waiting.peek().unsigned_abs()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_only_for_its_pool() {
        assert_eq!(number_in(tagged(7, 0), 7), Some(0));
        assert_eq!(number_in(tagged(7, 4095), 7), Some(4095));
        assert_eq!(number_in(tagged(7, 1), 8), None);
        assert_eq!(number_in(0, 0), None);
    }
}
