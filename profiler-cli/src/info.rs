//! `profiler info FILE|DIR`: the content of a profile and where its time went, or the current
//! content of a session's pools.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use profiler_parent::recover::{PassedOver, Survey, survey};

use crate::console::{complain, say};
use crate::crash_row::CrashRow;
use crate::process_row::Row;
use crate::profile::one_trace::{self, TraceId};
use crate::profile::{self, Time, Wanted};
use crate::progress::ProgressLine;
use crate::report::Report;

/// Shows the content of a profile or a pool directory: processes, threads, and what happened to all
/// entries
///
/// If a process has recorded its crash, the crash comes first, with the functions on its stack.
///
/// For a profile, the numbers are those of its own log. For the pool directory of a running or dead
/// session, they are the present numbers of the pools, with the memory that the pools hold. For
/// every process, recorded = delivered + outside + evicted + dropped + unfinished.
///
/// If the profile has samples, a list of functions follows: the functions with the most time of
/// their own, over all processes, and their time including all functions that they call. Addresses
/// without names get the names that the files of this machine have for them; files without names
/// are listed.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// A profile (.json or .json.gz), or a session's pool directory
    #[arg(value_name = "FILE|DIR")]
    path: PathBuf,
    /// Prints one JSON object, with the dropped entries by reason
    #[arg(long)]
    json: bool,
    /// The number of functions to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// The time to rank the functions by [default: cpu if the profile has it, otherwise wall]
    #[arg(long, value_enum, value_name = "TIME")]
    by: Option<Time>,
    /// Keeps addresses without names, and reads no debug information
    #[arg(long)]
    no_names: bool,
    /// Shows only what the application did for this trace, in all processes of a profile: its
    /// samples, its markers and its functions. A trace is 32 hexadecimal digits, or a header
    /// `traceparent`
    #[arg(long, value_name = "ID")]
    trace: Option<TraceId>,
}

pub(crate) fn run(options: &InfoArgs) -> Result<()> {
    let line = ProgressLine::new();
    let wanted = Wanted {
        top: options.top,
        by: options.by,
        names: !options.no_names,
    };
    let listener = || line.listener(&options.path);
    let report = match (options.path.is_dir(), options.trace) {
        (true, None) => of_pools(survey(&options.path)?),
        (true, Some(_)) => bail!("--trace needs a profile, and not a pool directory"),
        (false, None) => profile::read(&options.path, wanted, listener())?,
        (false, Some(id)) => one_trace::read(&options.path, id, wanted, listener())?,
    };
    line.clear();
    if options.json {
        say(&serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

fn of_pools(survey: Survey) -> Report {
    complain(&survey.passed_over);
    let processes = &survey.processes;
    let first = processes.iter().map(|process| process.recorded_ns.0).min();
    let last = processes.iter().map(|process| process.recorded_ns.1).max();
    let millis = |ns: i64| ns as f64 / 1e6;
    let rows: Vec<Row> = processes.iter().map(Row::of_surveyed).collect();
    let crash = |row: &Row| CrashRow::of(&row.name, row.pid, &row.verdict);
    Report {
        kind: "pools",
        crashes: rows.iter().filter_map(crash).collect(),
        trace: None,
        samples: None,
        pushed: Vec::new(),
        observed: None,
        remarks: Vec::new(),
        range_ms: first
            .zip(last)
            .map(|(first, last)| (millis(first), millis(last))),
        held_bytes: Some(processes.iter().map(|process| process.held_bytes).sum()),
        limit_bytes: Some(survey.limit.get()),
        passed_over: survey
            .passed_over
            .into_iter()
            .map(|PassedOver { name, why }| (name, why))
            .collect(),
        processes: rows,
    }
}
