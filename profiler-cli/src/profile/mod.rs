//! The content of a profile for `profiler info`: its processes, and the functions that take the
//! most time. `profiler diff` uses [`counts`] and [`functions`], too.
//!
//! [`profiler_reader`] reads the profile as a stream, in either format. One
//! thread is held at a time; only the costs of its functions are kept.

pub(crate) mod blocks;
mod call_paths;
pub(crate) mod cost;
pub(crate) mod counts;
mod crashes;
pub(crate) mod functions;
pub(crate) mod one_trace;
mod stack_sums;

use std::path::Path;

use profiler_files::WorkListener;
use profiler_reader as reading;
use profiler_reader::{Meta, ProfileReader, ReadError, Survey, Thread, ThreadSink};

use crate::report::{Report, Samples, TopFunction};
use blocks::Blocks;
use cost::{Cost, Costs, sum};
use counts::Head;
use crashes::Crashes;
use functions::{Collection, Function, Functions};

/// The name of the row of samples without a stack.
const NO_STACK: &str = "(no stack)";

/// The time by which functions are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Time {
    /// Processor time
    Cpu,
    /// Wall time, whether the thread ran or waited
    Wall,
}

/// The number of functions to show, and the time to rank them by: by default processor time, if the
/// profile has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) top: usize,
    pub(crate) by: Option<Time>,
    /// Whether addresses without a name are named from this machine's files.
    pub(crate) names: bool,
}

impl Wanted {
    /// Opens a profile, compressed or not. The file may have any name.
    fn open(self, path: &Path, listener: WorkListener) -> Result<ProfileReader, ReadError> {
        let wanted = reading::Wanted {
            names: self.names,
            logs: true,
            ..reading::Wanted::default()
        };
        ProfileReader::open_with(path, wanted, listener)
    }
}

/// The data collected from the threads.
#[derive(Debug)]
struct Collected {
    heads: Vec<Head>,
    functions: Functions,
}

impl ThreadSink for Collected {
    type Error = ReadError;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ReadError> {
        self.heads.push(Head::of(thread, &survey.meta));
        self.functions.add(thread, survey);
        Ok(())
    }
}

/// Reads a profile.
pub(crate) fn read(
    path: &Path,
    wanted: Wanted,
    listener: WorkListener,
) -> Result<Report, ReadError> {
    let reader = wanted.open(path, listener)?;
    let mut collected = Collected {
        heads: Vec::new(),
        functions: Functions::new(Collection {
            blocks: Blocks::ONE,
            by_library: true,
            with_tree: false,
        }),
    };
    reader.threads(&mut collected)?;
    let mut crashes = Crashes::of(reader.survey());
    if crashes.are_any() {
        reader.threads(&mut crashes)?;
    }
    let report = report(reader.into_survey(), collected, wanted);
    Ok(Report {
        crashes: crashes.into_rows(),
        ..report
    })
}

fn report(mut survey: Survey, collected: Collected, wanted: Wanted) -> Report {
    let Collected {
        heads,
        mut functions,
    } = collected;
    functions.finish(&survey.tables);
    let pushed = survey.pushed();
    let observed = survey.observed();
    let remarks = counts::remarks(&survey, &heads);
    let processes = counts::rows(&mut survey, heads);
    let Meta {
        profiling_start_time,
        profiling_end_time,
        ..
    } = survey.meta;
    let samples = (sum(functions.all()).samples > 0.0).then(|| {
        let samples = top(&survey.meta, functions, wanted);
        Samples {
            nameless: survey.into_nameless(),
            ..samples
        }
    });
    let range_ms = profiling_start_time.zip(profiling_end_time);
    Report {
        kind: "profile",
        processes,
        range_ms,
        samples,
        pushed,
        observed,
        remarks,
        ..Report::default()
    }
}

/// The functions that take most of the time.
fn top(meta: &Meta, functions: Functions, wanted: Wanted) -> Samples {
    let all = sum(functions.all());
    let by = match wanted.by {
        Some(Time::Wall) => Time::Wall,
        _ if all.cpu_ms <= 0.0 => Time::Wall,
        _ => Time::Cpu,
    };
    let amount = |cost: Cost| match by {
        Time::Cpu => cost.cpu_ms,
        Time::Wall => cost.wall_ms,
    };
    let without_stack = functions.without_stack();
    let mut costs: Vec<(Function, Costs)> = functions
        .into_costs()
        .map(|(function, costs)| (function, sum(&costs)))
        .collect();
    if amount(without_stack) > 0.0 {
        costs.push(no_function(without_stack));
    }
    costs.sort_by(|(name, one), (other_name, other)| {
        let by_cost = amount(other.own).total_cmp(&amount(one.own));
        by_cost
            .then(amount(other.total).total_cmp(&amount(one.total)))
            .then_with(|| name.cmp(other_name))
    });
    costs.truncate(wanted.top);
    let percent = |cost: Cost| {
        if amount(all) > 0.0 {
            amount(cost) / amount(all) * 100.0
        } else {
            0.0
        }
    };
    let row = |(function, costs): (Function, Costs)| TopFunction {
        function: function.name,
        library: function.library,
        self_ms: amount(costs.own),
        self_percent: percent(costs.own),
        total_ms: amount(costs.total),
        total_percent: percent(costs.total),
        self_samples: costs.own.samples,
        total_samples: costs.total.samples,
    };
    let time = if by == Time::Cpu { "cpu" } else { "wall" };
    Samples {
        count: all.samples,
        interval_ms: meta.interval,
        source: meta.sample_source.clone(),
        time,
        all_ms: amount(all),
        top: costs.into_iter().map(row).collect(),
        nameless: Vec::new(),
    }
}

/// The row of the samples without a stack.
fn no_function(cost: Cost) -> (Function, Costs) {
    let function = Function {
        name: NO_STACK.to_owned(),
        library: None,
    };
    let costs = Costs {
        own: cost,
        total: cost,
    };
    (function, costs)
}

#[cfg(test)]
mod exports_add_up;
#[cfg(test)]
mod tests;
