//! What all who look at groups share: who wants which probe, and readers of pools that are kept.
//!
//! Probes are counted here, for all processes together. The first who wants one turns it on in this process at once and has
//! the hub tell all children; the last who lets go turns it off; a child that connects later is told what is
//! wanted then. Invariants: what is told is what is wanted when it is told, in this order, because telling happens under
//! the lock that counts; the hub only queues it, so nobody waits for a child; after the session's end nothing is told.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_core::groups::{self, Probes};
use profiler_core::ids::PoolId;
use profiler_core::reader::groups::GroupReader;

use crate::hub::HubHandle;

/// A reader of a pool that has been read before.
pub(super) type Reader = GroupReader<Arc<File>>;

#[derive(Debug, Default)]
struct Wishes {
    /// How many want each of [`Probes::EACH`].
    counts: [usize; Probes::EACH.len()],
    is_over: bool,
}

impl Wishes {
    fn wanted(&self) -> Probes {
        let each = Probes::EACH.iter().zip(self.counts).filter(|(_, count)| *count > 0);
        each.fold(Probes::NONE, |all, ((probe, _), _)| all.with(*probe))
    }

    fn count(&mut self, probes: Probes, change: fn(usize) -> usize) {
        let each = Probes::EACH.iter().zip(&mut self.counts);
        each.filter(|((probe, _), _)| probes.contains(*probe)).for_each(|(_, count)| *count = change(*count));
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    wishes: Mutex<Wishes>,
    readers: Mutex<HashMap<PoolId, Reader>>,
}

impl Desk {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, HashMap<PoolId, Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more wants these, or one less.
    fn change(&self, hub: &HubHandle, probes: Probes, change: fn(usize) -> usize) {
        let mut wishes = self.wishes();
        let before = wishes.wanted();
        wishes.count(probes, change);
        let wanted = wishes.wanted();
        if wanted != before && !wishes.is_over {
            groups::set_probes(wanted);
            hub.tell_probes(wanted);
        }
    }

    /// The session is over: nobody wants anything any more.
    pub(crate) fn close(&self) {
        self.wishes().is_over = true;
        groups::set_probes(Probes::NONE);
        self.readers().clear();
    }

    /// A reader of that pool, to be put back; a new one if somebody has it.
    pub(super) fn take_reader(&self, key: PoolId) -> Option<Reader> {
        self.readers().remove(&key)
    }

    /// Keeps a reader for the next time.
    pub(super) fn keep_reader(&self, key: PoolId, reader: Reader) {
        self.readers().insert(key, reader);
    }

    /// Forgets readers of pools that are gone.
    pub(super) fn keep_only(&self, mut is_there: impl FnMut(PoolId) -> bool) {
        self.readers().retain(|key, _| is_there(*key));
    }
}

/// Somebody wants these probes in all processes, also in those that are started later, until this is dropped.
#[derive(Debug)]
pub struct Monitor {
    desk: Arc<Desk>,
    hub: HubHandle,
    probes: Probes,
}

impl Monitor {
    pub(crate) fn new(desk: Arc<Desk>, hub: HubHandle, probes: Probes) -> Self {
        desk.change(&hub, probes, |count| count.saturating_add(1));
        Self { desk, hub, probes }
    }

    /// What it wants.
    pub const fn probes(&self) -> Probes {
        self.probes
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.desk.change(&self.hub, self.probes, |count| count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p11_a_probe_is_wanted_until_the_last_has_let_go() {
        let mut wishes = Wishes::default();
        wishes.count(Probes::JANK.with(Probes::CPU), |count| count + 1);
        wishes.count(Probes::JANK, |count| count + 1);
        assert_eq!(wishes.wanted(), Probes::JANK.with(Probes::CPU));
        wishes.count(Probes::JANK.with(Probes::CPU), |count| count - 1);
        assert_eq!(wishes.wanted(), Probes::JANK);
        wishes.count(Probes::JANK, |count| count - 1);
        assert_eq!(wishes.wanted(), Probes::NONE);
    }
}
