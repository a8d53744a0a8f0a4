//! Answers a request for the graph of waits: for whom the threads of each process waited, and for
//! how long.
//!
//! Called on a worker of the server, under the lock of the samples. The innermost frame of a thread
//! that waits for another process or thread is a label ([`WaitLabel`]), so the graph needs only the
//! times of the stacks. Invariants: the size of an answer is bounded; waits that another process
//! cannot end are in no row; if the reader has stopped, the answer says so and has no rows.

use std::collections::BTreeMap;

use profiler_json::{Awaited, WaitLabel};
use serde::Serialize;

use super::selected::key_text;
use super::{first_sample, is_read, shown_processes, trouble};
use crate::frames::{FrameTable, FunctionKind};
use crate::hash::FastMap;
use crate::process::SampledProcess;
use crate::stack_tree::FrameNumber;
use crate::store::Samples;
use crate::window::Window;

/// The maximum number of rows of an answer.
const MAX_ROWS: usize = 500;

/// The waits of the threads of one process for one other process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WaitKey {
    /// The place of the waiting process in the order of the answer.
    process: usize,
    label: WaitLabel,
}

/// A row of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct WaitRow {
    /// The key of the program that waited: a process may execute several.
    key: String,
    /// The waiting process.
    pid: u32,
    name: String,
    /// For whom it waited.
    whom: String,
    /// The processes among them, by the system's numbers; empty if they are not known.
    whom_pids: Vec<u32>,
    /// The kind of the waits, such as `pipe`.
    kind: String,
    /// The time of all its threads together, in nanoseconds.
    wait_ns: u64,
}

/// Who waited for whom: the answer to `waits.json`.
#[derive(Clone, Debug, Serialize)]
pub struct WaitGraph {
    /// The number of the pass over the pools; 0 before the first.
    passes: u64,
    /// Whether all samples of the time that the answer covers were read.
    is_window_read: bool,
    trouble: Vec<String>,
    window: &'static str,
    /// The time that the answer covers, in session time.
    from_ns: i64,
    to_ns: i64,
    /// The number of rows, including those that the answer leaves out.
    total: usize,
    /// The rows with the most time, the longest first.
    rows: Vec<WaitRow>,
}

/// Answers a request.
pub(crate) fn wait_graph(samples: &Samples, window: Window) -> WaitGraph {
    let at_ns = samples.read_ns;
    let now = window.now(at_ns);
    let (from_ns, to_ns) = match now {
        Some(range) => range.times(at_ns),
        None => (first_sample(samples).unwrap_or(at_ns), at_ns),
    };
    let processes = shown_processes(samples);
    let mut sums: BTreeMap<WaitKey, u64> = BTreeMap::new();
    let mut labels = WaitLabels::default();
    for (place, process) in processes.iter().enumerate() {
        let frames: Vec<FrameNumber> = process.tree.iter().map(|(_, frame)| frame).collect();
        for cell in process.weights.within(now) {
            let frame = frames.get(cell.node.0 as usize);
            let label = frame.and_then(|frame| labels.of(*frame, &samples.frames));
            if let Some(label) = label.filter(|_| cell.weight.off_ns > 0) {
                let key = WaitKey {
                    process: place,
                    label,
                };
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(cell.weight.off_ns);
            }
        }
    }
    let total = sums.len();
    let mut all: Vec<(WaitKey, u64)> = sums.into_iter().collect();
    all.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    all.truncate(MAX_ROWS);
    let rows = all.into_iter();
    let rows =
        rows.filter_map(|(key, wait_ns)| row(processes.get(key.process)?, key.label, wait_ns));
    WaitGraph {
        passes: samples.passes,
        is_window_read: is_read(samples, now.map(|_| from_ns)),
        trouble: trouble(&samples.stopped),
        window: window.name(),
        from_ns,
        to_ns,
        total,
        rows: rows.collect(),
    }
}

fn row(process: &SampledProcess, label: WaitLabel, wait_ns: u64) -> Option<WaitRow> {
    let whom_pids = match &label.whom {
        Awaited::Processes(all) => all.iter().map(|one| one.number).collect(),
        _ => Vec::new(),
    };
    Some(WaitRow {
        key: key_text(process.identity.key),
        pid: process.identity.pid.get(),
        name: process.identity.name.clone(),
        whom: label.whom.to_string(),
        whom_pids,
        kind: label.kind,
        wait_ns,
    })
}

/// The labels of frames, each of which is read once.
#[derive(Debug, Default)]
struct WaitLabels(FastMap<u32, Option<WaitLabel>>);

impl WaitLabels {
    /// The label of a frame; `None` for other frames.
    fn of(&mut self, frame: FrameNumber, frames: &FrameTable) -> Option<WaitLabel> {
        let read = || {
            let function = frames.shown(*frames.functions_of(frame).last()?)?;
            let is_label = function.kind == FunctionKind::Label;
            WaitLabel::of(&function.name).filter(|_| is_label)
        };
        self.0.entry(frame.0).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::PoolId;
    use serde_json::{Value, json};

    use super::*;
    use crate::process::test_process::{TestProcess, sample};
    use crate::sample_bytes::TestSample;

    const SECOND: i64 = 1_000_000_000;
    const S: u64 = 1_000_000_000;

    /// Two threads that wait at the same pipe from the fifth and the eighth second on, one that
    /// sleeps, and one that runs in a function with the name of a wait; until the tenth second.
    fn waiting() -> TestProcess {
        let mut process = TestProcess::new(PoolId::new(5));
        process.now_ns = 10 * SECOND;
        let waits = |thread, stack: &[u64]| TestSample {
            waits: true,
            ..sample(thread, stack, 0)
        };
        process.take(5 * S, waits(7, &[1, 2]));
        process.take(8 * S, waits(8, &[3, 2]));
        process.take(6 * S, waits(9, &[4]));
        process.take(10 * S, sample(10, &[2], S));
        process.count_waits(10 * SECOND);
        process.show_as_label(2, "waiting for worker [12] or b [13] (pipe)");
        process
    }

    fn graph(process: TestProcess, window: Window) -> Value {
        serde_json::to_value(wait_graph(&process.into_samples(), window)).unwrap()
    }

    #[test]
    fn the_waits_of_all_threads_for_the_same_processes_are_one_row() {
        let graph = graph(waiting(), Window::TenSeconds);
        let row = json!({
            "key": format!("{:032x}", 5), "pid": 1, "name": "p", "whom": "worker [12] or b [13]", "whom_pids": [12, 13],
            "kind": "pipe", "wait_ns": 7 * S,
        });
        assert_eq!(
            (&graph["total"], &graph["rows"]),
            (&json!(1), &json!([row]))
        );
        assert_eq!(graph["window"], "10s");
    }

    #[test]
    fn a_function_with_the_name_of_a_wait_is_no_wait_and_neither_is_a_sleep() {
        let mut process = waiting();
        process.show_as_label(4, "sleeping");
        process.show_as_label(2, "waiting for godot");
        let graph = graph(process, Window::Start);
        assert_eq!(graph["rows"], json!([]));
    }

    #[test]
    fn a_stopped_reader_gives_no_rows() {
        let mut samples = waiting().into_samples();
        samples.stopped.reader = Some("the reader has stopped".to_owned());
        let graph = wait_graph(&samples, Window::Start);
        assert_eq!((graph.total, graph.trouble.len()), (0, 1));
    }
}
