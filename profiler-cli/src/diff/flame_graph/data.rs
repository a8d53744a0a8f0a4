//! The data of the page, as JSON: the object that `page/page.js` reads.
//!
//! Created and written by [`super::write`]. Numbers are rounded to microseconds, and to hundredths
//! of percentage points, so the file is small.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::super::changes::{
    Comparison, FunctionChange, ProcessChange, ShareChange, ShareChanges, Sides,
};
use super::super::run::{Run, Times};
use super::tree::{DiffTree, FunctionNames, leave_out_small, shown};
use crate::profile::Time;

/// The largest number of changed functions of a process.
const MAX_CHANGES: usize = 500;

/// All data of the page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageData<'c> {
    files: Sides<&'c [String]>,
    /// The time that is shown first: `cpu` or `wall`.
    by: &'static str,
    has_cpu: bool,
    /// The meaning of the marks.
    marks: String,
    left_out: LeftOut,
    /// The names of functions.
    names: Vec<String>,
    processes: Vec<PageProcess>,
}

/// The number of nodes that are not shown.
#[derive(Clone, Copy, Debug, Serialize)]
struct LeftOut {
    nodes: usize,
    of: usize,
}

/// The processes with one name: a column for each property of the nodes of their call tree.
#[derive(Debug, Serialize)]
struct PageProcess {
    name: String,
    all: ByTime<[Rounded; 2]>,
    /// The number of the calling node; -1 for the outermost.
    callers: Vec<i64>,
    /// The number of the function's name.
    functions: Vec<usize>,
    /// Milliseconds before, and after.
    own: ByTime<[Vec<Rounded>; 2]>,
    changes: Vec<PageChange>,
}

/// A value for each kind of time.
#[derive(Clone, Debug, Serialize)]
struct ByTime<T> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<T>,
    wall: T,
}

/// The changed shares of a function, over all of its nodes.
#[derive(Debug, Serialize)]
struct PageChange {
    function: usize,
    #[serde(flatten)]
    shares: ByTime<PageShares>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PageShares {
    #[serde(rename = "self")]
    own: PageShare,
    total: PageShare,
}

/// A share in percent.
#[derive(Clone, Copy, Debug, Serialize)]
struct PageShare {
    before: Rounded,
    after: Rounded,
    /// Whether the change is more than noise.
    mark: bool,
}

/// A number with at most three decimals. JSON has no infinite numbers: they are 0.
#[derive(Clone, Copy, Debug)]
struct Rounded(f64);

impl Serialize for Rounded {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let rounded = (self.0 * 1e3).round() / 1e3;
        let rounded = if rounded.is_finite() { rounded } else { 0.0 };
        if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
            return to.serialize_i64(rounded as i64);
        }
        to.serialize_f64(rounded)
    }
}

impl<'c> PageData<'c> {
    /// The data of a comparison of these runs. Processes without samples are left out.
    pub(super) fn of(comparison: &'c Comparison, runs: Sides<&[Run]>) -> Self {
        let mut names = FunctionNames::new();
        let with_samples =
            |process: &&ProcessChange| process.wall_ms.before > 0.0 || process.wall_ms.after > 0.0;
        let processes: Vec<&ProcessChange> =
            comparison.processes.iter().filter(with_samples).collect();
        let mut trees: Vec<DiffTree> = processes
            .iter()
            .map(|process| DiffTree::of(&process.name, runs, &mut names))
            .collect();
        let of = trees.iter().map(|tree| tree.calls.count()).sum();
        let nodes = leave_out_small(&mut trees);
        let has_cpu = processes.iter().any(|process| process.cpu_ms.is_some());
        let processes = processes.iter().zip(&trees);
        let processes = processes
            .map(|(process, tree)| PageProcess::of(process, tree, has_cpu, &mut names))
            .collect();
        let mut data = Self {
            files: Sides {
                before: &comparison.files.before,
                after: &comparison.files.after,
            },
            by: match comparison.by {
                Time::Cpu => "cpu",
                Time::Wall => "wall",
            },
            has_cpu,
            marks: marks(comparison.noise),
            left_out: LeftOut { nodes, of },
            names: names.all,
            processes,
        };
        data.drop_unused_names();
        data
    }

    /// Drops the names of functions that are not shown.
    fn drop_unused_names(&mut self) {
        let mut used: BTreeMap<usize, usize> = BTreeMap::from([(0, 0)]);
        let processes = &mut self.processes;
        for process in &*processes {
            let changes = process.changes.iter().map(|change| change.function);
            used.extend(
                process
                    .functions
                    .iter()
                    .copied()
                    .chain(changes)
                    .map(|name| (name, 0)),
            );
        }
        for (new, number) in used.values_mut().enumerate() {
            *number = new;
        }
        for process in processes {
            let changes = process
                .changes
                .iter_mut()
                .map(|change| &mut change.function);
            for number in process.functions.iter_mut().chain(changes) {
                *number = used.get(number).copied().unwrap_or(0);
            }
        }
        let names = std::mem::take(&mut self.names).into_iter().enumerate();
        let names = names.filter(|(number, _)| used.contains_key(number));
        self.names = names.map(|(_, name)| name).collect();
    }
}

fn marks(noise: &str) -> String {
    let source = match noise {
        "runs" => "the differences between the runs of each side",
        _ => "the differences between slices of time of each run, not by those between runs",
    };
    format!(
        "* more than noise: at most 1 % of the marked functions are expected to be noise, judged by {source}."
    )
}

impl PageProcess {
    fn of(
        process: &ProcessChange,
        tree: &DiffTree,
        has_cpu: bool,
        names: &mut FunctionNames,
    ) -> Self {
        let nodes = || tree.calls.nodes().map(|(_, node)| node);
        let columns = |time: Time| {
            let own = nodes().map(|node| amounts(node.own, time));
            let (before, after) = own.map(|[before, after]| (before, after)).unzip();
            [before, after]
        };
        let changes = process.functions.iter().take(MAX_CHANGES);
        Self {
            name: shown(&process.name),
            all: ByTime {
                cpu: has_cpu.then(|| amounts(tree.all, Time::Cpu)),
                wall: amounts(tree.all, Time::Wall),
            },
            callers: nodes()
                .map(|node| {
                    node.caller
                        .map_or(-1, |caller| i64::from(caller.number()) - 1)
                })
                .collect(),
            functions: nodes().map(|node| node.func).collect(),
            own: ByTime {
                cpu: has_cpu.then(|| columns(Time::Cpu)),
                wall: columns(Time::Wall),
            },
            changes: changes
                .map(|change| PageChange::of(change, names.number(&change.function)))
                .collect(),
        }
    }
}

/// A time before and after.
fn amounts(times: Sides<Times>, time: Time) -> [Rounded; 2] {
    [times.before, times.after].map(|times| Rounded(times.of(time)))
}

impl PageChange {
    fn of(change: &FunctionChange, function: usize) -> Self {
        let share = |share: &ShareChange| PageShare {
            before: Rounded(share.before_percent),
            after: Rounded(share.after_percent),
            mark: share.is_more_than_noise,
        };
        let shares = |shares: &ShareChanges| PageShares {
            own: share(&shares.own),
            total: share(&shares.total),
        };
        Self {
            function,
            shares: ByTime {
                cpu: change.cpu.as_ref().map(shares),
                wall: shares(&change.wall),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_page_is_a_number() {
        let numbers = [1.0, 0.12345, f64::NAN, f64::INFINITY, f64::MAX];
        let written = numbers.map(|number| serde_json::to_string(&Rounded(number)).unwrap());
        assert_eq!(written, ["1", "0.123", "0", "0", "0"]);
    }
}
