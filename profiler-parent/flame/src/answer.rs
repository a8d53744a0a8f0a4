//! Answers a request: sums up the selected samples, makes the tree of functions, and selects the
//! nodes that are large enough to be seen.
//!
//! Called on a worker of the server, under the lock of the samples. [`selected`] sums up the
//! samples, [`listed`] lists processes and threads, [`functions`] lists functions, [`table`] sorts
//! them, and [`missing`] counts what the answer lacks. [`wait_graph`] answers who waits for whom.
//! Invariants: the size of an answer is bounded, and what is left out is counted; the same samples
//! give the same answer; if the reader has stopped, the answer says so and has no numbers.

mod functions;
mod listed;
mod missing;
mod selected;
mod table;
mod wait_graph;

use serde::Serialize;

use crate::frames::{FrameTable, FunctionNumber};
use crate::graph::{FunctionTree, NodeColumns, Shown};
use crate::process::SampledProcess;
use crate::runs::RunRanges;
use crate::selection::Selection;
use crate::store::{Samples, StoppedThreads};
use functions::{FunctionInfo, FunctionList, found, ranks};
use listed::{MAX_PROCESSES, MAX_THREADS, ProcessTime, ThreadTime, largest};
use missing::Missing;
use selected::Selected;
use table::FunctionRows;
pub use wait_graph::WaitGraph;
pub(crate) use wait_graph::wait_graph;

/// A range of session time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct TimeRange {
    from_ns: i64,
    to_ns: i64,
}

impl From<(i64, i64)> for TimeRange {
    fn from((from_ns, to_ns): (i64, i64)) -> Self {
        Self { from_ns, to_ns }
    }
}

/// The runs of a group whose samples were selected by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct RunsInfo {
    count: usize,
    total_ns: u64,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize)]
pub struct FlameAnswer {
    /// The number of the pass over the pools; 0 before the first.
    passes: u64,
    /// Whether entries that were recorded before the first read are still being read.
    is_behind: bool,
    /// Whether all samples of the time that the answer covers were read. While entries are still
    /// being read, the time of waits that began earlier may be missing.
    is_window_read: bool,
    /// Which threads of the flame graph have stopped, and why. If the reader has stopped, the
    /// answer has no numbers, because they would be out of date.
    trouble: Vec<String>,
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

/// Answers a request. `runs` has the runs of the wanted group, if samples are selected by them.
pub(crate) fn answer(
    samples: &Samples,
    selection: &Selection,
    runs: Option<&RunRanges>,
) -> FlameAnswer {
    let at_ns = samples.read_ns;
    let window = selection.window;
    let now = window.now(at_ns);
    let before = window.before(at_ns);
    let before = before.filter(|_| selection.compares && runs.is_none());
    let mut selected = Selected::new(selection, runs, now, before);
    for (number, process) in (0..).zip(shown_processes(samples)) {
        selected.add(number, process, &samples.frames);
    }
    let range = match (runs, now) {
        (Some(runs), _) => runs.range(at_ns),
        (None, Some(range)) => range.times(at_ns),
        (None, None) => (first_sample(samples).unwrap_or(at_ns), at_ns),
    };
    let first = before.or(now).map(|periods| periods.times(at_ns).0);
    let first_ns = if runs.is_some() { Some(range.0) } else { first };
    let info = |runs: &RunRanges| RunsInfo {
        count: runs.count(),
        total_ns: runs.total_ns(),
    };
    let mut answer = FlameAnswer {
        passes: samples.passes,
        is_behind: samples.is_behind,
        is_window_read: is_read(samples, first_ns),
        trouble: trouble(&samples.stopped),
        at_ns,
        window: window.name(),
        time: selection.time.name(),
        range: range.into(),
        before: before.map(|range| range.times(at_ns).into()),
        total_ns: selected.tree.total().now_ns,
        before_total_ns: selected.tree.total().before_ns,
        on_cpu_ns: selected.weight.on_ns,
        off_cpu_ns: selected.weight.off_ns,
        samples: samples.processes().map(|process| process.samples).sum(),
        found_ns: 0,
        runs: runs.map(info),
        missing: Missing::of(samples, runs.is_some()),
        unnamed: samples.frames.pending(),
        process_count: selected.processes.len(),
        processes: largest(selected.processes, MAX_PROCESSES, ProcessTime::total_ns),
        thread_count: selected.threads.len(),
        threads: largest(selected.threads, MAX_THREADS, ThreadTime::total_ns),
        functions: Vec::new(),
        path: Vec::new(),
        is_path_empty: false,
        nodes: NodeColumns::default(),
        table: FunctionRows::default(),
    };
    answer.show(&selected.tree, selection, &samples.frames);
    answer
}

/// The processes whose numbers are shown, in the order in which they started.
fn shown_processes(samples: &Samples) -> Vec<&SampledProcess> {
    let is_current = samples.stopped.reader.is_none();
    let mut shown: Vec<_> = samples.processes().filter(|_| is_current).collect();
    shown.sort_by_key(|process| (process.identity.order, process.identity.key));
    shown
}

/// Whether all samples since this point in session time were read; `None` stands for all time.
fn is_read(samples: &Samples, since_ns: Option<i64>) -> bool {
    let whole_since_ns = samples.whole_since_ns();
    let is_since = since_ns.zip(whole_since_ns);
    !samples.is_behind || is_since.is_some_and(|(since, whole)| whole <= since)
}

fn trouble(stopped: &StoppedThreads) -> Vec<String> {
    let StoppedThreads { reader, names } = stopped;
    [reader, names].into_iter().flatten().cloned().collect()
}

fn first_sample(samples: &Samples) -> Option<i64> {
    samples
        .processes()
        .filter_map(|process| process.first_ns)
        .min()
}

impl FlameAnswer {
    /// Adds the nodes and the rows of functions.
    fn show(&mut self, upright: &FunctionTree, selection: &Selection, frames: &FrameTable) {
        let path = frames.resolve(&selection.path, selection.is_inverted);
        let path = path.as_deref();
        let is_found = found(&selection.find, frames);
        let mut list = FunctionList::new(frames);
        if selection.nodes > 0 {
            let inverted = selection.is_inverted.then(|| upright.inverted());
            let tree = inverted.as_ref().unwrap_or(upright);
            self.show_nodes(tree, path, selection.nodes, &is_found, &mut list);
        }
        if selection.rows > 0 {
            // The path of an inverted tree is not a path of the upright tree.
            let path = path.filter(|_| !selection.is_inverted);
            let start = upright.find(path.unwrap_or_default()).unwrap_or(0);
            let rows = upright.functions(start, frames.function_count());
            self.table = FunctionRows::of(rows, selection, &is_found, &mut list);
        }
        self.functions = list.into_all();
    }

    /// Adds at most `most` nodes, from the end of the path on. `path` is `None` if one of its
    /// functions has not occurred.
    fn show_nodes(
        &mut self,
        tree: &FunctionTree,
        path: Option<&[FunctionNumber]>,
        most: usize,
        is_found: &[bool],
        list: &mut FunctionList<'_>,
    ) {
        let callers = path.and_then(|path| path.split_last());
        let callers = callers.map_or(&[][..], |(_, callers)| callers);
        self.path = callers.iter().map(|caller| list.place(*caller)).collect();
        let start = path.and_then(|path| tree.find(path));
        self.is_path_empty = start.is_none();
        let Some(start) = start else {
            return;
        };
        let least = tree.least_for(start, most);
        let ranks = ranks(tree.functions_with(least), list.frames());
        let rank = |function| ranks.get(&function).copied().unwrap_or(0);
        let shown = Shown {
            start,
            least,
            is_found,
        };
        let (nodes, found) = tree.columns(shown, rank, |function| list.place(function));
        (self.nodes, self.found_ns) = (nodes, found.now_ns);
    }
}

#[cfg(test)]
mod tests;
