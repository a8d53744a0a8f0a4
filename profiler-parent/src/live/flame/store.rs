//! The samples of all processes, and the thread that reads them.
//!
//! The thread reads the new entries of all pools about once a second, one process at a time under
//! the lock. The first passes read what the pools hold already, without a pause; meanwhile requests
//! are answered with what has been read. Invariants: the lock is held for the time that one budget
//! of one process takes, some milliseconds, and never while symbols are looked up; a request that
//! waits for it is next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use profiler_core::ids::PoolId;
use profiler_core::time::{TimeConverter, Timestamp};

use super::frames::FrameTable;
use super::names::NameLookup;
use super::process::{Pass, SampledProcess};
use super::weights::{Room, Weight};
use crate::process_table::pool_list::PoolList;
use crate::process_table::{ProcessTable, Remains};
use crate::session_time::SessionTime;

/// Time between two passes.
const EVERY: Duration = Duration::from_millis(950);
/// Bytes that are read of one process under the lock while the recorded entries are read.
const BUDGET: u64 = 1 << 20;
/// Passes in which the recorded entries are read: enough for 4 GiB of each process. A process that
/// is behind after them records faster than it is read, or changes its pool all the time. From then
/// on, each pass reads up to this number of budgets of each process.
const CATCH_UP_PASSES: u64 = 4096;
const LATER_BUDGETS: usize = 16;
/// Passes between two searches for data that no window contains any more.
const TIDY_PASSES: u64 = 16;
/// Limits on the distinct pairs of thread and stack, and on the distinct pairs of frame and caller,
/// of all processes together.
const MOST_CELLS: usize = 1 << 18;
const MOST_NODES: usize = 1 << 20;
/// The share of the cells that every process may take, however many processes there are.
const LEAST_SHARE: usize = 1 << 12;
/// Limit on the ended processes whose samples are kept: those that ended last.
const MOST_ENDED: usize = 2048;

/// Where the samples come from.
#[derive(Clone, Debug)]
pub(super) struct SampledPools {
    pub(super) processes: Arc<ProcessTable>,
    pub(super) time: SessionTime,
}

/// The samples that were read.
#[derive(Debug)]
pub(super) struct Samples {
    open: PoolList<SampledProcess>,
    ended: Vec<SampledProcess>,
    /// The time of ended processes that are not kept.
    pub(super) forgotten: Weight,
    pub(super) frames: FrameTable,
    room: Room,
    /// Finished passes.
    pub(super) passes: u64,
    /// Whether the last pass left entries unread.
    pub(super) is_behind: bool,
    /// When the last pass began, in session time.
    pub(super) read_ns: i64,
}

impl Samples {
    fn new() -> Self {
        Self {
            open: PoolList::new(),
            ended: Vec::new(),
            forgotten: Weight::default(),
            frames: FrameTable::default(),
            room: Room::of(MOST_CELLS, MOST_NODES),
            passes: 0,
            is_behind: false,
            read_ns: 0,
        }
    }

    /// All processes whose samples were read.
    pub(super) fn processes(&self) -> impl Iterator<Item = &SampledProcess> {
        self.open.iter().chain(&self.ended)
    }
}

/// The samples, shared by the reader's thread, the server's thread and the look-up of names.
#[derive(Debug)]
pub(super) struct FlameStore {
    /// Held while waiting for the samples, so that the reader does not take them again before a
    /// request that waits.
    turn: Mutex<()>,
    samples: Mutex<Samples>,
    /// Whether a request needs the latest samples one by one.
    keeps_recent: AtomicBool,
}

impl FlameStore {
    /// A store without samples.
    pub(super) fn new() -> Self {
        Self {
            turn: Mutex::new(()),
            samples: Mutex::new(Samples::new()),
            keeps_recent: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Samples> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        samples
    }

    /// Says whether the latest samples are needed one by one.
    pub(super) fn keep_recent(&self, is_needed: bool) {
        self.keeps_recent.store(is_needed, Ordering::Relaxed);
    }
}

/// Reads until the channel is disconnected.
pub(super) fn run(
    pools: &SampledPools,
    store: &FlameStore,
    mut names: NameLookup,
    stop: &Receiver<()>,
) {
    loop {
        let reads_on = pass(pools, store);
        names.ask(store);
        let pause = if reads_on { Duration::ZERO } else { EVERY };
        match stop.recv_timeout(pause) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Reads the new entries of all processes; returns whether the next pass follows at once.
fn pass(pools: &SampledPools, store: &FlameStore) -> bool {
    let converter = pools.time.converter();
    let times = PassTimes {
        converter,
        now_ns: converter.since_start_ns(Timestamp::now()),
        keeps_recent: store.keeps_recent.load(Ordering::Relaxed),
    };
    let mut samples = store.lock();
    samples.update(&pools.processes);
    let catches_up = samples.passes < CATCH_UP_PASSES;
    let budgets = if catches_up { 1 } else { LATER_BUDGETS };
    let keys = samples.open.keys();
    drop(samples);
    let mut is_behind = false;
    for key in keys {
        // The lock is free between two budgets.
        let mut left = (0..budgets).map(|_| store.lock().read(key, times));
        is_behind |= left.all(|is_left| is_left);
    }
    store.lock().end_pass(times.now_ns, is_behind);
    is_behind && catches_up
}

/// What all reads of one pass have in common.
#[derive(Clone, Copy, Debug)]
struct PassTimes {
    converter: TimeConverter,
    now_ns: i64,
    keeps_recent: bool,
}

impl Samples {
    fn update(&mut self, table: &ProcessTable) {
        self.open
            .update(table, |key, process| match &process.remains {
                Remains::Pool(pool) => Some(SampledProcess::new(key, process, pool)),
                Remains::Expired(_) | Remains::Unprofiled(_) => None,
            });
        let sharers = self.open.iter().count() + 1;
        self.room.set_share((MOST_CELLS / sharers).max(LEAST_SHARE));
    }

    /// Reads one budget of a process; returns whether entries remain to be read.
    fn read(&mut self, key: PoolId, times: PassTimes) -> bool {
        let Some(pool) = self.open.get_mut(key) else {
            return false;
        };
        let mut pass = Pass {
            converter: times.converter,
            now_ns: times.now_ns,
            budget: BUDGET,
            keeps_recent: times.keeps_recent,
            frames: &mut self.frames,
            room: &mut self.room,
        };
        if pool.is_over {
            let died = pool.died.map(|died| times.converter.since_start_ns(died));
            pool.reader
                .conclude(&mut pass, died.unwrap_or(times.now_ns));
        } else {
            pool.reader.advance(&mut pass);
        }
        pool.reader.is_behind()
    }

    fn end_pass(&mut self, now_ns: i64, is_behind: bool) {
        let ended = self.open.take_ended(|process| !process.is_behind());
        self.ended
            .extend(ended.into_iter().filter(|process| process.samples > 0));
        let surplus = self.ended.len().saturating_sub(MOST_ENDED);
        for process in self.ended.drain(..surplus) {
            let time = process.weights.within(None);
            self.forgotten = time.fold(self.forgotten, |sum, cell| sum.plus(cell.weight));
            self.room
                .give_back(process.weights.len(), process.tree.len());
        }
        (self.read_ns, self.is_behind) = (now_ns, is_behind);
        self.passes += 1;
        if self.passes.is_multiple_of(TIDY_PASSES) {
            let open = self.open.iter_mut().map(|pool| &mut pool.reader);
            for process in open.chain(&mut self.ended) {
                process.weights.forget_before(now_ns);
            }
        }
    }
}
