//! Code that the tests share: a session that measures groups and their totals, pools, and labels.

use std::hint::black_box;

use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use profiler_parent::Session;
use profiler_parent::groups::{GroupKind, GroupTotals, Monitor, Probes};
use profiler_rayon::PoolProfile;
use rayon::{ThreadPool, ThreadPoolBuilder};
use recorded_session::named;
use test_support::patience::until;

/// A session in which all groups are measured.
pub(crate) struct MeasuredSession {
    _monitor: Monitor,
    pub(crate) session: Session,
}

impl MeasuredSession {
    pub(crate) fn start() -> Self {
        let session = Session::builder().start().unwrap();
        let monitor = session.monitor(Probes::ALL);
        assert!(until(|| profiler_core::groups::probes() == Probes::ALL));
        Self {
            _monitor: monitor,
            session,
        }
    }

    /// The totals of a group of this process.
    pub(crate) fn totals(&self, kind: GroupKind, name: &str) -> GroupTotals {
        let groups = self.session.groups().merged();
        let found = groups
            .into_iter()
            .find(|group| group.kind == kind && group.name == name);
        found.map_or_else(GroupTotals::nothing, |group| group.totals)
    }

    /// How often a component was entered, and its runs.
    pub(crate) fn counts(&self, component: &str) -> (u64, u64) {
        let totals = self.totals(GroupKind::Component, component);
        (totals.ticks, totals.runs)
    }

    /// The time for all groups together. Time that counts twice is in it once.
    pub(crate) fn process_ns(&self) -> u64 {
        let groups = self.session.groups().merged();
        let of_process = groups
            .iter()
            .filter(|group| group.kind == GroupKind::Process);
        of_process.map(|group| group.totals.wall_ns).sum()
    }
}

/// A pool with this many workers.
pub(crate) fn pool(name: &str, workers: usize) -> ThreadPool {
    let builder = ThreadPoolBuilder::new().num_threads(workers);
    PoolProfile::new(name).build(builder).unwrap()
}

/// Work that takes a millisecond or more.
pub(crate) fn work() {
    for number in 0..3_000_000_u64 {
        black_box(number);
    }
}

/// Records a marker with the open labels of the calling thread.
pub(crate) fn mark(name: &str) {
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    add_untyped_marker(name, &category::OTHER, options);
}

/// The labels that were open at the only marker of this name.
pub(crate) fn labels_at(name: &str) -> Vec<String> {
    let [only] = named(name).try_into().unwrap();
    only.stack
}
