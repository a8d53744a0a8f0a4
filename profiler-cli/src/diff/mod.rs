//! `profiler diff BEFORE AFTER`: what changed between two profiles, or between two groups of runs.
//!
//! ```text
//! files ─▶ run (reads one profile) ─▶ compare (two lists of runs, pure) ─▶ table, or JSON
//!           │                            ├─ noise (resamples the units of both sides)
//!           │                            └─ many_tests (corrects for the number of functions)
//!           └─ call trees ─▶ flame_graph ─▶ HTML
//! ```
//!
//! Invariants: the same files give the same output; each run is reduced to sums per process name,
//! and to the durations of its markers, before the next one is read.

mod changes;
mod compare;
mod flame_graph;
mod many_tests;
mod markers;
mod noise;
mod numbered;
mod run;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::console::{say, tell};
use crate::plain::plain;
use crate::profile::Time;
use crate::progress::ProgressLine;
use crate::signals::end_without_leftovers;
use changes::{Comparison, Sides};
use compare::{ComparisonParams, compare};
use run::{Run, RunParams};
use table::TableParams;

/// Compares two profiles, or two groups of profiles: functions, markers, memory and lost entries
///
/// BEFORE and AFTER are profiles, or directories that contain the profiles of several runs. The
/// processes with the same name are added up. A function's share is the part of these processes'
/// time that was spent in it: in itself, or in itself and the functions that it calls.
///
/// A change of a share is marked with * if it is more than noise. The marks are corrected for the
/// number of functions (Benjamini and Hochberg): of all marked changes, at most 1 % are expected to
/// be noise. With several runs on both sides, noise is the variation between the runs. Otherwise it
/// is the variation between short slices of time within each run, which does not include the
/// variation between runs. So record at least three runs of each side before you trust a small
/// change.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A profile (.json or .json.gz), or a directory with profiles of the same program
    before: PathBuf,
    /// A profile (.json or .json.gz), or a directory with profiles of the same program
    after: PathBuf,
    /// Prints one JSON object, with the intervals of all changes
    #[arg(long)]
    json: bool,
    /// Writes the difference as a flame graph to this file, which any browser opens
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The number of functions, and of markers, to show for each process name
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// The time to compare in the table [default: cpu if all profiles have it, otherwise wall]
    #[arg(long, value_enum, value_name = "TIME")]
    by: Option<Time>,
    /// The smallest change of a share to show, in percentage points
    #[arg(long, value_name = "POINTS", default_value = "0.5", value_parser = points)]
    min_change: f64,
    /// Ends with exit code 1 if the share of a function grew by more than this number of percentage
    /// points and by more than noise, because the function takes more time. Needs at least three
    /// runs on each side, all of which do the same work
    #[arg(long, value_name = "POINTS", value_parser = points)]
    fail_above: Option<f64>,
    /// Merges processes whose names differ only in a number at the end: `worker 1` and `worker 2`
    /// are compared as `worker #`
    #[arg(long)]
    merge_numbered: bool,
    /// Keeps addresses without names, and reads no debug information
    #[arg(long)]
    no_names: bool,
}

pub(crate) fn run(options: &DiffArgs) -> Result<ExitCode> {
    let (before, after) = (profiles(&options.before)?, profiles(&options.after)?);
    not_onto_a_profile(options.html.as_deref(), before.iter().chain(&after))?;
    ensure!(
        options.fail_above.is_none() || before.len().min(after.len()) >= RUNS_TO_FAIL,
        "--fail-above needs at least {RUNS_TO_FAIL} profiles on each side"
    );
    let has_several_runs = before.len() > 1 && after.len() > 1;
    let blocks = if has_several_runs { 1 } else { BLOCKS };
    let run_params = RunParams {
        blocks,
        names: !options.no_names,
        merge_numbered: options.merge_numbered,
        with_trees: options.html.is_some(),
    };
    let line = ProgressLine::new();
    end_without_leftovers(&line)?;
    let read = |files: &[PathBuf]| -> Result<Vec<Run>> {
        let runs = files
            .iter()
            .map(|file| Run::read(file, run_params, line.listener(file)));
        Ok(runs.collect::<Result<_, _>>()?)
    };
    let params = ComparisonParams {
        smallest: options
            .fail_above
            .map_or(options.min_change, |points| points.min(options.min_change)),
        by: options.by,
        blocks,
    };
    let both = read(&before).and_then(|before| Ok((before, read(&after)?)));
    line.clear();
    let (before, after) = both?;
    if options.by == Some(Time::Cpu)
        && let Some(run) = before.iter().chain(&after).find(|run| !run.has_cpu)
    {
        bail!("{} has no processor times", run.file.display());
    }
    let comparison = compare(&before, &after, params);
    if let Some(path) = &options.html {
        let runs = Sides {
            before: &*before,
            after: &*after,
        };
        flame_graph::write(path, &comparison, runs)?;
    }
    if options.json {
        say(&serde_json::to_string_pretty(&comparison)?);
    } else {
        let shown = TableParams {
            top: options.top,
            smallest: options.min_change,
        };
        table::print(&comparison, shown);
    }
    let grew = options
        .fail_above
        .is_some_and(|points| report_growth(&comparison, points));
    Ok(if grew {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The smallest number of runs on each side for `--fail-above`: a single run does not show how much
/// one run differs from the next.
const RUNS_TO_FAIL: usize = 3;

/// The number of blocks of a run that is compared without other runs of its side.
const BLOCKS: usize = 24;

/// Prints the functions whose share grew by more than `points`, on standard error, see
/// [`Comparison::grown`]. Returns whether there are any.
fn report_growth(comparison: &Comparison, points: f64) -> bool {
    let mut grew = false;
    for (process, function, share) in comparison.grown(points) {
        grew = true;
        let (function, process) = (plain(function), plain(process));
        tell(&format!(
            "profiler: {function} in {process}: {:.1} % before, {:.1} % after ({:.1} and {:.1} ms)",
            share.before_percent, share.after_percent, share.before_ms, share.after_ms
        ));
    }
    grew
}

/// The profiles at a path: the file, or the profiles in the directory, in the order of their names.
fn profiles(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = || format!("cannot read {}", path.display());
    let mut files = Vec::new();
    for entry in path.read_dir().with_context(unreadable)? {
        let file = entry.with_context(unreadable)?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".json") || name.ends_with(".json.gz") {
            files.push(file);
        }
    }
    ensure!(
        !files.is_empty(),
        "{} has no profile (.json or .json.gz)",
        path.display()
    );
    files.sort();
    Ok(files)
}

/// Returns an error if the page would replace one of the profiles, under any name.
fn not_onto_a_profile<'p>(
    page: Option<&Path>,
    mut profiles: impl Iterator<Item = &'p PathBuf>,
) -> Result<()> {
    let Some(page) = page.and_then(|page| page.canonicalize().ok()) else {
        return Ok(());
    };
    let is_page = |profile: &PathBuf| profile.canonicalize().is_ok_and(|profile| profile == page);
    ensure!(
        !profiles.any(is_page),
        "{} is one of the profiles: choose another file for --html",
        page.display()
    );
    Ok(())
}

/// Parses percentage points.
fn points(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(points) if (0.0..=100.0).contains(&points) => Ok(points),
        _ => Err("expected a number from 0 to 100".to_owned()),
    }
}

#[cfg(test)]
mod tests;
