//! Sums up the samples that a request selects.
//!
//! Used while an answer is made. The time of a group that the pools record, of a process and of a
//! thread is in the sums of all samples; the samples of any other group are selected among the
//! latest samples, by the time of its runs. Invariant: both ways select by process and by thread.

use profiler_core::ids::PoolId;

use super::listed::{ProcessTime, ThreadTime};
use crate::frames::FrameTable;
use crate::graph::{FunctionTree, Values};
use crate::process::SampledProcess;
use crate::runs::RunRanges;
use crate::selection::Selection;
use crate::stack_tree::NodeNumber;
use crate::threads::SampledThread;
use crate::weights::{ThreadNumber, Weight};
use crate::window::PeriodRange;

/// The samples that a request selects.
pub(super) struct Selected<'a> {
    selection: &'a Selection,
    runs: Option<&'a RunRanges>,
    now: Option<PeriodRange>,
    before: Option<PeriodRange>,
    pub(super) tree: FunctionTree,
    pub(super) weight: Weight,
    pub(super) processes: Vec<ProcessTime>,
    pub(super) threads: Vec<ThreadTime>,
}

/// The time of one process by stack and by thread.
struct ProcessSums<'a> {
    selection: &'a Selection,
    /// By thread: whether its samples are wanted.
    is_wanted: Vec<bool>,
    of_threads: Vec<Weight>,
    /// By node of the process's tree.
    own: Vec<Values>,
    stackless: Values,
}

impl ProcessSums<'_> {
    fn is_wanted(&self, thread: ThreadNumber) -> bool {
        self.is_wanted.get(thread.0 as usize) == Some(&true)
    }

    fn add_now(&mut self, thread: ThreadNumber, node: NodeNumber, weight: Weight) {
        if let Some(sum) = self.of_threads.get_mut(thread.0 as usize) {
            *sum = sum.plus(weight);
        }
        if self.is_wanted(thread) {
            let now_ns = self.selection.time.of(weight);
            let before_ns = 0;
            self.add(node, Values { now_ns, before_ns });
        }
    }

    fn add_before(&mut self, thread: ThreadNumber, node: NodeNumber, weight: Weight) {
        if self.is_wanted(thread) {
            let before_ns = self.selection.time.of(weight);
            let now_ns = 0;
            self.add(node, Values { now_ns, before_ns });
        }
    }

    fn add(&mut self, node: NodeNumber, values: Values) {
        match self.own.get_mut(node.0 as usize) {
            Some(own) => own.add(values),
            None => self.stackless.add(values),
        }
    }

    /// The time of the wanted threads, of both kinds.
    fn wanted(&self) -> Weight {
        let threads = self.of_threads.iter().zip(&self.is_wanted);
        let wanted = threads.filter(|(_, is_wanted)| **is_wanted);
        wanted.fold(Weight::default(), |sum, (weight, _)| sum.plus(*weight))
    }
}

impl<'a> Selected<'a> {
    /// No samples yet. `now` and `before` are the periods of the window and of the window before.
    pub(super) fn new(
        selection: &'a Selection,
        runs: Option<&'a RunRanges>,
        now: Option<PeriodRange>,
        before: Option<PeriodRange>,
    ) -> Self {
        Self {
            selection,
            runs,
            now,
            before,
            tree: FunctionTree::new(),
            weight: Weight::default(),
            processes: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// Adds the samples of a process.
    pub(super) fn add(&mut self, number: u32, process: &SampledProcess, frames: &FrameTable) {
        let identity = &process.identity;
        let key = key_text(identity.key);
        if !self.selection.wants_process(&key, &identity.name) {
            // The other processes are listed too, so that one of them can be chosen next.
            if self.selection.process.is_some() {
                let weight = self.weight_of(process);
                self.list_process(number, key, process, weight);
            }
            return;
        }
        let sums = self.sums_of(process);
        let weight = sums.wanted();
        self.weight = self.weight.plus(weight);
        self.tree
            .add_process(number, &process.tree, frames, &sums.own, sums.stackless);
        if self.selection.process.is_some() {
            self.list_threads(process, &sums.of_threads);
        }
        self.list_process(number, key, process, weight);
    }

    fn sums_of(&self, process: &SampledProcess) -> ProcessSums<'a> {
        let selection = self.selection;
        let threads = process.threads.all();
        let wants = |thread: &SampledThread| selection.wants_thread(thread.tid, &thread.name);
        let mut sums = ProcessSums {
            selection,
            is_wanted: threads.iter().map(wants).collect(),
            of_threads: vec![Weight::default(); threads.len()],
            own: vec![Values::default(); process.tree.len()],
            stackless: Values::default(),
        };
        if let Some(runs) = self.runs {
            for sample in process.recent.iter() {
                let weight = runs.part_of(process.identity.key, sample);
                sums.add_now(sample.thread, sample.node, weight);
            }
            return sums;
        }
        for cell in process.weights.within(self.now) {
            sums.add_now(cell.thread, cell.node, cell.weight);
        }
        if let Some(before) = self.before {
            for cell in process.weights.within(Some(before)) {
                sums.add_before(cell.thread, cell.node, cell.weight);
            }
        }
        sums
    }

    /// The time of a process in the window, or within the runs of the group.
    fn weight_of(&self, process: &SampledProcess) -> Weight {
        match self.runs {
            Some(runs) => {
                let parts = process.recent.iter();
                let parts = parts.map(|sample| runs.part_of(process.identity.key, sample));
                parts.fold(Weight::default(), Weight::plus)
            }
            None => {
                let cells = process.weights.within(self.now);
                let weights = cells.map(|cell| cell.weight);
                weights.fold(Weight::default(), Weight::plus)
            }
        }
    }

    fn list_process(&mut self, number: u32, key: String, process: &SampledProcess, weight: Weight) {
        let identity = &process.identity;
        if !weight.is_zero() {
            self.processes.push(ProcessTime {
                number,
                key,
                pid: identity.pid.get(),
                name: identity.name.clone(),
                order: identity.order,
                on_cpu_ns: weight.on_ns,
                off_cpu_ns: weight.off_ns,
            });
        }
    }

    fn list_threads(&mut self, process: &SampledProcess, of_threads: &[Weight]) {
        for (thread, weight) in process.threads.all().iter().zip(of_threads) {
            if !weight.is_zero() {
                self.threads.push(ThreadTime {
                    tid: thread.tid.get(),
                    name: thread.name.clone(),
                    on_cpu_ns: weight.on_ns,
                    off_cpu_ns: weight.off_ns,
                });
            }
        }
    }
}

/// The key of a process in requests and answers.
pub(super) fn key_text(key: PoolId) -> String {
    format!("{:032x}", key.get())
}
