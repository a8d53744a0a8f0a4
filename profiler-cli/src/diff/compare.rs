//! Compares two lists of runs. Pure.
//!
//! Called by [`super::run()`]. Each side is a list of units, see [`super::noise`]: its runs, or the
//! blocks of its runs. A run without processes of a name counts as one in which they took no time.

use std::collections::BTreeSet;
use std::iter;

use super::changes::{
    Comparison, FunctionChange, MarkerChange, MemoryChange, ProcessChange, ShareChange,
    ShareChanges, Sides,
};
use super::many_tests::{FALSE_DISCOVERY_RATE, adjusted};
use super::markers::MarkerTimes;
use super::noise::{Resampling, Series};
use super::run::{FunctionTimes, ProcessRun, Run, Times};
use crate::profile::Time;

/// How to compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparisonParams {
    /// The smallest change of a share to keep, in percentage points.
    pub(super) smallest: f64,
    /// The time by which functions are ranked; by default processor time, if all runs have it.
    pub(super) by: Option<Time>,
    /// The number of blocks into which the samples of each run are divided.
    pub(super) blocks: usize,
}

/// Compares two lists of runs, none of them empty.
pub(super) fn compare(before: &[Run], after: &[Run], params: ComparisonParams) -> Comparison {
    let has_cpu = before.iter().chain(after).all(|run| run.has_cpu);
    let best = if has_cpu { Time::Cpu } else { Time::Wall };
    let comparer = Comparer {
        resampling: Resampling::new(
            before.len() * params.blocks,
            after.len() * params.blocks,
            params.blocks / 3,
        ),
        blocks: params.blocks,
        smallest: params.smallest,
        has_cpu,
        by: params
            .by
            .filter(|by| has_cpu || *by == Time::Wall)
            .unwrap_or(best),
    };
    let runs = before.iter().chain(after);
    let names: BTreeSet<&String> = runs.flat_map(|run| run.processes.keys()).collect();
    let runs = Sides { before, after };
    let process = |name: &String| comparer.process(name, &runs.map(|runs| Side::of(runs, name)));
    let mut processes: Vec<ProcessChange> = names.into_iter().map(process).collect();
    for time in [Time::Cpu, Time::Wall] {
        correct(&mut processes, time);
    }
    for process in &mut processes {
        process.functions.retain(FunctionChange::is_shown);
    }
    let files = |runs: &[Run]| {
        let files = runs.iter().map(|run| run.file.display().to_string());
        files.collect()
    };
    Comparison {
        files: runs.map(files),
        noise: match params.blocks {
            1 => "runs",
            _ => "slices of time",
        },
        by: comparer.by,
        processes,
    }
}

/// Corrects the p-values of one kind of time for the number of tests, and finds the changes that
/// are more than noise.
fn correct(processes: &mut [ProcessChange], time: Time) {
    let functions = processes
        .iter_mut()
        .flat_map(|process| &mut process.functions);
    let shares = functions.filter_map(|function| function.shares_mut(time));
    let mut tested: Vec<(&mut ShareChange, f64)> = shares
        .flat_map(ShareChanges::both_mut)
        .filter_map(|share| share.adjusted_probability.map(|one| (share, one)))
        .collect();
    let probabilities: Vec<f64> = tested.iter().map(|(_, probability)| *probability).collect();
    for ((share, _), adjusted) in tested.iter_mut().zip(adjusted(&probabilities)) {
        share.adjusted_probability = Some(adjusted);
        share.is_more_than_noise = adjusted <= FALSE_DISCOVERY_RATE;
    }
}

/// The processes with one name, in each run of a side.
#[derive(Debug)]
struct Side<'r>(Vec<Option<&'r ProcessRun>>);

impl<'r> Side<'r> {
    fn of(runs: &'r [Run], name: &str) -> Self {
        Self(runs.iter().map(|run| run.processes.get(name)).collect())
    }

    fn processes(&self) -> impl Iterator<Item = &'r ProcessRun> {
        self.0.iter().copied().flatten()
    }

    /// The mean of a number over all runs.
    fn mean(&self, number: impl Fn(&ProcessRun) -> f64) -> f64 {
        // The sum of no numbers is -0.
        (self.processes().map(number).sum::<f64>() + 0.0) / self.0.len().max(1) as f64
    }

    /// A number of each unit; `blocks` returns the blocks of a run.
    fn units<B: 'r>(
        &self,
        count: usize,
        blocks: impl Fn(&'r ProcessRun) -> &'r [B],
        number: impl Fn(&B) -> f64,
    ) -> Vec<f64> {
        let mut units = Vec::with_capacity(self.0.len() * count);
        for process in &self.0 {
            let blocks = process.map_or(&[][..], &blocks);
            let numbers = blocks.iter().map(&number);
            units.extend(numbers.chain(iter::repeat(0.0)).take(count));
        }
        units
    }

    /// The markers with this name in all runs, their durations in order.
    fn markers(&self, name: &str) -> MarkerTimes {
        let mut all = MarkerTimes::default();
        let runs = self.processes();
        for times in runs.filter_map(|process| process.markers.get(name)) {
            all.count += times.count;
            all.durations_ms.extend(&times.durations_ms);
        }
        all.durations_ms.sort_by(f64::total_cmp);
        all
    }
}

impl<'r> Sides<Side<'r>> {
    fn means(&self, number: impl Fn(&ProcessRun) -> f64) -> Sides<f64> {
        self.as_ref().map(|side| side.mean(&number))
    }

    /// The names that occur in any run.
    fn names<K: Iterator<Item = &'r String>>(
        &self,
        names: impl Fn(&'r ProcessRun) -> K,
    ) -> BTreeSet<&'r String> {
        let processes = self.before.processes().chain(self.after.processes());
        processes.flat_map(names).collect()
    }
}

/// Compares processes.
#[derive(Debug)]
struct Comparer {
    resampling: Resampling,
    blocks: usize,
    smallest: f64,
    has_cpu: bool,
    by: Time,
}

/// The time of all threads in the units of both sides in which it is positive.
#[derive(Debug)]
struct AllTimes {
    /// The numbers of these units.
    units: Sides<Vec<usize>>,
    times: Sides<Vec<f64>>,
}

impl AllTimes {
    fn of(times: &Sides<Vec<f64>>) -> Self {
        let units = |times: &Vec<f64>| {
            let positive = (0..).zip(times).filter(|(_, time)| **time > 0.0);
            positive.map(|(unit, _)| unit).collect()
        };
        let units = times.as_ref().map(units);
        let times = select(times, &units);
        Self { units, times }
    }

    /// Whether each side has time, so that its functions have shares.
    const fn is_on_both_sides(&self) -> bool {
        !self.times.before.is_empty() && !self.times.after.is_empty()
    }
}

/// The numbers of some units.
fn select(numbers: &Sides<Vec<f64>>, units: &Sides<Vec<usize>>) -> Sides<Vec<f64>> {
    let numbers = numbers.as_ref().zip(units.as_ref());
    numbers.map(|(numbers, units)| {
        let numbers = units.iter().filter_map(|unit| numbers.get(*unit));
        numbers.copied().collect()
    })
}

/// The times of a function with those of all functions, in the same units.
fn series<'t>(of: &'t Sides<Vec<f64>>, all: &'t Sides<Vec<f64>>) -> Sides<Series<'t>> {
    let both = of.as_ref().zip(all.as_ref());
    both.map(|(of, all)| Series { of, all })
}

impl Comparer {
    fn process(&self, name: &str, sides: &Sides<Side<'_>>) -> ProcessChange {
        let sum =
            |time| sides.means(move |process| process.all.iter().map(|times| times.of(time)).sum());
        ProcessChange {
            name: name.to_owned(),
            processes: sides.means(|process| process.processes as f64),
            cpu_ms: self.has_cpu.then(|| sum(Time::Cpu)),
            wall_ms: sum(Time::Wall),
            functions: self.functions(sides),
            markers: markers(sides),
            memory: memory(sides),
            recorded: sides.means(|process| process.recorded as f64),
            lost: sides.means(|process| process.lost as f64),
        }
    }

    /// The functions with a share that changed enough. There are none if these processes took time
    /// on one side only.
    fn functions(&self, sides: &Sides<Side<'_>>) -> Vec<FunctionChange> {
        let all = |time| {
            let times = self.units(
                sides,
                |process| process.all.as_slice(),
                |times: &Times| times.of(time),
            );
            Some(AllTimes::of(&times)).filter(AllTimes::is_on_both_sides)
        };
        let Some(wall) = all(Time::Wall) else {
            return Vec::new();
        };
        let cpu = all(Time::Cpu).filter(|_| self.has_cpu);
        let all = (cpu.as_ref(), &wall);
        let names = sides.names(|process| process.functions.keys());
        let mut changes: Vec<FunctionChange> = names
            .into_iter()
            .filter_map(|name| self.function(sides, all, name))
            .collect();
        let size = |change: &FunctionChange| {
            change.shares(self.by).map_or((0.0, 0.0), |shares| {
                (shares.own.points().abs(), shares.largest_points())
            })
        };
        changes.sort_by(|one, other| {
            let (one, other) = (size(one), size(other));
            other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
        });
        changes
    }

    /// The change of a function; `None` if no share is large enough to be tested.
    fn function(
        &self,
        sides: &Sides<Side<'_>>,
        (all_cpu, all_wall): (Option<&AllTimes>, &AllTimes),
        name: &str,
    ) -> Option<FunctionChange> {
        let units = |number: &dyn Fn(&FunctionTimes) -> f64| {
            self.units(
                sides,
                |process| process.functions.get(name).map_or(&[][..], Vec::as_slice),
                number,
            )
        };
        let shares = |time: Time, all: &AllTimes| ShareChanges {
            own: self.share(&units(&|times| times.own.of(time)), all),
            total: self.share(&units(&|times| times.total.of(time)), all),
        };
        let change = FunctionChange {
            function: name.to_owned(),
            cpu: all_cpu.map(|all| shares(Time::Cpu, all)),
            wall: shares(Time::Wall, all_wall),
        };
        let is_tested = |shares: &ShareChanges| {
            let mut shares = shares.both().into_iter();
            shares.any(|share| self.is_tested(share.before_percent, share.after_percent))
        };
        let is_kept = is_tested(&change.wall) || change.cpu.as_ref().is_some_and(is_tested);
        is_kept.then_some(change)
    }

    /// Whether the larger share is at least the smallest change that is shown. The condition does
    /// not depend on the change, so it does not prefer changes that are large by chance.
    const fn is_tested(&self, before_percent: f64, after_percent: f64) -> bool {
        before_percent.max(after_percent) >= self.smallest
    }

    fn share(&self, of: &Sides<Vec<f64>>, all: &AllTimes) -> ShareChange {
        let runs = of.as_ref();
        let runs = runs.map(|times| times.len() as f64 / self.blocks as f64);
        let of = select(of, &all.units);
        let Sides { before, after } = series(&of, &all.times);
        let (before_percent, after_percent) = (before.percent(), after.percent());
        let change = after_percent - before_percent;
        let is_tested = self.is_tested(before_percent, after_percent);
        let test = is_tested.then(|| self.resampling.test(before, after));
        let test = test.flatten();
        let is_shown = change.abs() >= self.smallest;
        ShareChange {
            before_percent,
            after_percent,
            before_ms: of.before.iter().sum::<f64>() / runs.before,
            after_ms: of.after.iter().sum::<f64>() / runs.after,
            is_shown,
            interval_points: test.map(|test| test.interval),
            adjusted_probability: test.map(|test| test.probability),
            is_more_than_noise: false,
            takes_more_time: is_shown && change > 0.0 && self.takes_more_time(&of, runs),
        }
    }

    /// Whether the time per run grew by more than noise.
    fn takes_more_time(&self, of: &Sides<Vec<f64>>, runs: Sides<f64>) -> bool {
        // With these times of all functions, a share is a time per run.
        let even = |(of, runs): (&Vec<f64>, f64)| vec![runs / of.len() as f64; of.len()];
        let all = of.as_ref().zip(runs).map(even);
        let Sides { before, after } = series(of, &all);
        let test = self.resampling.test(before, after);
        test.is_some_and(|test| test.interval.0 > 0.0)
    }

    fn units<'r, B: 'r>(
        &self,
        sides: &Sides<Side<'r>>,
        blocks: impl Fn(&'r ProcessRun) -> &'r [B],
        number: impl Fn(&B) -> f64,
    ) -> Sides<Vec<f64>> {
        let sides = sides.as_ref();
        sides.map(|side| side.units(self.blocks, &blocks, &number))
    }
}

/// All markers, those first whose sum of durations changed most.
fn markers(sides: &Sides<Side<'_>>) -> Vec<MarkerChange> {
    let names = sides.names(|process| process.markers.names());
    let change = |name: &String| {
        let times = sides.as_ref().map(|side| side.markers(name));
        let times = times.as_ref();
        let quantiles = |part| times.map(|times| quantile(&times.durations_ms, part));
        let of_run = |number: &dyn Fn(&MarkerTimes) -> f64| {
            sides.means(|process| process.markers.get(name).map_or(0.0, number))
        };
        MarkerChange {
            marker: name.clone(),
            count: of_run(&|times| times.count as f64),
            median_ms: quantiles(0.5),
            p95_ms: quantiles(0.95),
            total_ms: of_run(&|times| times.durations_ms.iter().sum()),
        }
    };
    let mut changes: Vec<MarkerChange> = names.into_iter().map(change).collect();
    let size = |change: &MarkerChange| (change.total_ms.after - change.total_ms.before).abs();
    changes.sort_by(|one, other| size(other).total_cmp(&size(one)));
    changes
}

/// The smallest value that is at least as large as this part of the values, which are in order.
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn memory(sides: &Sides<Side<'_>>) -> Vec<MemoryChange> {
    let names = sides.names(|process| process.memory.keys());
    let change = |name: &String| MemoryChange {
        counter: name.clone(),
        highest_bytes: sides.means(|process| process.memory.get(name).copied().unwrap_or(0.0)),
    };
    names.into_iter().map(change).collect()
}
