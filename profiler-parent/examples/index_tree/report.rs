//! The output for the user: frequent words, the counts of all processes, and errors.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use profiler_files::output::ProfileFile;
use profiler_parent::{CaptureReport, CapturedProcess};

use crate::crew::Harvest;
use crate::frames::Sum;
use crate::words::WordIndex;

/// Number of words to print.
const COMMONEST: usize = 10;

impl Harvest {
    /// The sum of the work of all workers that sent their indexes.
    pub(crate) fn sum(&self) -> Sum {
        self.outcomes
            .iter()
            .fold(Sum::default(), |mut sum, outcome| {
                sum += outcome.sum;
                sum
            })
    }
}

/// Prints a line. An error is ignored, so the profile is written even if standard output is closed.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints the most frequent words, and the numbers of indexed files, bytes and words.
pub(crate) fn print_words(words: &WordIndex, harvest: &Harvest) {
    for (word, times) in words.commonest(COMMONEST) {
        say(&format!("{times:>12}  {word}"));
    }
    let Sum {
        files,
        bytes,
        words,
        ..
    } = harvest.sum();
    say(&format!(
        "indexed {files} files, {bytes} bytes, {words} words"
    ));
    let unread: u64 = harvest.outcomes.iter().map(|outcome| outcome.unread).sum();
    let closed = harvest.unread.len();
    if unread > 0 || closed > 0 {
        say(&format!(
            "not readable: {unread} files, {closed} directories"
        ));
    }
}

/// Prints the counts of every process, and how to view the profile.
pub(crate) fn print_profile(report: &CaptureReport) {
    let width = report
        .processes
        .iter()
        .map(|process| process.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(7);
    let heads = [
        "pid",
        "threads",
        "recorded",
        "delivered",
        "evicted",
        "dropped",
    ];
    say("");
    say(&format!(
        "{:<width$}{}  verdict",
        "process",
        columns(&heads.map(str::to_owned))
    ));
    for process in &report.processes {
        let CapturedProcess {
            name,
            pid,
            threads,
            counts,
            verdict,
            ..
        } = process;
        let dropped = counts.dropped.total();
        let recorded = counts.recorded();
        let counts = [
            u64::from(*threads),
            recorded,
            counts.delivered,
            counts.evicted,
            dropped,
        ];
        let cells: Vec<_> = std::iter::once(pid.to_string())
            .chain(counts.map(|n| n.to_string()))
            .collect();
        say(&format!("{name:<width$}{}  {verdict}", columns(&cells)));
    }
    say("");
    say(&format!(
        "wrote {} ({} bytes)",
        report.path.display(),
        report.bytes
    ));
    say(
        "to look at it: `profiler view` with this file, or load it at https://profiler.firefox.com; it stays in your browser",
    );
}

fn columns(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("  {cell:>9}")).collect()
}

/// All problems, one line each.
pub(crate) fn complaints(harvest: &Harvest, ended: Vec<String>) -> Vec<String> {
    let mut lines = ended;
    for outcome in &harvest.outcomes {
        if let Some(why) = &outcome.failure {
            lines.push(format!(
                "{}: {why}; its {} files are not indexed",
                outcome.name, outcome.given
            ));
        }
    }
    lines.extend(
        (harvest.left_over > 0).then(|| format!("{} files had no worker left", harvest.left_over)),
    );
    lines
}

/// Writes an expectation, whole or not at all.
pub(crate) fn save(file: &Path, expectation: &serde_json::Value) -> Result<()> {
    let mut out = ProfileFile::create(file)?;
    serde_json::to_writer_pretty(&mut out, expectation)?;
    out.commit()?;
    Ok(())
}
