//! The threads of an observed process: their rows in its pool, their processor time, their waits.
//!
//! Used by `observed_waits`. A thread is known from its first sample or from the first list of
//! threads that has it. It gets its row in the pool when something of it is recorded. Invariants:
//! each processor time of a thread is recorded once, because [`ObservedThread::recorded_ns`] is on
//! the thread's own clock, for samples and for looks; a thread that is no longer listed is kept
//! until its last samples have been read.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::known_stacks::KnownStacks;
use super::near_looks::NearLooks;
use super::observed::ObservedProcess;
use super::run_delay::RunDelay;
use super::schedule::now;
use super::wait_period::WaitPeriod;
use crate::ids::ThreadId;
use crate::record::pool_writer::PoolThread;
use crate::sys::native::other_process::OtherProcess;
use crate::sys::native::thread_activity::ThreadActivity;
use crate::thread_filter::ThreadFilter;
use crate::time::Timestamp;

/// How long a thread's name may still change: a thread may get its name some time after its start.
const NAMING: Duration = Duration::from_millis(100);
/// The most threads of a process that are looked at. Further ones have only their own samples.
const MAX_LISTED: usize = 16_384;
/// The number of ended threads that keep their rows for their samples.
const MAX_GONE: usize = 1024;
/// The system's limit on a thread's number, which a sample may exceed: it is a claim.
const MAX_NUMBER: u64 = 1 << 22;

/// A thread of an observed process.
#[derive(Debug)]
pub(super) struct ObservedThread {
    /// Its number in the list of threads. `None` until a list has it.
    pub(super) listed: Option<ThreadId>,
    row: Option<PoolThread>,
    is_main: bool,
    name: String,
    /// When it was found; `None` once its name can no longer be its creator's.
    found: Option<Instant>,
    /// Its processor time up to which samples were recorded.
    pub(super) recorded_ns: u64,
    /// Whether it has samples of its own.
    pub(super) is_sampled: bool,
    /// The time of its last sample.
    pub(super) sampled_at: Timestamp,
    /// What the last look found.
    pub(super) activity: ThreadActivity,
    /// Its run delay at the last look.
    pub(super) delay: RunDelay,
    pub(super) waits: WaitPeriod,
    pub(super) stacks: KnownStacks,
    pub(super) near: NearLooks,
    /// Whether its time up to the next look is not to be recorded.
    pub(super) is_after_pause: bool,
    /// Whether it has ended, or another thread has its number.
    pub(super) is_missing: bool,
    /// Whether a list did not have it.
    was_missing: bool,
}

impl ObservedThread {
    fn new(is_main: bool, recorded_ns: u64) -> Self {
        Self {
            listed: None,
            row: None,
            is_main,
            name: String::new(),
            found: Some(now()),
            recorded_ns,
            is_sampled: false,
            sampled_at: Timestamp::ZERO,
            activity: ThreadActivity::default(),
            delay: RunDelay::new(),
            waits: WaitPeriod::new(),
            stacks: KnownStacks::default(),
            near: NearLooks::NONE,
            is_after_pause: false,
            is_missing: false,
            was_missing: false,
        }
    }

    /// The processor time that the last look found and that is not recorded.
    pub(super) const fn unrecorded_ns(&self) -> u64 {
        self.activity.cpu_ns.saturating_sub(self.recorded_ns)
    }

    /// Gives the thread its row, unless it has one. Without room for it, its samples are shown
    /// without its name.
    pub(super) fn begin_row(&mut self, process: &ObservedProcess, tid: ThreadId, at: Timestamp) {
        if self.row.is_none() && !self.is_main {
            self.row = process.pool().add_thread(tid, &self.name, at);
        }
    }

    /// Reads the thread's name again, if it may have changed. Returns whether it has.
    pub(super) fn name_again(&mut self, process: &ObservedProcess, other: &OtherProcess) -> bool {
        let (Some(found), Some(listed)) = (self.found, self.listed) else {
            return false;
        };
        self.found = (found.elapsed() < NAMING).then_some(found);
        let name = other.name(listed).filter(|name| *name != self.name);
        let Some(name) = name else { return false };
        if let Some(row) = self.row {
            process.pool().rename_thread(row, &name);
        }
        self.name = name;
        true
    }

    /// Ends the thread's row; returns it.
    fn end_row(&self, process: &ObservedProcess, at: Timestamp) -> Option<PoolThread> {
        self.row.inspect(|row| process.pool().end_thread(*row, at))
    }
}

/// All known threads of a process.
#[derive(Debug)]
pub(super) struct ThreadTable {
    main: ThreadId,
    /// When the program began, and its main thread with it.
    began: Timestamp,
    /// The processor time of the process when its program began, which its main thread goes on from.
    base_ns: u64,
    filter: ThreadFilter,
    /// By the number that the pool has: the thread's own one in its PID namespace, unless the
    /// process is observed from outside.
    pub(super) all: BTreeMap<ThreadId, ObservedThread>,
    /// The thread that has each row of the process's file, and which use of the row this is.
    rows: HashMap<u32, (u32, ThreadId)>,
    /// The own numbers of listed threads, in a process in another PID namespace.
    own_numbers: HashMap<ThreadId, ThreadId>,
    /// Whether the numbers in the pool differ from the listed ones. `None` if this is unknown.
    has_own_numbers: Option<bool>,
    listed: Vec<ThreadId>,
}

impl ThreadTable {
    pub(super) fn new(
        (main, began): (ThreadId, Timestamp),
        (base_ns, is_outside): (u64, bool),
        filter: ThreadFilter,
    ) -> Self {
        Self {
            main,
            began,
            base_ns,
            filter,
            all: BTreeMap::new(),
            rows: HashMap::new(),
            own_numbers: HashMap::new(),
            has_own_numbers: is_outside.then_some(false),
            listed: Vec::new(),
        }
    }

    pub(super) const fn main(&self) -> ThreadId {
        self.main
    }

    /// Notes that recording begins now, also for threads that are found later.
    pub(super) fn begin_after_pause(&mut self) {
        self.began = Timestamp::now();
    }

    fn new_thread(&self, tid: ThreadId) -> ObservedThread {
        let is_main = tid == self.main;
        // A new thread's clock begins at 0.
        let mut thread = ObservedThread::new(is_main, if is_main { self.base_ns } else { 0 });
        thread.waits.time.begin(if is_main {
            self.began
        } else {
            Timestamp::now()
        });
        thread
    }

    /// The number of the thread that has a row of the process's file, and what is known of the
    /// thread. `ended` is called with a thread that had the row, or the number, before.
    pub(super) fn of_row(
        &mut self,
        (row, uses): (u32, u32),
        claimed: i32,
        mut ended: impl FnMut(ThreadId, ObservedThread),
    ) -> (ThreadId, &mut ObservedThread) {
        let tid = if row == 0 {
            self.main
        } else {
            ThreadId::new(u64::from(claimed.unsigned_abs()) % MAX_NUMBER)
        };
        let before = self.rows.insert(row, (uses, tid));
        if let Some((_, old)) = before.filter(|before| *before != (uses, tid))
            && let Some(thread) = self.all.remove(&old)
        {
            ended(old, thread);
        }
        let new = self.new_thread(tid);
        (tid, self.all.entry(tid).or_insert(new))
    }

    /// Compares the known threads with a new list. Returns the threads that have ended.
    ///
    /// # Errors
    /// The error of the system that provides no list.
    pub(super) fn update(
        &mut self,
        other: &OtherProcess,
    ) -> std::io::Result<Vec<(ThreadId, ObservedThread)>> {
        let mut listed = std::mem::take(&mut self.listed);
        let result = other.list(&mut listed);
        listed.truncate(MAX_LISTED);
        let numbers = listed.iter();
        let own: Vec<(ThreadId, ThreadId)> = numbers
            .filter_map(|number| Some((self.own_number(other, *number)?, *number)))
            .collect();
        self.own_numbers
            .retain(|number, _| listed.binary_search(number).is_ok());
        self.listed = listed;
        result?;
        let ended = self.remove_missing(&own);
        for (tid, number) in own {
            self.add_listed(other, tid, number);
        }
        Ok(ended)
    }

    /// Removes the threads that two lists in a row did not have: their last samples have been read
    /// in between.
    fn remove_missing(&mut self, own: &[(ThreadId, ThreadId)]) -> Vec<(ThreadId, ObservedThread)> {
        let present: HashSet<ThreadId> = own.iter().map(|(tid, _)| *tid).collect();
        let mut ended = Vec::new();
        for (tid, thread) in &mut self.all {
            thread.is_missing |= !present.contains(tid);
            if std::mem::replace(&mut thread.was_missing, thread.is_missing) {
                ended.push(*tid);
            }
        }
        let ended = ended.into_iter();
        ended
            .filter_map(|tid| Some((tid, self.all.remove(&tid)?)))
            .collect()
    }

    fn add_listed(&mut self, other: &OtherProcess, tid: ThreadId, number: ThreadId) {
        if let Some(known) = self.all.get_mut(&tid) {
            known.listed = Some(number);
            return;
        }
        let name = other.name(number);
        // The name of a thread that is not selected may change: the next list asks again.
        let Some(name) = name.filter(|name| self.selects(tid, name)) else {
            return;
        };
        let mut thread = self.new_thread(tid);
        (thread.listed, thread.name) = (Some(number), name);
        self.all.insert(tid, thread);
    }

    /// Whether a thread is recorded. A thread that is not in the table counts as one without a
    /// name.
    pub(super) fn selects_known(&self, tid: ThreadId) -> bool {
        let name = self.all.get(&tid).map(|thread| thread.name.as_str());
        self.selects(tid, name.unwrap_or_default())
    }

    /// Whether a thread with this name is recorded.
    fn selects(&self, tid: ThreadId, name: &str) -> bool {
        self.filter.selects(name) || tid == self.main && self.filter.selects("GeckoMain")
    }

    /// The number by which the process itself calls a listed thread.
    fn own_number(&mut self, other: &OtherProcess, number: ThreadId) -> Option<ThreadId> {
        if !self.has_own_numbers(other) || number == self.main {
            return Some(number);
        }
        if let Some(own) = self.own_numbers.get(&number) {
            return Some(*own);
        }
        let own = other.own_number(number)?;
        self.own_numbers.insert(number, own);
        Some(own)
    }

    fn has_own_numbers(&mut self, other: &OtherProcess) -> bool {
        let is_in_namespace = || other.is_in_namespace();
        *self.has_own_numbers.get_or_insert_with(is_in_namespace)
    }

    /// Whether threads are known to have begun or ended since the last list, if there are `threads`
    /// now.
    pub(super) fn has_changed(&self, threads: u64) -> bool {
        let known = self.listed.len() as u64;
        let is_new = |thread: &ObservedThread| thread.is_missing || thread.listed.is_none();
        known != threads.min(MAX_LISTED as u64) || self.all.values().any(is_new)
    }

    /// Finds the name of a thread that was found by its sample.
    pub(super) fn name_sampled(&mut self, other: &OtherProcess, tid: ThreadId) {
        // In another PID namespace, the next list finds it.
        if self.has_own_numbers(other) {
            return;
        }
        if let Some(thread) = self.all.get_mut(&tid) {
            thread.name = other.name(tid).unwrap_or_default();
            thread.listed = Some(tid);
        }
    }

    /// Ends the rows of all threads.
    pub(super) fn end_rows(&self, process: &ObservedProcess, at: Timestamp) {
        for thread in self.all.values() {
            thread.end_row(process, at);
        }
    }
}

/// The rows of ended threads.
#[derive(Debug, Default)]
pub(super) struct GoneRows(VecDeque<PoolThread>);

impl GoneRows {
    /// Ends the row of a thread that was removed from the table. Frees the row of the thread that
    /// ended [`MAX_GONE`] threads before.
    pub(super) fn end(
        &mut self,
        thread: &ObservedThread,
        process: &ObservedProcess,
        at: Timestamp,
    ) {
        self.0.extend(thread.end_row(process, at));
        let oldest = (self.0.len() > MAX_GONE)
            .then(|| self.0.pop_front())
            .flatten();
        if let Some(oldest) = oldest {
            process.pool().forget_thread(oldest);
        }
    }
}
