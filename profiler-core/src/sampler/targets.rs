//! Lists the threads to sample: threads that joined the session, and threads that never recorded.
//!
//! Joined threads are found by their rows, at the next tick. All others are found by listing the
//! threads of the process at intervals, and get reserved rows: a thread that records later takes
//! over its row. The profiler's own threads are never sampled.
//!
//! Invariants: each target's row is held (`manager::rows`), so the samples of an ended thread stay
//! attributed to it while it is among the last [`MAX_GONE`] ended threads. Each thread number has
//! at most one target.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::armed_places::Armed;
use super::asking::Habit;
use super::near_looks::NearLooks;
use super::notices::{Notice, Notices};
use super::run_delay::RunDelay;
use super::schedule::now;
use super::stack_copy::Bounds;
use super::wait_period::WaitPeriod;
use crate::ids::{ThreadId, ThreadIndex};
use crate::manager::ChunkManager;
use crate::params::Features;
use crate::pool::live::{NewThread, Occupant, ThreadRow};
use crate::sys;
use crate::sys::native::tasks;
use crate::thread_filter::ThreadFilter;
use crate::time::Timestamp;

/// The bounds of the time between two lists of all threads. Lists are made in passes only, so the
/// time between two passes is also a lower bound. The upper bound applies to processes with
/// thousands of threads, whose lists are expensive.
const LISTING: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));
/// Within these bounds, the time between two lists is the cost of a list times this factor. While
/// the number of threads does not change, the upper bound is used.
const LISTING_SHARE: u32 = 200;
/// How long a thread's name may still change: a thread may get its name some time after its start.
const NAMING: Duration = Duration::from_millis(100);
/// The number of ended threads that keep their rows for their samples.
const MAX_GONE: usize = 1024;
/// The prefix of the names of the profiler's own threads.
const OWN_THREADS: &str = "profiler-";

/// The time between a list and the next one, from the processor time of this list and of the one
/// before. A single expensive list changes nothing: the first list reads memory and executes code
/// for the first time, and a list may be interrupted.
pub(super) fn listing_pause(cost: Duration, cost_before: Duration) -> Duration {
    cost.min(cost_before)
        .saturating_mul(LISTING_SHARE)
        .clamp(LISTING.0, LISTING.1)
}

/// A sampled thread.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) tid: ThreadId,
    row: ThreadIndex,
    /// Whether its stack is walked; otherwise only its processor time is recorded.
    pub(super) walk: bool,
    /// Processor time at the last check.
    pub(super) cpu: u64,
    /// Processor time up to which a thread without a trigger has samples.
    pub(super) recorded_cpu: u64,
    /// Its run delay at the last look.
    pub(super) delay: RunDelay,
    pub(super) bounds: Bounds,
    /// Its waits, as far as threads are asked for samples.
    pub(super) habit: Habit,
    /// The number of samples that it had begun when it was last asked for one.
    pub(super) asked: Option<u64>,
    pub(super) has_sample: bool,
    /// How often in a row it could not be armed or asked.
    pub(super) missed: u32,
    /// The number of further passes in which it is not armed or asked.
    pub(super) left_alone: u32,
    /// Its trigger, if it has one.
    pub(super) armed: Option<Armed>,
    /// What is known of its waits.
    pub(super) waits: WaitPeriod,
    pub(super) near: NearLooks,
    /// The number of looks in a row that found a wait which the session has not named.
    pub(super) unknown_looks: u8,
    /// Whether it has ended, or another thread has its number.
    pub(super) is_gone: bool,
    /// When it was found; `None` if it joined, or once its name can no longer be its creator's.
    found: Option<Instant>,
}

impl Target {
    pub(super) const fn new(
        tid: ThreadId,
        row: ThreadIndex,
        walk: bool,
        found: Option<Instant>,
    ) -> Self {
        let bounds = Bounds {
            lowest: 0,
            end: 0,
            thread_pointer: 0,
        };
        Self {
            tid,
            row,
            walk,
            cpu: 0,
            recorded_cpu: 0,
            delay: RunDelay::new(),
            bounds,
            habit: Habit::new(),
            asked: None,
            has_sample: false,
            missed: 0,
            left_alone: 0,
            armed: None,
            waits: WaitPeriod::new(),
            near: NearLooks::NONE,
            unknown_looks: 0,
            is_gone: false,
            found,
        }
    }

    /// Takes what stays when the thread gets another row.
    fn keep(&mut self) -> KeptTarget {
        KeptTarget {
            armed: self.armed.take(),
            waits: std::mem::replace(&mut self.waits, WaitPeriod::new()),
            bounds: self.bounds,
            recorded_cpu: self.recorded_cpu,
            has_sample: self.has_sample,
        }
    }

    fn take_over(&mut self, kept: KeptTarget) {
        self.armed = kept.armed;
        self.waits = kept.waits;
        self.bounds = kept.bounds;
        self.recorded_cpu = kept.recorded_cpu;
        self.has_sample = kept.has_sample;
        // The kept wait may be that of an ended thread with the same number.
        self.waits.has_run(false);
    }
}

/// What stays of a target when its thread gets another row.
#[derive(Debug)]
struct KeptTarget {
    armed: Option<Armed>,
    waits: WaitPeriod,
    bounds: Bounds,
    recorded_cpu: u64,
    has_sample: bool,
}

/// The state of a thread that is not sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    /// Seen once. A thread that the profiler created may not have its name yet.
    New,
    /// Not selected when it was first checked, at this time.
    Unwanted(Instant),
}

/// All sampled threads.
#[derive(Debug)]
pub(super) struct Targets {
    all: Vec<Target>,
    /// The index of each target in `all`.
    places: HashMap<ThreadId, usize>,
    filter: ThreadFilter,
    features: Features,
    /// Threads that are not sampled: new threads, and threads whose name was not selected but may
    /// change.
    ignored: HashMap<ThreadId, Stranger>,
    gone: VecDeque<ThreadIndex>,
    listed: Vec<ThreadId>,
    /// Whether the last list had threads that the next one decides about.
    has_new: bool,
    seen_changes: Option<u64>,
    next_listing: Instant,
    /// The number of threads at the last list, and until when no list is made while it is the same.
    counted: Option<(u32, Instant)>,
    /// Processor time of the last list; zero before the first one.
    listing_cost: Duration,
    /// The triggers and waits of threads that have ended or are no longer sampled.
    removed: Vec<RemovedTarget>,
    /// The number of targets removed so far.
    removals: u64,
}

/// What is left of a thread that has ended or is no longer sampled.
#[derive(Debug)]
pub(super) struct RemovedTarget {
    pub(super) tid: ThreadId,
    pub(super) armed: Option<Armed>,
    pub(super) waits: WaitPeriod,
}

impl Targets {
    pub(super) fn new(filter: ThreadFilter, features: Features) -> Self {
        Self {
            all: Vec::new(),
            places: HashMap::new(),
            filter,
            features,
            ignored: HashMap::new(),
            gone: VecDeque::new(),
            listed: Vec::new(),
            has_new: false,
            seen_changes: None,
            next_listing: now(),
            counted: None,
            listing_cost: Duration::ZERO,
            removed: Vec::new(),
            removals: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Target> {
        self.all.get_mut(index)
    }

    pub(super) fn contains(&self, tid: ThreadId) -> bool {
        self.places.contains_key(&tid)
    }

    /// The target with this number.
    pub(super) fn with_number(&mut self, tid: ThreadId) -> Option<&mut Target> {
        self.all.get_mut(*self.places.get(&tid)?)
    }

    /// What is left of the targets that were removed since the last call of [`Self::take_removed`].
    pub(super) fn removed_mut(&mut self) -> impl Iterator<Item = &mut RemovedTarget> {
        self.removed.iter_mut()
    }

    /// Takes what is left of the targets that were removed since the last call.
    pub(super) fn take_removed(&mut self) -> Vec<RemovedTarget> {
        std::mem::take(&mut self.removed)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Target> {
        self.all.iter_mut()
    }

    /// Finds new threads and removes ended ones; true if any were removed. Allocates only if
    /// something changed or a listing is due. Lists no threads unless it `may_list`, or the last
    /// list had new ones.
    pub(super) fn refresh(
        &mut self,
        manager: &ChunkManager,
        notices: &mut Notices,
        may_list: bool,
    ) -> bool {
        let removals = self.removals;
        self.forget_gone(manager);
        if self.removals != removals {
            self.counted = None; // a new thread may have taken the place of an ended one
        }
        let changes = manager.threads.changes();
        if self.seen_changes != Some(changes) {
            self.seen_changes = Some(changes);
            self.add_joined(manager);
        }
        let moment = now();
        let may_list = may_list || self.has_new;
        if may_list && moment >= self.next_listing && self.may_have_new(moment) {
            let before = tasks::own_cpu_ns();
            self.add_found(manager, notices);
            let cost = Duration::from_nanos(tasks::own_cpu_ns().saturating_sub(before));
            self.next_listing = moment + listing_pause(cost, self.listing_cost);
            self.listing_cost = cost;
        }
        self.removals != removals
    }

    /// Whether a list may show new threads: the number of threads differs from that of the last
    /// list, or `/proc` does not report it.
    fn may_have_new(&mut self, moment: Instant) -> bool {
        let number = tasks::count();
        let is_same = self
            .counted
            .is_some_and(|(counted, until)| Some(counted) == number && moment < until);
        self.counted = self.counted.filter(|_| is_same);
        !is_same || self.has_new
    }

    /// Whether the stack of a thread with these names is walked; `None` if the thread is not
    /// sampled.
    fn choose(&self, tid: ThreadId, names: &[&str]) -> Option<bool> {
        let is_own = tid == sys::current_thread_id()
            || names.iter().any(|name| name.starts_with(OWN_THREADS));
        let is_selected = names.iter().any(|name| self.filter.selects(name));
        let walk = is_selected && self.features.contains(Features::STACK_WALK);
        let wanted = is_selected || self.features.contains(Features::CPU_ALL_THREADS);
        (wanted && !is_own).then_some(walk)
    }

    /// Adds threads that have rows: they joined, or are the main thread.
    fn add_joined(&mut self, manager: &ChunkManager) {
        let pool = manager.pool();
        let alive: Vec<_> = manager.threads.alive(pool).collect();
        for (row, Occupant { tid, is_kept, .. }) in alive {
            let known = self.places.get(&tid).copied();
            let known_row = known
                .and_then(|known| self.all.get(known))
                .map(|target| target.row);
            if known_row == Some(row) || (known_row.is_some() && is_kept) {
                continue;
            }
            // It joined while its row was being reserved, or it has a new row.
            let before = known.and_then(|known| {
                let kept = self.all.get_mut(known).map(Target::keep);
                self.remove(manager, known);
                kept
            });
            let name = pool
                .thread_row(row)
                .map(ThreadRow::shown_name)
                .unwrap_or_default();
            let system_name = tasks::name(tid).unwrap_or_default();
            if let Some(walk) = self.choose(tid, &[&name, &system_name]) {
                self.ignored.remove(&tid);
                self.add(manager, tid, row, walk, None);
                if let (Some(kept), Some(target)) = (before, self.with_number(tid)) {
                    target.take_over(kept);
                }
            } else if let Some(kept) = before {
                self.removed.push(RemovedTarget {
                    tid,
                    armed: kept.armed,
                    waits: kept.waits,
                });
            }
        }
    }

    /// Adds threads that the system lists and that are not known yet.
    fn add_found(&mut self, manager: &ChunkManager, notices: &mut Notices) {
        let mut listed = std::mem::take(&mut self.listed);
        if let Err(error) = tasks::list(&mut listed) {
            // Without a list, the clocks of known threads show whether these still exist.
            notices.record(Notice::Threads, || {
                format!("threads that record nothing are not sampled: the list of threads cannot be read: {error}")
            });
            self.listed = listed;
            return;
        }
        for target in &mut self.all {
            target.is_gone |= listed.binary_search(&target.tid).is_err();
        }
        self.forget_gone(manager);
        self.ignored
            .retain(|tid, _| listed.binary_search(tid).is_ok());
        self.name_again(manager);
        for tid in &listed {
            self.add_unless_known(manager, *tid);
        }
        self.has_new = self
            .ignored
            .values()
            .any(|stranger| *stranger == Stranger::New);
        let number = u32::try_from(listed.len()).ok();
        let number = number.filter(|_| self.has_settled_names());
        self.counted = number.map(|number| (number, now() + LISTING.1));
        self.listed = listed;
    }

    fn add_unless_known(&mut self, manager: &ChunkManager, tid: ThreadId) {
        let seen_before = self.ignored.get(&tid).copied();
        let is_settled =
            matches!(seen_before, Some(Stranger::Unwanted(at)) if at.elapsed() > NAMING);
        if is_settled || self.contains(tid) {
            return;
        }
        // A thread that has not run yet has no name of its own, and no stack worth showing.
        if seen_before.is_none() || tasks::cpu_ns(tid) == Some(0) {
            self.ignored.entry(tid).or_insert(Stranger::New);
            return;
        }
        let Some(name) = tasks::name(tid) else { return };
        let Some(walk) = self.choose(tid, &[&name]) else {
            if seen_before == Some(Stranger::New) {
                self.ignored.insert(tid, Stranger::Unwanted(now()));
            }
            return;
        };
        let thread = NewThread {
            tid,
            is_main: false,
            name: &name,
            at: Timestamp::now(),
        };
        // If there is no row, the next listing tries again.
        let Some(row) = manager.threads.keep_found(manager.pool(), thread) else {
            return;
        };
        self.ignored.remove(&tid);
        self.add(manager, tid, row, walk, Some(now()));
    }

    /// Whether the names of all known threads are final, see [`NAMING`].
    fn has_settled_names(&self) -> bool {
        let is_settled = |stranger: &Stranger| matches!(stranger, Stranger::Unwanted(at) if at.elapsed() > NAMING);
        self.ignored.values().all(is_settled)
            && self.all.iter().all(|target| target.found.is_none())
    }

    /// Checks the names of found threads again until they have existed for a while.
    fn name_again(&mut self, manager: &ChunkManager) {
        // From the end, because a removal moves the last target to the index of the removed one.
        for index in (0..self.all.len()).rev() {
            let Some(target) = self
                .all
                .get_mut(index)
                .filter(|target| target.found.is_some())
            else {
                continue;
            };
            let Some(name) = tasks::name(target.tid) else {
                continue;
            };
            target.found = target.found.filter(|found| found.elapsed() < NAMING);
            let tid = target.tid;
            let row = target.row;
            let Some(row) = manager.pool().thread_row(row) else {
                continue;
            };
            let is_its = row
                .thread()
                .is_some_and(|found| found.tid == tid && found.is_kept);
            if !is_its || row.shown_name() == name {
                continue;
            }
            match self.choose(tid, &[&name]) {
                Some(_) => row.rename(&name),
                None => self.remove(manager, index),
            }
        }
    }

    fn add(
        &mut self,
        manager: &ChunkManager,
        tid: ThreadId,
        row: ThreadIndex,
        walk: bool,
        found: Option<Instant>,
    ) {
        manager.lock().rows.hold(row);
        let cpu = tasks::cpu_ns(tid).unwrap_or(0);
        self.places.insert(tid, self.all.len());
        self.all.push(Target {
            cpu,
            recorded_cpu: cpu,
            ..Target::new(tid, row, walk, found)
        });
    }

    fn forget_gone(&mut self, manager: &ChunkManager) {
        // From the end, because a removal moves the last target to the index of the removed one.
        for index in (0..self.all.len()).rev() {
            if self.all.get(index).is_some_and(|target| target.is_gone) {
                self.remove(manager, index);
            }
        }
    }

    /// Removes the target with this index, and puts the last one in its place.
    fn remove(&mut self, manager: &ChunkManager, index: usize) {
        let target = self.all.swap_remove(index);
        self.places.remove(&target.tid);
        if let Some(moved) = self.all.get(index) {
            self.places.insert(moved.tid, index);
        }
        self.end(manager, &target);
    }

    /// Ends the sampling of a thread. If it has samples, its row is kept until [`MAX_GONE`]
    /// further such threads have ended.
    fn end(&mut self, manager: &ChunkManager, target: &Target) {
        self.removals += 1;
        if target.armed.is_some() || target.waits.is_open() {
            self.removed.push(RemovedTarget {
                tid: target.tid,
                armed: target.armed,
                waits: target.waits,
            });
        }
        let pool = manager.pool();
        let threads = &manager.threads;
        let found = pool.thread_row(target.row).and_then(ThreadRow::thread);
        if let Some(found) = found.filter(|found| found.tid == target.tid && found.is_kept)
            && let Some(own) = threads.take_row(pool, target.row, found.own)
        {
            threads.end(pool, target.row, own, Timestamp::now());
        }
        let let_go = if target.has_sample {
            self.gone.push_back(target.row);
            if self.gone.len() > MAX_GONE {
                self.gone.pop_front()
            } else {
                None
            }
        } else {
            Some(target.row)
        };
        if let Some(row) = let_go {
            let mut state = manager.lock();
            let state = &mut *state;
            state.rows.let_go(manager, &state.chunks, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_expensive_list_does_not_delay_the_next_one() {
        let pause = |cost, before| {
            let [cost, before] = [cost, before].map(Duration::from_micros);
            listing_pause(cost, before).as_millis()
        };
        assert_eq!((pause(5000, 0), pause(5000, 10)), (2, 2));
        assert_eq!((pause(10, 5000), pause(50, 5000)), (2, 10));
        assert_eq!((pause(1000, 2000), pause(5000, 4000)), (200, 500));
    }
}
