//! The output of `info` and `record`: a row per process, as a table or as JSON.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use profiler_parent::core::internal::entry_counts::EntryCounts;
use profiler_parent::recover::{Life, PassedOver, SurveyedProcess};
use profiler_parent::{CapturedProcess, Verdict};
use profiler_reader::{Nameless, PushedBatches, PushedLog};
use serde::Serialize;

use crate::plain::plain;
use crate::process_table::print_table;

/// The row of one process.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) pid: u64,
    /// The host in a merged profile of several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The process that started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_pid: Option<u64>,
    pub(crate) threads: u64,
    pub(crate) recorded: u64,
    pub(crate) delivered: u64,
    /// Entries outside of the profile's range of time.
    pub(crate) outside: u64,
    pub(crate) evicted: u64,
    /// Dropped entries, by reason.
    pub(crate) dropped: BTreeMap<String, u64>,
    pub(crate) unfinished: u64,
    pub(crate) verdict: String,
    /// The process whose session records it, if that is another session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recorded_by_pid: Option<u64>,
    /// When the session learned of it, and when it ended: milliseconds since the session's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) began_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_ms: Option<f64>,
    /// Whether it is running; known only for a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alive: Option<bool>,
    /// The bytes that its pool holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_bytes: Option<u64>,
}

/// The samples of a profile, and the functions in which they were taken.
#[derive(Debug, Serialize)]
pub(crate) struct Samples {
    /// Samples of all threads.
    pub(crate) count: f64,
    /// Milliseconds between two samples of a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval_ms: Option<f64>,
    /// Where the samples come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
    /// The time by which the functions are ranked: `cpu` or `wall`.
    pub(crate) time: &'static str,
    /// The total time.
    pub(crate) all_ms: f64,
    /// The functions with the most own time.
    pub(crate) top: Vec<TopFunction>,
    /// Libraries whose addresses could not be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) nameless: Vec<Nameless>,
}

/// One function, over all processes.
#[derive(Debug, Serialize)]
pub(crate) struct TopFunction {
    pub(crate) function: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) library: Option<String>,
    pub(crate) self_ms: f64,
    pub(crate) self_percent: f64,
    /// Including its callees.
    pub(crate) total_ms: f64,
    pub(crate) total_percent: f64,
    pub(crate) self_samples: f64,
    pub(crate) total_samples: f64,
}

/// The content of a profile, or of a session's pools.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// `profile` or `pools`.
    pub(crate) kind: &'static str,
    pub(crate) processes: Vec<Row>,
    /// Its first and last time, in milliseconds since the session's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range_ms: Option<(f64, f64)>,
    /// Where the time went, if samples were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Samples>,
    /// Bytes of all pools together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held_bytes: Option<u64>,
    /// The memory limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit_bytes: Option<u64>,
    /// What was pushed to other engines before the capture, and what was not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pushed: Vec<PushedLog>,
    /// Files that are not pools of the session, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) passed_over: BTreeMap<String, String>,
}

impl Row {
    pub(crate) fn of_captured(process: &CapturedProcess) -> Self {
        let CapturedProcess {
            name,
            pid,
            parent,
            threads,
            counts,
            verdict,
            ..
        } = process;
        let row = Self::new(
            name,
            u64::from(pid.get()),
            u64::from(*threads),
            counts,
            verdict,
        );
        Self {
            parent_pid: parent.map(|parent| u64::from(parent.get())),
            ..row
        }
    }

    pub(crate) fn of_surveyed(process: &SurveyedProcess) -> Self {
        let SurveyedProcess {
            name,
            pid,
            threads,
            counts,
            held_bytes,
            life,
            ..
        } = process;
        let row = Self::new(
            name,
            u64::from(pid.get()),
            u64::from(*threads),
            counts,
            &process.verdict(),
        );
        let verdict = match life {
            Life::Running => "running".to_owned(),
            _ => row.verdict,
        };
        Self {
            verdict,
            alive: Some(*life == Life::Running),
            held_bytes: Some(*held_bytes),
            ..row
        }
    }

    fn new(name: &str, pid: u64, threads: u64, counts: &EntryCounts, verdict: &Verdict) -> Self {
        Self {
            name: name.to_owned(),
            pid,
            threads,
            recorded: counts.recorded(),
            delivered: counts.delivered,
            outside: counts.outside,
            evicted: counts.evicted,
            dropped: counts
                .dropped
                .iter()
                .map(|(reason, n)| (reason.name().to_owned(), n))
                .collect(),
            unfinished: counts.unfinished,
            verdict: verdict.to_string(),
            ..Self::default()
        }
    }
}

/// The first error of writing to standard output.
static OUTPUT_ERROR: OnceLock<std::io::Error> = OnceLock::new();

/// Prints a line. If that fails, [`output_error`] returns the first error.
pub(crate) fn say(line: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        let _ = OUTPUT_ERROR.set(error);
    }
}

/// Prints a line on standard error, if that can be written: a message must not end the command.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The first error of writing to standard output, if there was one. A pipe whose reader has closed
/// it is not an error, because the reader needs no more output.
pub(crate) fn output_error() -> Option<&'static std::io::Error> {
    if let Err(error) = std::io::stdout().flush() {
        let _ = OUTPUT_ERROR.set(error);
    }
    OUTPUT_ERROR
        .get()
        .filter(|error| error.kind() != std::io::ErrorKind::BrokenPipe)
}

/// Reports the files that were passed over on standard error.
pub(crate) fn complain(passed_over: &[PassedOver]) {
    for PassedOver { name, why } in passed_over {
        tell(&format!(
            "profiler: passed over {}: {}",
            plain(name),
            plain(why)
        ));
    }
}

impl Report {
    /// Prints it as a table.
    pub(crate) fn print(&self) {
        print_table(&self.processes);
        if let Some((first, last)) = self.range_ms {
            say(&format!(
                "\nfrom {first:.3} ms to {last:.3} ms of the session"
            ));
        }
        if let (Some(held), Some(limit)) = (self.held_bytes, self.limit_bytes) {
            say(&format!("the pools hold {held} of {limit} bytes"));
        }
        for pushed in &self.pushed {
            say(&pushed_sentence(pushed));
        }
        if let Some(samples) = &self.samples {
            samples.print();
        }
    }
}

/// What a destination had got at the time of the capture.
fn pushed_sentence(log: &PushedLog) -> String {
    let batches = |PushedBatches { batches, entries }: PushedBatches| {
        let noun = if batches == 1 { "batch" } else { "batches" };
        format!("{batches} {noun} ({entries} entries)")
    };
    let mut parts = vec![format!(
        "pushed {} to {}",
        batches(log.sent),
        plain(&log.address)
    )];
    for (amount, what) in [
        (log.rejected, "rejected"),
        (log.lost, "lost before they were sent"),
    ] {
        if amount.batches > 0 {
            parts.push(format!("{} {what}", batches(amount)));
        }
    }
    for (number, what) in [
        (log.waiting_batches, "batches waited"),
        (
            log.missed_entries,
            "entries evicted before a batch had them",
        ),
        (log.failed_captures, "batches could not be written"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {what}"));
        }
    }
    parts.join("; ")
}

impl Samples {
    fn print(&self) {
        let time = if self.time == "cpu" {
            "processor time"
        } else {
            "time, running or waiting"
        };
        say(&format!(
            "\n{} sampling intervals, {:.1} ms of {time} in all processes",
            self.count, self.all_ms
        ));
        if let (Some(interval), Some(source)) = (self.interval_ms, &self.source) {
            let source = plain(source);
            say(&format!("sampled every {interval} ms, source: {source}"));
        }
        for Nameless { library, why } in &self.nameless {
            let (library, why) = (plain(library), plain(why));
            say(&format!("no names for {library}: {why}"));
        }
        if self.top.is_empty() {
            return;
        }
        say(&format!(
            "{:>12} {:>6}  {:>12} {:>6}  function",
            "self ms", "%", "total ms", "%"
        ));
        for TopFunction {
            function,
            library,
            self_ms,
            self_percent,
            total_ms,
            total_percent,
            ..
        } in &self.top
        {
            let library = library
                .iter()
                .filter(|library| !function.starts_with(library.as_str()));
            let library = library
                .map(|library| format!("  ({library})"))
                .collect::<String>();
            let own = format!("{self_ms:>12.1} {self_percent:>6.1}");
            let function = plain(&format!("{function}{library}"));
            say(&format!(
                "{own}  {total_ms:>12.1} {total_percent:>6.1}  {function}"
            ));
        }
    }
}

/// The first name of `STEM.json.gz`, `STEM-2.json.gz` and so on that does not exist.
pub(crate) fn free_name(stem: &str) -> PathBuf {
    let names = (2..).map(|number| PathBuf::from(format!("{stem}-{number}.json.gz")));
    let first = PathBuf::from(format!("{stem}.json.gz"));
    let mut names = std::iter::once(first).chain(names);
    names
        .find(|name| name.symlink_metadata().is_err())
        .unwrap_or_default()
}
