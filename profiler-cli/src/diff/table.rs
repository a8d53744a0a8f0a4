//! Prints a comparison as tables: for each process name its times, the functions, the markers, the
//! memory and the lost entries.

use std::collections::BTreeMap;

use super::changes::{
    Comparison, FunctionChange, MarkerChange, MemoryChange, ProcessChange, ShareChange, Sides,
};
use super::numbered::without_number;
use crate::console::say;
use crate::plain::plain;
use crate::profile::Time;

/// Which rows are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableParams {
    /// The number of functions and of markers per process name.
    pub(super) top: usize,
    /// The smallest change of a share, in percentage points.
    pub(super) smallest: f64,
}

/// The smallest change of a marker's numbers that is shown, as a part of the number before.
const MARKER_CHANGE: f64 = 0.05;

/// Prints a comparison.
pub(super) fn print(comparison: &Comparison, params: TableParams) {
    print_files("before", &comparison.files.before);
    print_files("after", &comparison.files.after);
    for process in &comparison.processes {
        print_process(process, comparison.by, params);
    }
    let source = match comparison.noise {
        "runs" => "the differences between the runs of each side",
        _ => "the differences between slices of time of each run; record several runs of each side",
    };
    say(&format!(
        "\n* more than noise: at most 1 % of these changes are expected to be noise, judged by\n  {source}"
    ));
    if has_lone_numbers(comparison) {
        say(
            "processes whose names differ only in a number at the end: --merge-numbered merges them",
        );
    }
}

/// Whether a process is on one side only, and another process has the same name with another
/// number.
fn has_lone_numbers(comparison: &Comparison) -> bool {
    let kinds = comparison
        .processes
        .iter()
        .map(|process| (without_number(&process.name), process));
    let mut members: BTreeMap<String, Vec<&ProcessChange>> = BTreeMap::new();
    for (kind, process) in kinds {
        members.entry(kind).or_default().push(process);
    }
    let is_lone = |process: &&ProcessChange| {
        process.processes.before == 0.0 || process.processes.after == 0.0
    };
    members
        .values()
        .any(|members| members.len() > 1 && members.iter().any(is_lone))
}

fn print_files(side: &str, files: &[String]) {
    let files: Vec<String> = files.iter().map(|file| plain(file)).collect();
    match &files[..] {
        [file] => say(&format!("{side:<7} {file}")),
        files => say(&format!(
            "{side:<7} {} runs: {}",
            files.len(),
            files.join(", ")
        )),
    }
}

fn print_process(process: &ProcessChange, by: Time, params: TableParams) {
    let ProcessChange {
        name,
        processes,
        cpu_ms,
        wall_ms,
        functions,
        markers,
        memory,
        lost,
        ..
    } = process;
    say(&format!("\n{}", plain(name)));
    let line = |what: &str, sides: Sides<f64>| {
        let Sides { before, after } = sides;
        let percent = percent_of(sides);
        say(&format!(
            "  {what:<36} {before:>12.1} {after:>12.1} {percent:>9}"
        ));
    };
    line("processes", *processes);
    if let Some(cpu_ms) = cpu_ms {
        line("processor time, ms", *cpu_ms);
    }
    line("running or waiting, ms", *wall_ms);
    for MemoryChange {
        counter,
        highest_bytes,
    } in memory
    {
        let sides = highest_bytes.map(|bytes| bytes / f64::from(1 << 20));
        line(&format!("{}, sum of peaks, MiB", plain(counter)), sides);
    }
    if *lost != Sides::default() {
        line("lost entries", *lost);
    }
    if wall_ms.before > 0.0 && wall_ms.after > 0.0 {
        print_functions(functions, by, params);
    } else {
        say("  no shares to compare: there are no samples on one side");
    }
    print_markers(markers, params.top);
}

/// The change as a part of the value before.
fn percent_of(Sides { before, after }: Sides<f64>) -> String {
    if before > 0.0 {
        format!("{:+.1} %", (after / before - 1.0) * 100.0)
    } else {
        String::new()
    }
}

fn print_functions(functions: &[FunctionChange], by: Time, params: TableParams) {
    let shown = functions.iter().filter_map(|function| {
        let shares = function.shares(by)?;
        (shares.largest_points() >= params.smallest).then_some((function, shares))
    });
    let shown: Vec<_> = shown.collect();
    let time = match by {
        Time::Cpu => "processor time",
        Time::Wall => "time, running or waiting",
    };
    if shown.is_empty() {
        say(&format!(
            "  no function's share of the {time} changed by {} points or more",
            params.smallest
        ));
        return;
    }
    say(&format!(
        "  {:^26}  {:^26}\n  {:>7} {:>7} {:>8}    {:>7} {:>7} {:>8}    function, % of the {time}",
        "self", "total", "before", "after", "change", "before", "after", "change"
    ));
    for (function, shares) in shown.iter().take(params.top) {
        let (own, total) = (share(shares.own), share(shares.total));
        say(&format!("  {own}  {total}  {}", plain(&function.function)));
    }
    say_more(shown.len(), params.top, "functions");
}

fn share(change: ShareChange) -> String {
    let mark = if change.is_more_than_noise { '*' } else { ' ' };
    format!(
        "{:>7.1} {:>7.1} {:>+8.1} {mark}",
        change.before_percent,
        change.after_percent,
        change.points()
    )
}

fn print_markers(markers: &[MarkerChange], top: usize) {
    let shown: Vec<_> = markers
        .iter()
        .filter(|marker| has_changed(marker))
        .collect();
    if shown.is_empty() {
        return;
    }
    say(&format!(
        "  {:^17}   {:^19}   {:^19}\n  {:>8} {:>8}   {:>9} {:>9}   {:>9} {:>9}   marker",
        "count", "median, ms", "p95, ms", "before", "after", "before", "after", "before", "after"
    ));
    for MarkerChange {
        marker,
        count,
        median_ms,
        p95_ms,
        ..
    } in shown.iter().take(top)
    {
        let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}"));
        let pair =
            |sides: &Sides<Option<f64>>| format!("{:>9} {:>9}", ms(sides.before), ms(sides.after));
        say(&format!(
            "  {:>8.0} {:>8.0}   {}   {}   {}",
            count.before,
            count.after,
            pair(median_ms),
            pair(p95_ms),
            plain(marker)
        ));
    }
    say_more(shown.len(), top, "markers");
}

fn say_more(count: usize, top: usize, what: &str) {
    let more = count.saturating_sub(top);
    if more > 0 {
        say(&format!("  and {more} more; --top shows more {what}"));
    }
}

fn has_changed(marker: &MarkerChange) -> bool {
    let number = |sides: Sides<Option<f64>>| sides.map(|number| number.unwrap_or(0.0));
    [
        marker.count,
        number(marker.median_ms),
        number(marker.p95_ms),
    ]
    .into_iter()
    .any(|Sides { before, after }| (after - before).abs() > before * MARKER_CHANGE)
}
