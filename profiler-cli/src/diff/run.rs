//! One run: a profile, reduced to the numbers that are compared.
//!
//! Created by [`super::run()`], read by [`mod@super::compare`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{AddAssign, Mul};
use std::path::{Path, PathBuf};

use profiler_export::call_tree::CallTree;
use profiler_files::WorkListener;
use profiler_reader::{
    CounterLevels, Meta, PartId, ProfileReader, ReadError, Survey, Thread, ThreadSink, Wanted,
};

use super::markers::{MarkersByName, OpenSpans};
use super::numbered::without_number;
use crate::process_row::Row;
use crate::profile::Time;
use crate::profile::blocks::Blocks;
use crate::profile::cost::{Cost, Costs};
use crate::profile::counts::{self, Head};
use crate::profile::functions::{Collection, Functions};

/// The category of counters whose values are bytes of memory.
const MEMORY: &str = "Memory";

/// How a profile is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunParams {
    /// The number of blocks into which the samples are divided.
    pub(super) blocks: usize,
    /// Whether addresses without a name are named from this machine's files.
    pub(super) names: bool,
    /// Whether processes whose names differ only in a number at the end are taken together.
    pub(super) merge_numbered: bool,
    /// Whether the call trees are kept.
    pub(super) with_trees: bool,
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    pub(super) cpu: f64,
    pub(super) wall: f64,
}

impl Times {
    pub(super) const fn of(self, time: Time) -> f64 {
        match time {
            Time::Cpu => self.cpu,
            Time::Wall => self.wall,
        }
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.wall += other.wall;
    }
}

impl Mul<f64> for Times {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            cpu: self.cpu * factor,
            wall: self.wall * factor,
        }
    }
}

/// The time of a function itself, and with all functions that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FunctionTimes {
    pub(super) own: Times,
    pub(super) total: Times,
}

/// All processes of a run that have the same name.
#[derive(Debug, Default)]
pub(super) struct ProcessRun {
    /// The number of these processes.
    pub(super) processes: usize,
    /// The time of all threads, by block.
    pub(super) all: Vec<Times>,
    /// The times of functions by block.
    pub(super) functions: HashMap<String, Vec<FunctionTimes>>,
    pub(super) markers: MarkersByName,
    /// The highest values of memory counters in bytes: the sums over the processes.
    pub(super) memory: BTreeMap<String, f64>,
    /// All recorded entries.
    pub(super) recorded: u64,
    /// The recorded entries that are lost.
    pub(super) lost: u64,
    /// Empty unless call trees are kept.
    pub(super) tree: RunTree,
}

/// The call tree of the processes with one name.
#[derive(Debug, Default)]
pub(super) struct RunTree {
    pub(super) calls: CallTree<usize, Times>,
    /// The names of the functions, by number.
    pub(super) functions: Vec<String>,
}

/// A profile, reduced to the numbers that are compared.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) file: PathBuf,
    /// Whether the samples have processor times.
    pub(super) has_cpu: bool,
    /// By name.
    pub(super) processes: BTreeMap<String, ProcessRun>,
}

impl Run {
    /// Reads a profile, and divides its samples into blocks.
    pub(super) fn read(
        file: &Path,
        params: RunParams,
        listener: WorkListener,
    ) -> Result<Self, ReadError> {
        let wanted = Wanted {
            names: params.names,
            logs: true,
            counters: true,
        };
        let reader = ProfileReader::open_with(file, wanted, listener)?;
        let mut collected = Collected {
            collection: Collection {
                blocks: blocks(&reader.survey().meta, params.blocks),
                by_library: false,
                with_tree: params.with_trees,
            },
            merge_numbered: params.merge_numbered,
            heads: Vec::new(),
            processes: BTreeMap::new(),
        };
        reader.threads(&mut collected)?;
        Ok(collected.into_run(file, reader.into_survey()))
    }
}

/// The blocks: each has several slices of time, and each slice has several samples of a busy
/// thread.
fn blocks(meta: &Meta, count: usize) -> Blocks {
    let span = meta.profiling_start_time.zip(meta.profiling_end_time);
    let span = span.map_or(0.0, |(start, end)| end - start);
    let slice = span / (count * ROUNDS) as f64;
    let least = meta.interval.unwrap_or(1.0) * ROUNDS as f64;
    Blocks {
        count,
        slice_ms: [slice, least, 1.0].into_iter().fold(1.0, f64::max),
    }
}

/// The number of slices of a block, and of samples in a slice.
const ROUNDS: usize = 4;

/// The data collected from the threads.
#[derive(Debug)]
struct Collected {
    collection: Collection,
    merge_numbered: bool,
    heads: Vec<Head>,
    /// By name.
    processes: BTreeMap<String, ProcessesOfName>,
}

/// The data collected from the threads of processes with the same name.
#[derive(Debug)]
struct ProcessesOfName {
    ids: BTreeSet<(PartId, String)>,
    functions: Functions,
    markers: MarkersByName,
    /// By process.
    spans: BTreeMap<(PartId, String), OpenSpans>,
}

impl ThreadSink for Collected {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ReadError> {
        self.heads.push(Head::of(thread, &survey.meta));
        let name = self.shown(thread.process);
        let process = self
            .processes
            .entry(name)
            .or_insert_with(|| ProcessesOfName {
                ids: BTreeSet::new(),
                functions: Functions::new(self.collection),
                markers: MarkersByName::default(),
                spans: BTreeMap::new(),
            });
        let id = (thread.part, thread.raw.pid.clone());
        process.ids.insert(id.clone());
        process.functions.add(thread, survey);
        let spans = process.spans.entry(id).or_default();
        process.markers.add(thread, spans);
        Ok(())
    }
}

impl Collected {
    /// The name by which a process is compared.
    fn shown(&self, name: &str) -> String {
        match self.merge_numbered {
            true => without_number(name),
            false => name.to_owned(),
        }
    }

    fn into_run(mut self, file: &Path, mut survey: Survey) -> Run {
        let mut processes: BTreeMap<String, ProcessRun> = BTreeMap::new();
        let mut names = ProcessNames::default();
        let heads = std::mem::take(&mut self.heads);
        for (name, mut process) in std::mem::take(&mut self.processes) {
            names.add(&name, &process.ids);
            process.functions.finish(&survey.tables);
            processes.insert(name, process.into_run());
        }
        for counter in &survey.counters {
            let name = names.find(counter).filter(|_| counter.category == MEMORY);
            if let Some(process) = name.and_then(|name| processes.get_mut(name)) {
                *process.memory.entry(counter.name.clone()).or_default() += counter.highest;
            }
        }
        // A profile of another profiler has no entry counts.
        let rows = counts::rows(&mut survey, heads).into_iter();
        for row in rows.filter(|row| row.recorded > 0) {
            // A process without threads in the profile has lost all of its entries.
            let name = names.of_row(&row).cloned();
            let name = name.unwrap_or_else(|| self.shown(&row.name));
            let process = processes.entry(name).or_default();
            process.recorded = process.recorded.saturating_add(row.recorded);
            let lost = row
                .recorded
                .saturating_sub(row.delivered)
                .saturating_sub(row.outside);
            process.lost = process.lost.saturating_add(lost);
        }
        let cpu_ms = |process: &ProcessRun| process.all.iter().map(|times| times.cpu).sum::<f64>();
        Run {
            file: file.to_owned(),
            has_cpu: processes.values().any(|process| cpu_ms(process) > 0.0),
            processes,
        }
    }
}

impl ProcessesOfName {
    fn into_run(mut self) -> ProcessRun {
        let tree = self.tree();
        for spans in std::mem::take(&mut self.spans).into_values() {
            self.markers.add_ends(spans);
        }
        let all = self.functions.all().iter();
        let all = all.map(|cost| Times::from(*cost)).collect();
        let functions = self.functions.into_costs().map(|(function, costs)| {
            let times = costs.into_iter().map(FunctionTimes::from);
            (function.name, times.collect())
        });
        ProcessRun {
            processes: self.ids.len(),
            all,
            functions: functions.collect(),
            markers: self.markers,
            tree,
            ..ProcessRun::default()
        }
    }

    fn tree(&mut self) -> RunTree {
        let (tree, functions) = self.functions.take_tree();
        let mut calls = CallTree::default();
        calls.merge(&tree, |function| function, Times::from);
        RunTree { calls, functions }
    }
}

impl From<Cost> for Times {
    fn from(cost: Cost) -> Self {
        Self {
            cpu: cost.cpu_ms,
            wall: cost.wall_ms,
        }
    }
}

impl From<Costs> for FunctionTimes {
    fn from(costs: Costs) -> Self {
        Self {
            own: costs.own.into(),
            total: costs.total.into(),
        }
    }
}

/// Which process a counter belongs to.
#[derive(Debug, Default)]
struct ProcessNames {
    by_pid: HashMap<String, String>,
    by_part: HashMap<PartId, String>,
}

impl ProcessNames {
    fn add(&mut self, name: &str, ids: &BTreeSet<(PartId, String)>) {
        for (part, pid) in ids {
            self.by_part.insert(*part, name.to_owned());
            self.by_pid.insert(pid.clone(), name.to_owned());
        }
    }

    /// In the Gecko format, the object of a process contains its counters.
    fn find(&self, counter: &CounterLevels) -> Option<&String> {
        match &counter.pid {
            Some(pid) => self.by_pid.get(pid),
            None => self.by_part.get(&counter.part),
        }
    }

    /// In a merged profile, the host is a part of the id of a process.
    fn of_row(&self, row: &Row) -> Option<&String> {
        let pid = row.pid;
        let id = match &row.host {
            Some(host) => format!("{host}:{pid}"),
            None => pid.to_string(),
        };
        self.by_pid.get(&id)
    }
}
