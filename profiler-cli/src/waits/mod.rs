//! `profiler waits FILE`: which processes the threads of a profile wait for, what these processes
//! do meanwhile, and the critical path.

mod chosen;
mod text;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use profiler_analysis::{critical_path, read_timeline, wait_report};
use serde::Serialize;

use crate::console::say;
use crate::progress::ProgressLine;

/// Shows which processes the threads of a profile wait for, and what these do meanwhile
///
/// For each thread, it shows how long the thread ran, and its waits with the innermost function of
/// the program, the kind of the wait, and the process that can end it. Below each wait, it shows
/// what that process did in exactly this time. If that process waited for another process, the
/// activity of the other process follows.
///
/// With --path, it shows the critical path: the chain of functions in all processes that had to run
/// one after the other until the end. The parts of the path sum to the wall time. Making a part
/// faster saves at most its time.
#[derive(Debug, Args)]
pub(crate) struct WaitsArgs {
    /// A profile (.json or .json.gz)
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Shows the critical path of a process (its name or its number), or of the longest marker with
    /// this name [default: the process that began first]
    #[arg(long = "path", value_name = "MARKER|PROCESS", num_args = 0..=1)]
    #[allow(clippy::option_option)] // the option, and its value
    critical: Option<Option<String>>,
    /// Shows only processes with this name or number
    #[arg(long, value_name = "NAME|PID")]
    process: Option<String>,
    /// The number of waits of each thread to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// Keeps addresses without names, and reads no debug information
    #[arg(long)]
    no_names: bool,
}

pub(crate) fn run(options: &WaitsArgs) -> Result<()> {
    let line = ProgressLine::new();
    let marker = options.critical.as_ref().and_then(Option::as_deref);
    let listener = line.listener(&options.path);
    let timeline = read_timeline(&options.path, marker, !options.no_names, listener)?;
    line.clear();
    if options.critical.is_some() {
        let end = chosen::end_of_path(&timeline, marker)?;
        let path = critical_path(&timeline, end);
        return print(options, &path, |path| text::path(path, options.top));
    }
    let mut report = wait_report(&timeline);
    if let Some(wanted) = &options.process {
        let is_wanted = |name: &str, pid: &str| name == wanted || pid == wanted;
        report
            .threads
            .retain(|thread| is_wanted(&thread.process, &thread.pid));
        anyhow::ensure!(
            !report.threads.is_empty(),
            "the profile has no process {wanted} with samples"
        );
    }
    print(options, &report, |report| text::waits(report, options.top))
}

fn print<T: Serialize>(
    options: &WaitsArgs,
    result: &T,
    lines: impl FnOnce(&T) -> Vec<String>,
) -> Result<()> {
    if options.json {
        say(&serde_json::to_string_pretty(result)?);
    } else {
        lines(result).iter().for_each(|line| say(line));
    }
    Ok(())
}
