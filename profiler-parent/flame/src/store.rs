//! The samples of all processes, and the thread that reads them.
//!
//! The thread reads the new entries of all pools about once a second, one process at a time under
//! the lock. The entries that the pools hold at the first read are read without a pause, the newest
//! first ([`crate::catch_up`]); meanwhile, also during the first pass, requests are answered with
//! the entries that have been read, and the answers say what is incomplete. Invariants: the lock is
//! held for the time that one budget of one process takes, usually some milliseconds, and never
//! while symbols are looked up; a request that waits for the lock is the next to get it; if a
//! thread panics, all answers say so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use profiler_core::ids::PoolId;
use profiler_core::time::{Anchor, TimeConverter, Timestamp};

use crate::catch_up::in_rounds;
use crate::frames::{FrameTable, start_of};
use crate::process::{Pass, SampledProcess};
use crate::sampled_pools::{SampledPool, SampledPools};
use crate::sources::FlameSources;
use crate::weights::{Room, Weight};

/// Time between two regular passes.
const EVERY: Duration = Duration::from_millis(950);
const EVERY_NS: i64 = 950_000_000;
/// Passes between two searches for data that no window contains any more.
const TIDY_PASSES: u64 = 16;
/// Limits on the distinct pairs of thread and stack, and on the distinct pairs of frame and caller,
/// of all processes together.
const MAX_CELLS: usize = 1 << 18;
const MAX_NODES: usize = 1 << 20;
/// The share of the cells that every process may take, however many processes there are.
const LEAST_SHARE: usize = 1 << 12;
/// Limit on the ended processes whose samples are kept: those that ended last.
const MAX_ENDED: usize = 2048;

/// The longest text of a panic that is shown, in bytes.
const LONGEST_PANIC: usize = 200;

/// A thread of the flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlameThread {
    Reader,
    Names,
}

/// Why threads have stopped, as sentences. They stop by a panic only.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoppedThreads {
    /// The samples are not read any more.
    pub(crate) reader: Option<String>,
    /// Names are not looked up any more.
    pub(crate) names: Option<String>,
}

/// The samples that were read.
#[derive(Debug)]
pub(crate) struct Samples {
    open: SampledPools,
    ended: Vec<SampledProcess>,
    /// The time of ended processes that are not kept.
    pub(crate) forgotten: Weight,
    pub(crate) frames: FrameTable,
    room: Room,
    /// Finished passes.
    pub(crate) passes: u64,
    /// Whether the entries that the pools held at the first read are still being read. True until
    /// the first pass has ended.
    pub(crate) is_behind: bool,
    /// When the last finished regular pass began, in session time; during the first pass, when it
    /// began. Other passes do not read the processes that have caught up.
    pub(crate) read_ns: i64,
    pub(crate) stopped: StoppedThreads,
}

impl Samples {
    fn new() -> Self {
        Self {
            open: SampledPools::default(),
            ended: Vec::new(),
            forgotten: Weight::default(),
            frames: FrameTable::default(),
            room: Room::of(MAX_CELLS, MAX_NODES),
            passes: 0,
            is_behind: true,
            read_ns: 0,
            stopped: StoppedThreads::default(),
        }
    }

    /// The samples of one process that has ended.
    #[cfg(test)]
    pub(crate) fn of_one(process: SampledProcess, frames: FrameTable, read_ns: i64) -> Self {
        Self {
            ended: vec![process],
            frames,
            passes: 1,
            is_behind: false,
            read_ns,
            ..Self::new()
        }
    }

    /// The time since which all samples were read, in session time; `None` if it is not known.
    /// Without the processes that have reached their bound, which an answer counts.
    pub(crate) fn whole_since_ns(&self) -> Option<i64> {
        if self.passes == 0 && self.open.iter().next().is_none() {
            return None; // nothing was read
        }
        let all = self.open.iter().filter(|one| !one.catch_up.is_over());
        all.map(SampledProcess::whole_since_ns)
            .try_fold(i64::MIN, |latest, since| Some(latest.max(since?)))
    }

    /// All processes whose samples were read.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &SampledProcess> {
        self.open.iter().chain(&self.ended)
    }
}

/// The samples, shared by the reader's thread, the server's thread and the look-up of names.
#[derive(Debug)]
pub(crate) struct FlameStore {
    /// Held while waiting for the samples, so that the reader does not take them again before a
    /// request that waits.
    turn: Mutex<()>,
    samples: Mutex<Samples>,
    /// Whether a request needs the latest samples one by one.
    keeps_recent: AtomicBool,
}

impl FlameStore {
    /// A store without samples.
    pub(crate) fn new() -> Self {
        Self {
            turn: Mutex::new(()),
            samples: Mutex::new(Samples::new()),
            keeps_recent: AtomicBool::new(false),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Samples> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        samples
    }

    /// Says whether the latest samples are needed one by one.
    pub(crate) fn keep_recent(&self, is_needed: bool) {
        self.keeps_recent.store(is_needed, Ordering::Relaxed);
    }

    /// Runs the body of a thread. If it panics, all answers say so from then on.
    pub(crate) fn run_thread(&self, thread: FlameThread, body: impl FnOnce()) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(body)) else {
            return;
        };
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_default();
        let text = start_of(&text, LONGEST_PANIC);
        let mut samples = self.lock();
        let (place, what) = match thread {
            FlameThread::Reader => (&mut samples.stopped.reader, "the reader"),
            FlameThread::Names => (&mut samples.stopped.names, "the look-up of names"),
        };
        *place = Some(format!("{what} has stopped: {text}"));
    }
}

/// Reads until the channel is disconnected. After each pass, `look_up` looks up the names of code.
pub(crate) fn run(
    sources: &dyn FlameSources,
    store: &FlameStore,
    mut look_up: impl FnMut(&FlameStore),
    stop: &Receiver<()>,
) {
    let mut has_more = false;
    let mut regular_ns = i64::MIN;
    loop {
        let times = PassTimes::now(sources, store);
        let is_regular = !has_more || times.now_ns.saturating_sub(regular_ns) >= EVERY_NS;
        if is_regular {
            regular_ns = times.now_ns;
        }
        has_more = pass(sources, store, times, is_regular);
        look_up(store);
        let pause = if has_more { Duration::ZERO } else { EVERY };
        match stop.recv_timeout(pause) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Reads the new entries of all processes. A pass that is not regular reads only the processes
/// whose older entries are read without a pause. Returns whether the next pass follows at once.
fn pass(
    sources: &dyn FlameSources,
    store: &FlameStore,
    times: PassTimes,
    is_regular: bool,
) -> bool {
    let mut samples = store.lock();
    samples.begin_pass(sources, times.now_ns);
    let turns = samples.turns(is_regular);
    drop(samples);
    // The lock is free between two budgets.
    in_rounds(turns, |key| store.lock().read(*key, times));
    store.lock().end_pass(times.now_ns, is_regular)
}

/// Reads all pools once; returns whether the next pass follows at once.
pub(crate) fn read_once(sources: &dyn FlameSources, store: &FlameStore) -> bool {
    pass(sources, store, PassTimes::now(sources, store), true)
}

/// What all reads of one pass have in common.
#[derive(Clone, Copy, Debug)]
struct PassTimes {
    converter: TimeConverter,
    now_ns: i64,
    keeps_recent: bool,
}

impl PassTimes {
    fn now(sources: &dyn FlameSources, store: &FlameStore) -> Self {
        let converter = sources.clock().converter(Anchor::take());
        Self {
            converter,
            now_ns: converter.since_start_ns(Timestamp::now()),
            keeps_recent: store.keeps_recent.load(Ordering::Relaxed),
        }
    }
}

impl Samples {
    /// Finds the processes to read. From the first pass on, an answer covers the present. A process
    /// that is found in a later pass started after the time that answers cover until the pass ends.
    fn begin_pass(&mut self, sources: &dyn FlameSources, now_ns: i64) {
        self.update(sources);
        if self.passes == 0 {
            self.read_ns = now_ns;
        }
    }

    fn update(&mut self, sources: &dyn FlameSources) {
        self.open.update(sources);
        let sharers = self.open.iter().count() + 1;
        self.room.set_share((MAX_CELLS / sharers).max(LEAST_SHARE));
    }

    /// The most budgets of each process in this pass. An ended process is read in every pass, until
    /// all of it is read. The processes that record faster than they are read share the budgets of
    /// one process, which limits the length of a pass.
    fn turns(&mut self, is_regular: bool) -> Vec<(PoolId, usize)> {
        let too_fast = self.open.iter().filter(|one| one.is_too_fast()).count();
        let turn = |pool: &mut SampledPool| {
            let mut budgets = pool.process.catch_up.budgets(is_regular);
            if pool.process.is_too_fast() {
                budgets = budgets.div_ceil(too_fast.max(1));
            }
            let least = usize::from(pool.is_over);
            (pool.process.identity.key, budgets.max(least))
        };
        self.open.iter_mut().map(turn).collect()
    }

    /// Reads one budget of a process; returns whether entries remain to be read.
    fn read(&mut self, key: PoolId, times: PassTimes) -> bool {
        let Some(pool) = self.open.get_mut(key) else {
            return false;
        };
        let mut pass = Pass {
            converter: times.converter,
            now_ns: times.now_ns,
            budget: pool.process.catch_up.bytes(),
            keeps_recent: times.keeps_recent,
            is_older: false,
            frames: &mut self.frames,
            room: &mut self.room,
        };
        if pool.is_over {
            let died = pool.died.map(|died| times.converter.since_start_ns(died));
            pool.process
                .conclude(&mut pass, died.unwrap_or(times.now_ns));
        } else {
            pool.process.advance(&mut pass);
        }
        pool.process.is_behind()
    }

    /// Returns whether the next pass follows at once.
    fn end_pass(&mut self, now_ns: i64, is_regular: bool) -> bool {
        let ended = self.open.take_ended();
        self.ended
            .extend(ended.into_iter().filter(|process| process.samples > 0));
        let surplus = self.ended.len().saturating_sub(MAX_ENDED);
        for process in self.ended.drain(..surplus) {
            let time = process.weights.within(None);
            self.forgotten = time.fold(self.forgotten, |sum, cell| sum.plus(cell.weight));
            self.room
                .give_back(process.weights.len(), process.tree.len());
        }
        self.is_behind = self.open.iter().any(|one| !one.catch_up.is_over());
        if is_regular {
            self.read_ns = now_ns;
        }
        self.passes += 1;
        if self.passes.is_multiple_of(TIDY_PASSES) {
            let open = self.open.iter_mut().map(|pool| &mut pool.process);
            for process in open.chain(&mut self.ended) {
                process.weights.forget_before(now_ns);
            }
        }
        self.is_behind
    }
}

#[cfg(test)]
mod tests;
