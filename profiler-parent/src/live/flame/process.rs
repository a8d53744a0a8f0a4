//! The samples of one process: read from its pool, and added up by thread, stack and time.
//!
//! Owned by the reader's thread, under the lock of the store. Invariants: the process is not
//! involved; everything is bounded; a process that has ended keeps its sums and no pool.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId, ThreadId};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::profile::frame_names::thread_without_row;
use profiler_core::internal::reader::{Followed, Follower, Progress};
use profiler_core::internal::sys::OwnFile;
use profiler_core::time::TimeConverter;

use super::frames::{FrameTable, KnownModules, ProcessFrames};
use super::stack_tree::{NodeNumber, RecorderPaths, StackTree};
use super::usage::{SampleTimes, Spent, ThreadUsage};
use super::weights::{Room, ThreadNumber, Weight, Weights};
use super::window::length_ns;
use crate::process_table::Process;

/// Limit on the threads of a process that are told apart.
const MOST_THREADS: usize = 4096;
/// The name of all other threads.
const OTHER_THREADS: &str = "(other threads)";
/// The interval of samples, if the pool does not say it.
const TICK_NS: u64 = 1_000_000;
/// An unfinished wait counts up to this long before now: the sampler looks at a waiting thread
/// every 0.4 s, so the end of a wait may be recorded that late.
const LATE_NS: i64 = 500_000_000;
/// How much later than the start of a pass a sample may be.
const LATEST_NS: i64 = 10_000_000_000;
/// How long samples are kept one by one for groups, and how many of a process.
const RECENT_NS: i64 = 6_000_000_000;
const MOST_RECENT: usize = 1 << 16;

/// A thread whose samples were read. Threads are told apart by the system's number.
#[derive(Debug)]
pub(super) struct SampledThread {
    pub(super) tid: ThreadId,
    pub(super) name: String,
    has_name: bool,
    usage: ThreadUsage,
}

/// A sample that is kept for groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecentSample {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    pub(super) node: NodeNumber,
    pub(super) weight: Weight,
}

/// What one pass needs of the session.
pub(super) struct Pass<'a> {
    pub(super) converter: TimeConverter,
    pub(super) now_ns: i64,
    /// Bytes of the pool to read before the pass goes on with the next process.
    pub(super) budget: u64,
    /// Whether samples are kept one by one for groups.
    pub(super) keeps_recent: bool,
    pub(super) frames: &'a mut FrameTable,
    pub(super) room: &'a mut Room,
}

/// The identity of a process.
#[derive(Clone, Debug)]
pub(super) struct ProcessIdentity {
    pub(super) key: PoolId,
    pub(super) pid: ProcessId,
    pub(super) name: String,
    pub(super) order: u64,
}

/// The samples of one process.
#[derive(Debug)]
pub(super) struct SampledProcess {
    pub(super) identity: ProcessIdentity,
    follower: Option<Follower<Arc<OwnFile>>>,
    tick_ns: u64,
    known_modules: KnownModules,
    paths: RecorderPaths,
    pub(super) tree: StackTree,
    pub(super) weights: Weights,
    pub(super) threads: Vec<SampledThread>,
    thread_numbers: HashMap<ThreadId, ThreadNumber>,
    has_unnamed_threads: bool,
    pub(super) recent: VecDeque<RecentSample>,
    pub(super) progress: Progress,
    pub(super) is_unreadable: bool,
    pub(super) samples: u64,
    /// The time of the earliest sample, in session time.
    pub(super) first_ns: Option<i64>,
}

impl SampledProcess {
    /// Begins to read a process.
    pub(super) fn new(key: PoolId, process: &Process, pool: &Arc<OwnFile>) -> Self {
        let follower = Follower::open(Arc::clone(pool)).ok();
        let interval = follower
            .as_ref()
            .and_then(|follower| follower.header().params.as_ref())
            .map(|params| params.interval_ns);
        Self {
            identity: ProcessIdentity {
                key,
                pid: process.pid,
                name: process.name.clone(),
                order: process.order,
            },
            is_unreadable: follower.is_none(),
            follower,
            tick_ns: interval.filter(|ns| *ns > 0).unwrap_or(TICK_NS),
            known_modules: KnownModules::default(),
            paths: RecorderPaths::default(),
            tree: StackTree::default(),
            weights: Weights::default(),
            threads: Vec::new(),
            thread_numbers: HashMap::new(),
            has_unnamed_threads: false,
            recent: VecDeque::new(),
            progress: Progress::default(),
            samples: 0,
            first_ns: None,
        }
    }

    /// Reads the new entries, at most about the budget of the pass, and counts unfinished waits.
    pub(super) fn advance(&mut self, pass: &mut Pass<'_>) {
        self.read(pass);
        if self.follower.is_some() && !self.progress.is_behind {
            self.count_waits(pass.now_ns.saturating_sub(LATE_NS), pass.room);
        }
        self.forget_old_samples(pass);
    }

    fn read(&mut self, pass: &mut Pass<'_>) {
        let Some(mut follower) = self.follower.take() else {
            return;
        };
        let advanced = follower.advance_within(pass.budget, |one| {
            if let Entry::Sample(sample) = &one.entry {
                self.take(one, sample, pass);
            }
        });
        match advanced {
            Ok(progress) => {
                self.progress = progress;
                self.is_unreadable |= progress.damaged > 0;
            }
            Err(_) => {
                self.is_unreadable = true;
                return;
            }
        }
        if self.has_unnamed_threads {
            self.name_threads(&follower);
        }
        self.follower = Some(follower);
    }

    /// Reads the process to its end, and frees all except its sums. It ended at `ended_ns`.
    pub(super) fn conclude(&mut self, pass: &mut Pass<'_>, ended_ns: i64) {
        self.read(pass);
        if self.is_behind() {
            return;
        }
        self.count_waits(ended_ns.min(pass.now_ns), pass.room);
        self.follower = None;
        self.paths = RecorderPaths::default();
        self.known_modules = KnownModules::default();
        self.thread_numbers = HashMap::new();
        self.recent = VecDeque::new();
        self.weights.finish();
    }

    /// Whether entries remain to be read at once.
    pub(super) const fn is_behind(&self) -> bool {
        self.progress.is_behind && self.follower.is_some()
    }

    fn take(&mut self, one: &Followed<'_>, sample: &SampleEntry<'_>, pass: &mut Pass<'_>) {
        let mut frames = ProcessFrames {
            table: pass.frames,
            definitions: one.definitions,
            known: &mut self.known_modules,
            room: pass.room,
        };
        let recorder = one.thread.index;
        let node = self
            .paths
            .node(recorder, one.chunk, sample, &mut self.tree, &mut frames);
        let number = self.thread(sample.foreign.unwrap_or(one.thread.tid), pass.room);
        // A sample is not later than its reading, unless its time is forged.
        let latest_ns = pass.now_ns.saturating_add(LATEST_NS);
        let at_ns = pass.converter.since_start_ns(sample.at).min(latest_ns);
        self.samples += 1;
        self.first_ns = Some(self.first_ns.map_or(at_ns, |first| first.min(at_ns)));
        let times = SampleTimes::of(sample, at_ns, self.tick_ns);
        let Some(thread) = self.threads.get_mut(number.0 as usize) else {
            return;
        };
        let spent = thread.usage.next(&times, node);
        self.add(number, node, &times, spent, pass);
    }

    fn add(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        times: &SampleTimes,
        spent: Spent,
        pass: &mut Pass<'_>,
    ) {
        let at_ns = times.at_ns;
        if !spent.on.is_zero() {
            self.weights.add(thread, node, at_ns, spent.on, pass.room);
            if pass.keeps_recent {
                let on_ns = i64::try_from(spent.on.on_ns).unwrap_or(i64::MAX);
                self.keep(node, (at_ns.saturating_sub(on_ns), at_ns), spent.on);
            }
        }
        if let Some(range) = spent.wait {
            self.weights.add_wait(thread, node, range, pass.room);
            if pass.keeps_recent {
                self.keep(node, range, Weight::off(length_ns(range)));
            }
        }
    }

    fn keep(&mut self, node: NodeNumber, (from_ns, to_ns): (i64, i64), weight: Weight) {
        if self.recent.len() >= MOST_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(RecentSample {
            from_ns,
            to_ns,
            node,
            weight,
        });
    }

    fn forget_old_samples(&mut self, pass: &Pass<'_>) {
        let oldest = pass.now_ns.saturating_sub(RECENT_NS);
        let is_old = |sample: &RecentSample| sample.to_ns < oldest || !pass.keeps_recent;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
    }

    /// The number of the thread that has this number in the system.
    fn thread(&mut self, tid: ThreadId, room: &mut Room) -> ThreadNumber {
        if let Some(known) = self.thread_numbers.get(&tid) {
            return *known;
        }
        let is_last = self.threads.len() + 1 >= MOST_THREADS;
        if self.threads.len() >= MOST_THREADS {
            return ThreadNumber(MOST_THREADS as u32 - 1);
        }
        let number = ThreadNumber(u32::try_from(self.threads.len()).unwrap_or(0));
        self.threads.push(SampledThread {
            tid,
            name: if is_last {
                OTHER_THREADS.to_owned()
            } else {
                thread_without_row(tid)
            },
            has_name: is_last,
            usage: ThreadUsage::default(),
        });
        self.thread_numbers.insert(tid, number);
        self.weights.reserve(number, room);
        self.has_unnamed_threads |= !is_last;
        number
    }

    /// Looks up the names of threads that have none. Called when a new thread has appeared. A
    /// thread that never registers keeps its number as its name.
    fn name_threads(&mut self, follower: &Follower<Arc<OwnFile>>) {
        self.has_unnamed_threads = false;
        let Ok(rows) = follower.threads() else { return };
        for row in rows {
            let number = self.thread_numbers.get(&row.tid);
            let thread = number.and_then(|number| self.threads.get_mut(number.0 as usize));
            if let Some(thread) = thread.filter(|thread| !thread.has_name) {
                (thread.name, thread.has_name) = (row.name, true);
            }
        }
    }

    fn count_waits(&mut self, until_ns: i64, room: &mut Room) {
        for (number, thread) in (0..).map(ThreadNumber).zip(&mut self.threads) {
            if let Some((node, range)) = thread.usage.advance(until_ns) {
                self.weights.add_wait(number, node, range, room);
            }
        }
    }
}
