//! Answers a request: sums up the selected samples, makes the tree of functions, and cuts it to
//! what can be seen.
//!
//! Called on the server's thread, under the lock of the samples. Invariant: the size of an answer
//! is bounded, and what is left out is counted.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use profiler_core::ids::PoolId;
use serde::Serialize;

use super::frames::{FrameTable, FunctionKind, FunctionNumber};
use super::graph::{FunctionTotals, FunctionTree, NodeColumns, Shown, Values};
use super::process::SampledProcess;
use super::runs::RunRanges;
use super::selection::{FunctionColumn, Selection};
use super::stack_tree::NodeNumber;
use super::store::Samples;
use super::weights::Weight;
use super::window::PeriodRange;

/// Limits on the listed processes and threads: those with the most time.
const MOST_PROCESSES: usize = 200;
const MOST_THREADS: usize = 200;

/// A range of session time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct TimeRange {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
}

/// A process and its time in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ProcessTime {
    /// Refers to it in the nodes of this answer.
    number: u32,
    key: String,
    pid: u32,
    name: String,
    /// Its place among all processes, which gives it its colour.
    order: u64,
    on_cpu_ns: u64,
    off_cpu_ns: u64,
}

/// A thread of the selected process and its time in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct ThreadTime {
    tid: u64,
    name: String,
    on_cpu_ns: u64,
    off_cpu_ns: u64,
}

/// A function that the answer refers to by its place in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FunctionInfo {
    /// Identifies it in later requests.
    number: u32,
    name: String,
    module: String,
    kind: FunctionKind,
}

/// A row of the table of functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FunctionRow {
    function: usize,
    self_ns: u64,
    total_ns: u64,
    before_self_ns: u64,
    before_total_ns: u64,
}

/// The rows of the table of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct FunctionRows {
    sort: &'static str,
    order: &'static str,
    /// Functions that match the request.
    total: usize,
    rows: Vec<FunctionRow>,
}

/// What is missing in the answer, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Missing {
    /// Entries that were evicted before the first look at their pools.
    evicted_before: u64,
    /// Entries that were evicted between two looks.
    evicted_since: u64,
    /// Processes whose pools could not be read.
    unreadable: u64,
    /// Time for which there was no room.
    left_out_ns: u64,
    /// Frames for which there was no room.
    frames: u64,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize)]
pub(in crate::live) struct FlameAnswer {
    /// The number of the pass over the pools; 0 before the first.
    passes: u64,
    /// Whether older entries are still being read.
    is_behind: bool,
    /// When the pools were read.
    at_ns: i64,
    window: &'static str,
    time: &'static str,
    /// The time that the answer covers.
    range: TimeRange,
    before: Option<TimeRange>,
    /// The time of the selected samples, of the kind that was asked for.
    total_ns: u64,
    before_total_ns: u64,
    on_cpu_ns: u64,
    off_cpu_ns: u64,
    samples: u64,
    /// The time of the stacks in which a function occurs whose name contains the searched text.
    found_ns: u64,
    /// How the samples of a group were found, if not by recorded data.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<RunsInfo>,
    missing: Missing,
    /// Addresses whose names are being looked up.
    unnamed: usize,
    processes: Vec<ProcessTime>,
    process_count: usize,
    threads: Vec<ThreadTime>,
    thread_count: usize,
    functions: Vec<FunctionInfo>,
    /// Places of the functions that call the first node, outermost first.
    path: Vec<usize>,
    /// Whether no stack with the requested path is in the window.
    is_path_empty: bool,
    nodes: NodeColumns,
    table: FunctionRows,
}

/// The runs of a group whose samples were selected by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct RunsInfo {
    count: usize,
    total_ns: u64,
}

/// The list of functions of an answer.
struct FunctionList<'a> {
    frames: &'a FrameTable,
    places: HashMap<FunctionNumber, usize>,
    all: Vec<FunctionInfo>,
}

impl FunctionList<'_> {
    fn place(&mut self, number: FunctionNumber) -> usize {
        let Self {
            frames,
            places,
            all,
        } = self;
        *places.entry(number).or_insert_with(|| {
            let function = frames.shown(number);
            all.push(FunctionInfo {
                number: number.0,
                name: function.map_or("", |known| &known.name).to_owned(),
                module: function
                    .map_or("", |known| frames.module_name(known))
                    .to_owned(),
                kind: function.map_or(FunctionKind::Placeholder, |known| known.kind),
            });
            all.len() - 1
        })
    }
}

/// The samples that a request selects.
struct Selected<'a> {
    selection: &'a Selection,
    now: Option<PeriodRange>,
    before: Option<PeriodRange>,
    runs: Option<&'a RunRanges>,
    tree: FunctionTree,
    weight: Weight,
    processes: Vec<ProcessTime>,
    threads: Vec<ThreadTime>,
}

/// Answers a request. `runs` has the runs of the wanted group, if samples are selected by them.
pub(super) fn answer(
    samples: &Samples,
    selection: &Selection,
    runs: Option<&RunRanges>,
) -> FlameAnswer {
    let at_ns = samples.read_ns;
    let window = selection.window;
    let before = if selection.compares && runs.is_none() {
        window.before(at_ns)
    } else {
        None
    };
    let mut selected = Selected {
        selection,
        now: window.now(at_ns),
        before,
        runs,
        tree: FunctionTree::new(),
        weight: Weight::default(),
        processes: Vec::new(),
        threads: Vec::new(),
    };
    for (number, process) in (0..).zip(samples.processes()) {
        selected.add(number, process, &samples.frames);
    }
    selected.processes.sort_by_key(|process| process.order);
    let range = match (runs, selected.now) {
        (Some(runs), _) => runs.range(at_ns),
        (None, Some(range)) => range.times(at_ns),
        (None, None) => (first_sample(samples).unwrap_or(at_ns), at_ns),
    };
    let of = |(from_ns, to_ns)| TimeRange { from_ns, to_ns };
    let info = |runs: &RunRanges| RunsInfo {
        count: runs.count(),
        total_ns: runs.total_ns(),
    };
    let mut answer = FlameAnswer {
        passes: samples.passes,
        is_behind: samples.is_behind,
        at_ns,
        window: window.name(),
        time: selection.time.name(),
        range: of(range),
        before: before.map(|range| of(range.times(at_ns))),
        total_ns: selected.tree.total().now_ns,
        before_total_ns: selected.tree.total().before_ns,
        on_cpu_ns: selected.weight.on_ns,
        off_cpu_ns: selected.weight.off_ns,
        samples: samples.processes().map(|process| process.samples).sum(),
        found_ns: 0,
        runs: runs.map(info),
        missing: missing(samples),
        unnamed: samples.frames.pending(),
        process_count: selected.processes.len(),
        processes: largest(selected.processes, MOST_PROCESSES, |one| {
            one.on_cpu_ns.saturating_add(one.off_cpu_ns)
        }),
        thread_count: selected.threads.len(),
        threads: largest(selected.threads, MOST_THREADS, |one| {
            one.on_cpu_ns.saturating_add(one.off_cpu_ns)
        }),
        functions: Vec::new(),
        path: Vec::new(),
        is_path_empty: false,
        nodes: NodeColumns::default(),
        table: FunctionRows::default(),
    };
    answer.show(&selected.tree, selection, &samples.frames);
    answer
}

impl Selected<'_> {
    fn add(&mut self, number: u32, process: &SampledProcess, frames: &FrameTable) {
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
        let mut own = vec![Values::default(); process.tree.len()];
        let mut stackless = Values::default();
        let weight = match self.runs {
            Some(runs) => self.add_runs(process, runs, &mut own, &mut stackless),
            None => self.add_cells(process, &mut own, &mut stackless),
        };
        self.weight = self.weight.plus(weight);
        self.tree
            .add_process(number, &process.tree, frames, &own, stackless);
        self.list_process(number, key, process, weight);
    }

    /// The time of a process in the window, or within the runs of the group.
    fn weight_of(&self, process: &SampledProcess) -> Weight {
        let sum = |sum: Weight, weight: Weight| sum.plus(weight);
        match self.runs {
            Some(runs) => {
                let parts = process.recent.iter();
                let parts = parts.map(|sample| runs.part_of(process.identity.key, sample));
                parts.fold(Weight::default(), sum)
            }
            None => {
                let cells = process.weights.within(self.now);
                cells.map(|cell| cell.weight).fold(Weight::default(), sum)
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

    /// Adds the time in the window; returns the time of both kinds.
    fn add_cells(
        &mut self,
        process: &SampledProcess,
        own: &mut [Values],
        stackless: &mut Values,
    ) -> Weight {
        let selection = self.selection;
        let threads = &process.threads;
        let is_wanted: Vec<bool> = threads
            .iter()
            .map(|thread| selection.wants_thread(thread.tid, &thread.name))
            .collect();
        let mut of_threads = vec![Weight::default(); threads.len()];
        for cell in process.weights.within(self.now) {
            let thread = cell.thread.0 as usize;
            if let Some(sum) = of_threads.get_mut(thread) {
                *sum = sum.plus(cell.weight);
            }
            if is_wanted.get(thread) == Some(&true) {
                let now_ns = selection.time.of(cell.weight);
                let values = Values {
                    now_ns,
                    before_ns: 0,
                };
                add_at(cell.node, values, own, stackless);
            }
        }
        if let Some(before) = self.before {
            for cell in process.weights.within(Some(before)) {
                if is_wanted.get(cell.thread.0 as usize) == Some(&true) {
                    let before_ns = selection.time.of(cell.weight);
                    let values = Values {
                        now_ns: 0,
                        before_ns,
                    };
                    add_at(cell.node, values, own, stackless);
                }
            }
        }
        if selection.process.is_some() {
            self.list_threads(process, &of_threads);
        }
        let wanted = of_threads
            .iter()
            .zip(&is_wanted)
            .filter(|(_, wanted)| **wanted);
        wanted.fold(Weight::default(), |sum, (weight, _)| sum.plus(*weight))
    }

    fn list_threads(&mut self, process: &SampledProcess, of_threads: &[Weight]) {
        for (thread, weight) in process.threads.iter().zip(of_threads) {
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

    /// Adds the time of the samples within the runs of a group; returns the time of both kinds.
    fn add_runs(
        &self,
        process: &SampledProcess,
        runs: &RunRanges,
        own: &mut [Values],
        stackless: &mut Values,
    ) -> Weight {
        let mut sum = Weight::default();
        for sample in &process.recent {
            let weight = runs.part_of(process.identity.key, sample);
            sum = sum.plus(weight);
            let now_ns = self.selection.time.of(weight);
            let values = Values {
                now_ns,
                before_ns: 0,
            };
            add_at(sample.node, values, own, stackless);
        }
        sum
    }
}

fn add_at(node: NodeNumber, values: Values, own: &mut [Values], stackless: &mut Values) {
    match own.get_mut(node.0 as usize) {
        Some(own) => own.add(values),
        None => stackless.add(values),
    }
}

/// The key of a process in requests and answers.
pub(super) fn key_text(key: PoolId) -> String {
    format!("{:032x}", key.get())
}

fn first_sample(samples: &Samples) -> Option<i64> {
    samples
        .processes()
        .filter_map(|process| process.first_ns)
        .min()
}

fn missing(samples: &Samples) -> Missing {
    let mut missing = Missing {
        left_out_ns: samples
            .forgotten
            .on_ns
            .saturating_add(samples.forgotten.off_ns),
        frames: samples.frames.lost(),
        ..Missing::default()
    };
    for process in samples.processes() {
        let left_out = process.weights.left_out();
        let progress = &process.progress;
        missing.evicted_before = missing
            .evicted_before
            .saturating_add(progress.evicted_before);
        missing.evicted_since = missing.evicted_since.saturating_add(progress.missed);
        missing.unreadable += u64::from(process.is_unreadable);
        let left_out_ns = left_out.on_ns.saturating_add(left_out.off_ns);
        missing.left_out_ns = missing.left_out_ns.saturating_add(left_out_ns);
        missing.frames = missing.frames.saturating_add(process.tree.lost());
    }
    missing
}

/// The rows with the largest values, in their previous order.
fn largest<T>(mut rows: Vec<T>, most: usize, value: impl Fn(&T) -> u64) -> Vec<T> {
    if rows.len() <= most {
        return rows;
    }
    let mut values: Vec<u64> = rows.iter().map(&value).collect();
    let (_, least, _) = values.select_nth_unstable_by(most - 1, |one, other| other.cmp(one));
    let least = *least;
    rows.retain(|row| value(row) >= least);
    rows.truncate(most);
    rows
}

impl FlameAnswer {
    /// Adds the nodes and the rows of functions.
    fn show(&mut self, upright: &FunctionTree, selection: &Selection, frames: &FrameTable) {
        let mut list = FunctionList {
            frames,
            places: HashMap::new(),
            all: Vec::new(),
        };
        let is_found = found(selection, frames);
        if selection.nodes > 0 {
            let inverted = selection.is_inverted.then(|| upright.inverted());
            let tree = inverted.as_ref().unwrap_or(upright);
            self.show_nodes(tree, selection, &is_found, &mut list);
        }
        if selection.rows > 0 {
            // The path of an inverted tree is none of the upright tree.
            let path: &[FunctionNumber] = if selection.is_inverted {
                &[]
            } else {
                selection.path.as_slice()
            };
            let start = upright.find(path).unwrap_or(0);
            let rows = upright.functions(start, frames.function_count());
            self.table = table(rows, selection, &is_found, &mut list);
        }
        self.functions = list.all;
    }

    fn show_nodes(
        &mut self,
        tree: &FunctionTree,
        selection: &Selection,
        is_found: &[bool],
        list: &mut FunctionList<'_>,
    ) {
        let start = tree.find(&selection.path);
        self.is_path_empty = start.is_none();
        let callers = selection
            .path
            .split_last()
            .map_or(&[][..], |(_, callers)| callers);
        self.path = callers.iter().map(|caller| list.place(*caller)).collect();
        let Some(start) = start else {
            return;
        };
        let least_ns = tree.least_for(start, selection.nodes);
        let ranks = ranks(tree.functions_with(least_ns), list.frames);
        let rank = |function| ranks.get(&function).copied().unwrap_or(0);
        let shown = Shown {
            start,
            least_ns,
            is_found,
        };
        let (nodes, found) = tree.columns(shown, rank, |function| list.place(function));
        (self.nodes, self.found_ns) = (nodes, found.now_ns);
    }
}

/// By function number: whether its name contains the searched text.
fn found(selection: &Selection, frames: &FrameTable) -> Vec<bool> {
    if selection.find.is_empty() {
        return Vec::new();
    }
    let contains = |function: &super::frames::Function| {
        let is_in_name = function.name.to_lowercase().contains(&selection.find);
        is_in_name
            || frames
                .module_name(function)
                .to_lowercase()
                .contains(&selection.find)
    };
    frames.functions().map(contains).collect()
}

/// The places of functions in the order of their names: the nodes of a graph that changes every
/// second keep their order.
fn ranks(
    functions: impl Iterator<Item = FunctionNumber>,
    frames: &FrameTable,
) -> HashMap<FunctionNumber, u32> {
    let used: BTreeSet<FunctionNumber> = functions.collect();
    let named = used
        .into_iter()
        .map(|number| (frames.shown(number).map(|known| &*known.name), number));
    let sorted: BTreeSet<_> = named.collect();
    let numbers = sorted.into_iter().map(|(_, number)| number);
    numbers.zip(0..).collect()
}

fn table(
    mut rows: Vec<FunctionTotals>,
    selection: &Selection,
    is_found: &[bool],
    list: &mut FunctionList<'_>,
) -> FunctionRows {
    if !selection.find.is_empty() {
        rows.retain(|row| is_found.get(row.function.0 as usize) == Some(&true));
    }
    let total = rows.len();
    let frames = list.frames;
    let name = |row: &FunctionTotals| frames.shown(row.function).map(|known| &*known.name);
    match selection.sort {
        FunctionColumn::OwnTime => {
            rows.sort_by_key(|row| Reverse((row.own.now_ns, row.total.now_ns)))
        }
        FunctionColumn::Total => {
            rows.sort_by_key(|row| Reverse((row.total.now_ns, row.own.now_ns)))
        }
        FunctionColumn::Change => rows.sort_by_key(|row| Reverse(change_ns(row))),
        FunctionColumn::Name => rows.sort_by(|one, other| name(other).cmp(&name(one))),
    }
    if selection.is_ascending {
        rows.reverse();
    }
    rows.truncate(selection.rows);
    let row = |row: FunctionTotals| FunctionRow {
        function: list.place(row.function),
        self_ns: row.own.now_ns,
        total_ns: row.total.now_ns,
        before_self_ns: row.own.before_ns,
        before_total_ns: row.total.before_ns,
    };
    FunctionRows {
        sort: selection.sort.name(),
        order: if selection.is_ascending {
            "asc"
        } else {
            "desc"
        },
        total,
        rows: rows.into_iter().map(row).collect(),
    }
}

/// How much more own time a function has than in the window before. Both windows have about the
/// same length.
fn change_ns(row: &FunctionTotals) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    signed(row.own.now_ns).saturating_sub(signed(row.own.before_ns))
}

#[cfg(test)]
mod tests;
