//! The threads of one process: their numbers, names and usage.
//!
//! Used while the samples of the process are read ([`crate::process`]). A sample contains the
//! system's number of its thread, and the system gives the number of an ended thread to a new
//! thread. The rows of the pool's thread table contain the time at which each thread registered. So
//! a sample belongs to the thread that was the last to register under this number before the sample
//! was taken. Invariants: memory is bounded; threads that do not fit share one number and one name,
//! but each has its own usage.

use std::collections::BTreeMap;

use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::ThreadInfo;
use profiler_core::time::Timestamp;
use profiler_gecko::frame_names::thread_without_row;

use crate::hash::FastMap;
use crate::stack_tree::NodeNumber;
use crate::usage::{PutOffSample, SampleTimes, Spent, ThreadUsage, WaitRange};
use crate::weights::ThreadNumber;

/// Limit on the threads of a process that are told apart.
const MAX_THREADS: u32 = 4096;
/// All other threads, their name, and the system's number that stands for them.
const OTHERS: ThreadNumber = ThreadNumber(MAX_THREADS - 1);
const OTHER_THREADS: &str = "(other threads)";
const OTHER_TID: ThreadId = ThreadId::new(0);
/// Limit on the other threads whose usage is remembered.
const MAX_OTHERS: usize = 1 << 14;
/// Limit on the system's numbers of threads whose rows are remembered.
const MAX_TIDS: usize = 1 << 13;
/// Limit on the threads with the same number of the system that are told apart: the latest.
const MAX_LIVES: usize = 8;

/// A thread whose samples were read.
#[derive(Debug)]
pub(crate) struct SampledThread {
    pub(crate) tid: ThreadId,
    pub(crate) name: String,
    usage: ThreadUsage,
}

/// A thread that has, or had, a number of the system.
#[derive(Debug)]
struct ThreadLife {
    /// When it registered; `None` if no row of it was read.
    registered: Option<Timestamp>,
    name: String,
    /// `None` before its first sample.
    number: Option<ThreadNumber>,
}

/// The threads of one process.
#[derive(Debug, Default)]
pub(crate) struct ThreadTable {
    all: Vec<SampledThread>,
    /// By the system's number: the threads in the order in which they registered.
    lives: FastMap<ThreadId, Vec<ThreadLife>>,
    /// The usage of the threads that do not fit.
    others: BTreeMap<ThreadId, ThreadUsage>,
    has_unnamed: bool,
    /// Whether older samples than those that were read are still to be read.
    awaits_older: bool,
}

impl ThreadTable {
    /// No threads yet. The newest samples are read first.
    pub(crate) fn newest_first() -> Self {
        Self {
            awaits_older: true,
            ..Self::default()
        }
    }

    /// Whether older samples than those that were read are still to be read.
    pub(crate) const fn awaits_older(&self) -> bool {
        self.awaits_older
    }

    /// All threads in the order of their numbers.
    pub(crate) fn all(&self) -> &[SampledThread] {
        &self.all
    }

    /// Whether a thread has appeared of which no row was read since.
    pub(crate) const fn has_unnamed(&self) -> bool {
        self.has_unnamed
    }

    /// The number of the thread that had this number of the system at this time.
    pub(crate) fn number(&mut self, tid: ThreadId, at: Timestamp) -> ThreadNumber {
        let lives = self.lives.get(&tid);
        let lives = lives.map(Vec::as_slice).unwrap_or_default();
        // The thread that registered first may have samples from before that.
        let later = lives.partition_point(|life| life.registered <= Some(at));
        let place = later.saturating_sub(1);
        match lives.get(place).and_then(|life| life.number) {
            Some(known) => known,
            None => self.add(tid, place),
        }
    }

    fn add(&mut self, tid: ThreadId, place: usize) -> ThreadNumber {
        let number = u32::try_from(self.all.len()).map_or(OTHERS, ThreadNumber);
        if number >= OTHERS {
            if number == OTHERS {
                self.push(OTHER_TID, OTHER_THREADS.to_owned());
            }
            return OTHERS;
        }
        let lives = self.lives.entry(tid).or_default();
        if lives.is_empty() {
            lives.push(ThreadLife {
                registered: None,
                name: thread_without_row(tid),
                number: None,
            });
            self.has_unnamed = true;
        }
        let life = lives.get_mut(place);
        let name = life.map_or_else(String::new, |life| {
            life.number = Some(number);
            life.name.clone()
        });
        self.push(tid, name);
        number
    }

    fn push(&mut self, tid: ThreadId, name: String) {
        self.all.push(SampledThread {
            tid,
            name,
            usage: ThreadUsage::default(),
        });
    }

    /// Takes the present rows of the thread table. A thread that never registers has its number as
    /// its name.
    pub(crate) fn take_rows(&mut self, mut rows: Vec<ThreadInfo>) {
        self.has_unnamed = false;
        for lives in self.lives.values_mut() {
            lives.retain(|life| life.number.is_some());
        }
        self.lives.retain(|_, lives| !lives.is_empty());
        rows.sort_by_key(|row| row.registered);
        for row in rows {
            self.take_row(row);
        }
    }

    fn take_row(&mut self, row: ThreadInfo) {
        if self.lives.len() >= MAX_TIDS && !self.lives.contains_key(&row.tid) {
            return;
        }
        let lives = self.lives.entry(row.tid).or_default();
        let registered = Some(row.registered);
        let is_it = |life: &ThreadLife| life.registered == registered;
        let has_no_row = |life: &ThreadLife| life.registered.is_none();
        // A thread registers again when its process begins another session.
        let has_name = |life: &ThreadLife| life.name == row.name;
        let place = lives.iter().position(is_it);
        let place = place.or_else(|| lives.iter().position(has_no_row));
        let place = place.or_else(|| lives.iter().position(has_name));
        match place.and_then(|place| lives.get_mut(place)) {
            Some(life) => {
                life.registered = registered;
                let number = life.number.map(|number| number.0 as usize);
                let thread = number.and_then(|number| self.all.get_mut(number));
                if let Some(thread) = thread.filter(|thread| thread.name != row.name) {
                    thread.name.clone_from(&row.name);
                }
                life.name = row.name;
            }
            None => lives.push(ThreadLife {
                registered,
                name: row.name,
                number: None,
            }),
        }
        lives.sort_by_key(|life| life.registered);
        if lives.len() > MAX_LIVES {
            lives.remove(0);
        }
    }

    /// The time that the next sample of a thread adds to its stack `node`.
    pub(crate) fn spent(
        &mut self,
        number: ThreadNumber,
        tid: ThreadId,
        times: &SampleTimes,
        node: NodeNumber,
    ) -> Spent {
        let awaits_older = self.awaits_older;
        match self.usage(number, tid) {
            Some(usage) if awaits_older => usage.next_or_begin(times, node),
            Some(usage) => usage.next(times, node),
            // A wait of this thread is counted when it has ended.
            None => ThreadUsage::default().next(times, node),
        }
    }

    /// Joins the usage of a thread with that of the time before. Returns the sample that was put
    /// off until then, and the time that it adds.
    pub(crate) fn precede(
        &mut self,
        number: ThreadNumber,
        tid: ThreadId,
        mut older: ThreadUsage,
    ) -> Option<(PutOffSample, Spent)> {
        match self.usage(number, tid) {
            Some(usage) => usage.precede(older),
            None => older.end_put_off(),
        }
    }

    /// Notes that there are no older samples. Returns all samples that were put off, and the time
    /// that they add.
    pub(crate) fn end_older(&mut self) -> Vec<(ThreadNumber, PutOffSample, Spent)> {
        self.awaits_older = false;
        let ended = self.usages().filter_map(|(number, usage)| {
            let (first, spent) = usage.end_put_off()?;
            Some((number, first, spent))
        });
        ended.collect()
    }

    /// The usage of a thread; `None` if there is no room for it.
    fn usage(&mut self, number: ThreadNumber, tid: ThreadId) -> Option<&mut ThreadUsage> {
        if number != OTHERS {
            let thread = self.all.get_mut(number.0 as usize);
            return thread.map(|thread| &mut thread.usage);
        }
        if self.others.len() < MAX_OTHERS || self.others.contains_key(&tid) {
            return Some(self.others.entry(tid).or_default());
        }
        None
    }

    /// The usage of all threads.
    fn usages(&mut self) -> impl Iterator<Item = (ThreadNumber, &mut ThreadUsage)> {
        let known = self.all.iter_mut().map(|thread| &mut thread.usage);
        let known = (0..).map(ThreadNumber).zip(known);
        let others = self.others.values_mut().map(|usage| (OTHERS, usage));
        known.chain(others)
    }

    /// The parts of all unfinished waits, up to `until_ns`, that are not counted yet. Counts them.
    pub(crate) fn waits(
        &mut self,
        until_ns: i64,
    ) -> impl Iterator<Item = (ThreadNumber, NodeNumber, WaitRange)> {
        // A thread whose usage is forgotten would seem to wait since its sample in an older chunk.
        if !self.awaits_older && self.others.len() > MAX_OTHERS / 2 {
            self.others.retain(|_, usage| usage.is_needed());
        }
        self.usages().filter_map(move |(number, usage)| {
            let (node, range) = usage.advance(until_ns)?;
            Some((number, node, range))
        })
    }

    /// Frees what only reading needs.
    pub(crate) fn finish(&mut self) {
        self.lives = FastMap::default();
        self.others = BTreeMap::new();
    }
}

#[cfg(test)]
mod tests;
