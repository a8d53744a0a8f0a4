//! What a profile says of itself, read as a stream: of gigabytes only names, books and the tables of stacks are kept.
//!
//! Both forms are read by the same code, which knows them by what they hold. Used by `profiler info`.

mod books;
mod functions;
mod locations;
mod names;
mod part;
mod thread;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use profiler_parent::internal::reading::{Namer, text};

use crate::report::{Report, Samples, TopFunction};
use functions::{Cost, Costs, Function, Functions};
use part::Part;
use profiler_parent::SymbolOptions;

/// What counts as a function's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Time {
    /// The processor's
    Cpu,
    /// The clock's, whether the thread ran or waited
    Wall,
}

/// How many functions are wanted, and by which time; by default the processor's, if the profile has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) top: usize,
    pub(crate) by: Option<Time>,
    /// Whether addresses without a name get the one that this machine's files have for them.
    pub(crate) names: bool,
}

/// Reads a profile, compressed or not, whatever its name says.
pub(crate) fn read(path: &Path, wanted: Wanted) -> Result<Report> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text(&file).with_context(|| format!("cannot read {}", path.display()))?;
    // Parsing takes single bytes, which a reader of a known kind gives fastest.
    let root: Part = serde_json::from_reader(BufReader::new(text))
        .with_context(|| format!("{} is not a profile", path.display()))?;
    Ok(report(root, wanted))
}

fn report(root: Part, wanted: Wanted) -> Report {
    let (mut functions, mut namer) = (Functions::default(), Namer::default());
    if wanted.names {
        root.ask(&mut namer);
        namer.look_up(SymbolOptions::default());
    }
    root.count(&namer, &mut functions);
    let range_ms = root.meta.profiling_start_time.zip(root.meta.profiling_end_time);
    let samples = (functions.all.samples > 0.0)
        .then(|| Samples { nameless: namer.into_nameless(), ..top(&root, functions, wanted) });
    Report { kind: "profile", processes: books::rows(root), range_ms, samples, ..Report::default() }
}

/// The functions that take most of the time.
fn top(root: &Part, functions: Functions, wanted: Wanted) -> Samples {
    let Functions { costs, all } = functions;
    let cpu_ms = root.meta.cpu_ms().filter(|_| all.cpu > 0.0);
    let by = match wanted.by {
        Some(Time::Wall) => Time::Wall,
        _ if cpu_ms.is_none() => Time::Wall,
        _ => Time::Cpu,
    };
    let interval = root.meta.interval.unwrap_or(1.0);
    let of = |cost: Cost| match by {
        Time::Cpu => cost.cpu,
        Time::Wall => cost.wall_ms(interval),
    };
    let mut costs: Vec<(Function, Costs)> = costs.into_iter().collect();
    costs.sort_by(|(name, one), (other_name, other)| {
        let by_cost = of(other.own).total_cmp(&of(one.own));
        by_cost.then(of(other.total).total_cmp(&of(one.total))).then_with(|| name.cmp(other_name))
    });
    costs.truncate(wanted.top);
    let unit = match by {
        Time::Cpu => cpu_ms.unwrap_or(0.0),
        Time::Wall => 1.0,
    };
    let percent = |cost: Cost| if of(all) > 0.0 { of(cost) / of(all) * 100.0 } else { 0.0 };
    let row = |(function, costs): (Function, Costs)| TopFunction {
        function: function.name,
        library: function.library,
        self_ms: of(costs.own) * unit,
        self_percent: percent(costs.own),
        total_ms: of(costs.total) * unit,
        total_percent: percent(costs.total),
        self_samples: costs.own.samples,
        total_samples: costs.total.samples,
    };
    let time = if by == Time::Cpu { "cpu" } else { "wall" };
    Samples {
        count: all.samples,
        time,
        all_ms: of(all) * unit,
        top: costs.into_iter().map(row).collect(),
        nameless: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
