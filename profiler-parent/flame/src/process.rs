//! The samples of one process: read from its pool, and added up by thread, stack and time.
//!
//! Owned by the reader's thread, under the lock of the store. The newest samples of the pool are
//! read first; [`older`] reads the others, chunk by chunk. Invariants: the process is not involved;
//! everything is bounded; a process that has ended keeps its sums and no pool.

mod older;

use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::reader::{Followed, Follower, Progress};
use profiler_core::time::TimeConverter;
use profiler_sys::OwnFile;

use crate::catch_up::CatchUp;
use crate::frames::{FrameTable, KnownModules, ProcessFrames};
use crate::recent::{RecentSample, RecentSamples};
use crate::sources::ProcessToSample;
use crate::stack_tree::{NodeNumber, RecorderPaths, StackTree};
use crate::threads::ThreadTable;
use crate::usage::{SampleTimes, Spent, WaitRange};
use crate::weights::{Room, ThreadNumber, Weight, Weights};
use crate::window::length_ns;
use older::OlderChunk;

/// The interval of samples, if the pool does not say it.
const TICK_NS: u64 = 1_000_000;
/// An unfinished wait counts up to this long before now: the sampler looks at a waiting thread
/// every 0.4 s, so the end of a wait may be recorded that late.
const LATE_NS: i64 = 500_000_000;
/// The time by which a sample may be later than the start of its pass.
const LATEST_NS: i64 = 10_000_000_000;
/// Time between two reads of the thread table while samples arrive. For an unknown thread, the
/// table is read at once.
const ROWS_NS: i64 = 900_000_000;

/// What one pass needs of the session.
pub(crate) struct Pass<'a> {
    pub(crate) converter: TimeConverter,
    pub(crate) now_ns: i64,
    /// Bytes of the pool to read before the pass goes on with the next process.
    pub(crate) budget: u64,
    /// Whether samples are kept one by one for groups.
    pub(crate) keeps_recent: bool,
    /// Whether the samples are older than all that were read of the process.
    pub(crate) is_older: bool,
    pub(crate) frames: &'a mut FrameTable,
    pub(crate) room: &'a mut Room,
}

/// The identity of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessIdentity {
    pub(crate) key: PoolId,
    pub(crate) pid: ProcessId,
    pub(crate) name: String,
    pub(crate) order: u64,
}

/// The samples of one process.
#[derive(Debug)]
pub(crate) struct SampledProcess {
    pub(crate) identity: ProcessIdentity,
    follower: Option<Follower<Arc<OwnFile>>>,
    tick_ns: u64,
    known_modules: KnownModules,
    paths: RecorderPaths,
    pub(crate) tree: StackTree,
    pub(crate) weights: Weights,
    pub(crate) threads: ThreadTable,
    /// When the table of threads was read, and the number of samples at that time.
    rows_read: Option<(i64, u64)>,
    pub(crate) recent: RecentSamples,
    pub(crate) catch_up: CatchUp,
    pub(crate) progress: Progress,
    /// The time since which all samples were read, in session time. Used while older samples are
    /// still to be read; `None` if newer ones are, too.
    whole_since_ns: Option<i64>,
    pub(crate) is_unreadable: bool,
    pub(crate) samples: u64,
    /// The time of the earliest sample, in session time.
    pub(crate) first_ns: Option<i64>,
}

impl SampledProcess {
    /// Begins to read a process.
    pub(crate) fn new(process: ProcessToSample<'_>, pool: &Arc<OwnFile>) -> Self {
        let follower = Follower::open_newest_first(Arc::clone(pool)).ok();
        let interval = follower
            .as_ref()
            .and_then(|follower| follower.header().params.as_ref())
            .map(|params| params.interval_ns);
        Self {
            identity: ProcessIdentity {
                key: process.key,
                pid: process.pid,
                name: process.name.to_owned(),
                order: process.order,
            },
            is_unreadable: follower.is_none(),
            threads: match &follower {
                Some(_) => ThreadTable::newest_first(),
                None => ThreadTable::default(),
            },
            follower,
            tick_ns: interval.filter(|ns| *ns > 0).unwrap_or(TICK_NS),
            known_modules: KnownModules::default(),
            paths: RecorderPaths::default(),
            tree: StackTree::default(),
            weights: Weights::default(),
            rows_read: None,
            recent: RecentSamples::default(),
            catch_up: CatchUp::new(),
            progress: Progress::default(),
            whole_since_ns: None,
            samples: 0,
            first_ns: None,
        }
    }

    /// Reads the new entries, at most about the budget of the pass, and counts unfinished waits.
    pub(crate) fn advance(&mut self, pass: &mut Pass<'_>) {
        self.read(pass);
        if self.follower.is_some() && !self.progress.is_behind {
            self.count_waits(pass.now_ns.saturating_sub(LATE_NS), pass);
        }
        if pass.keeps_recent {
            self.recent.forget_old(pass.now_ns);
        } else {
            self.recent = RecentSamples::default();
        }
    }

    fn read(&mut self, pass: &mut Pass<'_>) {
        if let Some(follower) = self.follower.take() {
            self.follower = self.read_from(follower, pass);
        }
        self.catch_up.note(self.is_behind());
    }

    /// Reads the new entries, and then older ones while the budget lasts; returns the follower
    /// unless the pool cannot be read any more.
    fn read_from(
        &mut self,
        mut follower: Follower<Arc<OwnFile>>,
        pass: &mut Pass<'_>,
    ) -> Option<Follower<Arc<OwnFile>>> {
        if self.is_table_due(pass.now_ns) {
            self.read_threads(&follower, pass.now_ns);
        }
        let advanced = follower.advance_within(pass.budget, |one| {
            if let Entry::Sample(sample) = &one.entry {
                self.take(one, sample, None, pass);
            }
        });
        let advanced = advanced.and_then(|progress| {
            self.progress = progress;
            self.read_older(&mut follower, pass)
        });
        if advanced.is_err() {
            self.is_unreadable = true;
            self.end_older(pass);
            return None;
        }
        self.is_unreadable |= self.progress.damaged > 0;
        if self.threads.has_unnamed() {
            self.read_threads(&follower, pass.now_ns);
        }
        Some(follower)
    }

    /// Whether the table of threads is read before the samples: a thread may have got the system's
    /// number of an ended thread, or may have changed its name.
    fn is_table_due(&self, now_ns: i64) -> bool {
        self.rows_read.is_none_or(|(read_ns, samples)| {
            let is_old = now_ns.saturating_sub(read_ns) >= ROWS_NS;
            is_old && samples != self.samples
        })
    }

    fn read_threads(&mut self, follower: &Follower<Arc<OwnFile>>, now_ns: i64) {
        self.rows_read = Some((now_ns, self.samples));
        let rows = follower.threads();
        self.threads.take_rows(rows.unwrap_or_default());
    }

    /// Reads the process to its end, and frees all except its sums. It ended at `ended_ns`.
    pub(crate) fn conclude(&mut self, pass: &mut Pass<'_>, ended_ns: i64) {
        self.read(pass);
        if self.is_behind() {
            return;
        }
        self.count_waits(ended_ns.min(pass.now_ns), pass);
        self.follower = None;
        self.paths = RecorderPaths::default();
        self.known_modules = KnownModules::default();
        self.threads.finish();
        self.recent = RecentSamples::default();
        self.weights.finish();
    }

    /// Whether entries remain to be read at once.
    pub(crate) const fn is_behind(&self) -> bool {
        let remains = self.progress.is_behind || self.threads.awaits_older();
        remains && self.follower.is_some()
    }

    /// The time since which all samples were read, in session time; `None` if it is not known.
    pub(crate) const fn whole_since_ns(&self) -> Option<i64> {
        if self.is_behind() {
            self.whole_since_ns
        } else {
            Some(i64::MIN)
        }
    }

    /// Whether the process records faster than it is read.
    pub(crate) const fn is_too_fast(&self) -> bool {
        self.is_behind() && self.catch_up.is_over()
    }

    /// Takes a sample of a chunk that is read as it grows, or of an older one.
    fn take(
        &mut self,
        one: &Followed<'_>,
        sample: &SampleEntry<'_>,
        mut older: Option<&mut OlderChunk>,
        pass: &mut Pass<'_>,
    ) {
        let mut frames = ProcessFrames {
            table: pass.frames,
            definitions: one.definitions,
            known: &mut self.known_modules,
            room: pass.room,
        };
        let recorder = one.thread.index;
        let paths = match &mut older {
            Some(older) => &mut older.paths,
            None => &mut self.paths,
        };
        let node = paths.node(recorder, one.chunk, sample, &mut self.tree, &mut frames);
        let tid = sample.foreign.unwrap_or(one.thread.tid);
        let known = self.threads.all().len();
        let number = self.threads.number(tid, sample.at);
        if self.threads.all().len() > known {
            self.weights.reserve(number, pass.room);
        }
        // A sample is not later than its reading, unless its time is forged.
        let latest_ns = pass.now_ns.saturating_add(LATEST_NS);
        let at_ns = pass.converter.since_start_ns(sample.at).min(latest_ns);
        self.samples += 1;
        self.first_ns = Some(self.first_ns.map_or(at_ns, |first| first.min(at_ns)));
        let times = SampleTimes::of(sample, at_ns, self.tick_ns);
        let spent = match older {
            Some(older) => older.spent(number, tid, &times, node),
            None => self.threads.spent(number, tid, &times, node),
        };
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
            let on_ns = i64::try_from(spent.on.on_ns).unwrap_or(i64::MAX);
            let range = (at_ns.saturating_sub(on_ns), at_ns);
            self.keep(thread, node, range, spent.on, pass);
        }
        if let Some(range) = spent.wait {
            self.add_wait(thread, node, range, pass);
        }
    }

    fn add_wait(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        range: WaitRange,
        pass: &mut Pass<'_>,
    ) {
        self.weights.add_wait(thread, node, range, pass.room);
        self.keep(thread, node, range, Weight::off(length_ns(range)), pass);
    }

    fn keep(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        (from_ns, to_ns): (i64, i64),
        weight: Weight,
        pass: &Pass<'_>,
    ) {
        if pass.keeps_recent {
            let sample = RecentSample {
                from_ns,
                to_ns,
                thread,
                node,
                weight,
            };
            if pass.is_older {
                self.recent.keep_older(sample, pass.now_ns);
            } else {
                self.recent.keep(sample, pass.now_ns);
            }
        }
    }

    fn count_waits(&mut self, until_ns: i64, pass: &mut Pass<'_>) {
        let waits: Vec<_> = self.threads.waits(until_ns).collect();
        for (thread, node, range) in waits {
            self.add_wait(thread, node, range, pass);
        }
    }
}

#[cfg(test)]
pub(crate) mod test_pool;
#[cfg(test)]
pub(crate) mod test_process;
#[cfg(test)]
mod tests;
