//! What all who look at groups share: who wants which probe, and readers of pools that are kept.
//!
//! Probes are counted here, for all processes together. The first who wants one turns it on in this process at once and rings
//! for the hub, which looks here and tells all children; the last who lets go turns it off; a child that connects later is
//! told what is wanted then. Invariants: nobody waits, neither for a child nor for the hub: a hub that has too much to do to
//! hear the bell looks after everything that it does; the latest word counts; after the session's end nothing is told;
//! who keeps a [`Monitor`] keeps nothing of the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use profiler_core::groups::{self, Probes};
use profiler_core::ids::PoolId;
use profiler_core::reader::groups::GroupReader;
use profiler_core::sys::OwnFile;

use super::snapshot::GroupsSnapshot;
use super::stopped_cache::Standings;
use crate::supervisor::HubBell;

/// A reader of a pool that has been read before.
pub(super) type Reader = GroupReader<Arc<OwnFile>>;

#[derive(Debug, Default)]
struct Wishes {
    /// How many want each of [`Probes::EACH`].
    counts: [usize; Probes::EACH.len()],
    /// What was wanted when it last changed, before the session's end.
    latest: Probes,
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
    readers: Mutex<Readers>,
    standings: Mutex<Standings>,
    /// What was read last by one of those who look again and again, as long as that one keeps it.
    recent: Mutex<Weak<GroupsSnapshot>>,
}

/// Readers that are kept. Each keeps its pool, so none outlives the need for that.
#[derive(Debug, Default)]
struct Readers {
    all: HashMap<PoolId, Reader>,
    is_over: bool,
}

impl Desk {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more wants these, or one less.
    fn change(&self, hub: &HubBell, probes: Probes, change: fn(usize) -> usize) {
        let mut wishes = self.wishes();
        wishes.count(probes, change);
        let wanted = wishes.wanted();
        if wanted != wishes.latest && !wishes.is_over {
            wishes.latest = wanted;
            groups::set_probes(wanted);
            hub.ring();
        }
    }

    /// What is wanted of all processes now.
    pub(crate) fn wanted(&self) -> Probes {
        self.wishes().latest
    }

    /// The session is over: nobody wants anything any more.
    pub(crate) fn close(&self) {
        self.wishes().is_over = true;
        groups::set_probes(Probes::NONE);
        let mut readers = self.readers();
        readers.is_over = true;
        readers.all.clear();
    }

    /// A reader of that pool, to be put back; a new one if somebody has it.
    pub(super) fn take_reader(&self, key: PoolId) -> Option<Reader> {
        self.readers().all.remove(&key)
    }

    /// Keeps a reader for the next time, unless the session is over.
    pub(super) fn keep_reader(&self, key: PoolId, reader: Reader) {
        let mut readers = self.readers();
        if !readers.is_over {
            readers.all.insert(key, reader);
        }
    }

    /// What was read last, see [`super::lately`].
    pub(super) fn recent(&self) -> Option<Arc<GroupsSnapshot>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(super) fn note_recent(&self, snapshot: &Arc<GroupsSnapshot>) {
        *self.recent.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(snapshot);
    }

    /// What is known of who stands still. The system is asked with the lock held: it answers at once.
    pub(super) fn standings<T>(&self, then: impl FnOnce(&mut Standings) -> T) -> T {
        then(&mut self.standings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nobody needs this pool any more.
    pub(crate) fn forget_reader(&self, key: PoolId) {
        let reader = self.readers().all.remove(&key);
        drop(reader); // without the lock: closing a pool frees it
    }

    /// Forgets readers of pools that are gone.
    pub(super) fn keep_only(&self, mut is_there: impl FnMut(PoolId) -> bool) {
        self.readers().all.retain(|key, _| is_there(*key));
    }
}

/// Somebody wants these probes in all processes, also in those that are started later, until this is dropped.
#[derive(Debug)]
#[must_use = "nothing is measured any more when this is dropped"]
pub struct Monitor {
    desk: Arc<Desk>,
    hub: HubBell,
    probes: Probes,
}

impl Monitor {
    pub(crate) fn new(desk: Arc<Desk>, hub: HubBell, probes: Probes) -> Self {
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
    use std::time::Duration;

    use crossbeam_channel::bounded;
    use profiler_core::ids::ByteLimit;
    use profiler_core::pool::{self, PoolSpec};
    use profiler_core::session::SessionParams;
    use profiler_core::sys::spawn_quiet;
    use profiler_core::time::SessionClock;

    use super::*;
    use crate::supervisor::HubEvent;

    /// A reader of a pool of its own, and who else has that.
    fn reader() -> (Reader, Arc<OwnFile>) {
        let (id, limit) = (pool::new_id().unwrap(), ByteLimit::new(1 << 20));
        let (clock, params) = (SessionClock::start_now(), SessionParams::default());
        let spec = PoolSpec { id, limit, allowance: limit, clock, params, name: "pool".into() };
        let file = Arc::new(pool::create(&spec).unwrap().into());
        (Reader::open(Arc::clone(&file)).unwrap(), file)
    }

    #[test]
    fn p12_a_reader_keeps_its_pool_no_longer_than_somebody_needs_that() {
        let (desk, key) = (Desk::default(), PoolId::new(1));
        let (kept, file) = reader();
        desk.keep_reader(key, kept);
        desk.forget_reader(key);
        assert_eq!(Arc::strong_count(&file), 1, "its memory is gone");
        let (kept, file) = reader();
        desk.keep_reader(key, kept);
        let late = desk.take_reader(key).unwrap();
        desk.close();
        desk.keep_reader(key, late);
        assert_eq!(Arc::strong_count(&file), 1, "the session was over before the snapshot was");
    }

    #[test]
    fn p11_a_hub_that_is_too_busy_to_hear_makes_nobody_wait_and_finds_the_latest_word() {
        let (events, queue) = bounded(1);
        events.send(HubEvent::Overdue).unwrap();
        let (desk, hub) = (Arc::<Desk>::default(), HubBell::new(events));
        let theirs = Arc::clone(&desk);
        let (done, is_done) = bounded(1);
        let wanting = move || {
            drop(Monitor::new(Arc::clone(&theirs), hub.clone(), Probes::JANK));
            let monitor = Monitor::new(theirs, hub, Probes::BLOCKING);
            done.send(()).unwrap();
            monitor
        };
        let thread = spawn_quiet("test-monitor", wanting).unwrap();
        is_done.recv_timeout(Duration::from_secs(120)).expect("it waits for the hub");
        assert_eq!((desk.wanted(), queue.len()), (Probes::BLOCKING, 1));
        drop(thread.join().unwrap());
        assert_eq!(desk.wanted(), Probes::NONE);
    }

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
