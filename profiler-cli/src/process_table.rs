//! The table of processes that `info` and `recover` print: a tree, with one line for each process.
//!
//! A process is below the one that started it, as far as the profile says. Several programs that
//! one process has executed are several lines.

use crate::console::say;
use crate::plain::plain;
use crate::process_row::Row;
use crate::process_tree::{Node, TreePosition, ordered};

const HEADS: [&str; 8] = [
    "pid",
    "threads",
    "recorded",
    "delivered",
    "outside",
    "evicted",
    "dropped",
    "unfinished",
];
/// The columns by which a process is moved to the right of its parent.
const STEP: usize = 2;
/// The deepest level that is shown as such.
const DEEPEST: usize = 16;
/// The verdict on a process whose data is complete.
const COMPLETE: &str = "complete";

/// Prints a table of processes.
pub(crate) fn print_table(rows: &[Row]) {
    lines(rows).iter().for_each(|line| say(line));
}

/// The lines of a table.
fn lines(rows: &[Row]) -> Vec<String> {
    let places: Vec<(&Row, String)> = ordered(&nodes(rows))
        .into_iter()
        .filter_map(|TreePosition { index, depth }| {
            let row = rows.get(index)?;
            Some((row, indented(&row.name, depth)))
        })
        .collect();
    let widths = places.iter().map(|(_, name)| name.chars().count());
    let width = widths.max().unwrap_or(0).max("process".len());
    let with_bytes = rows.iter().any(|row| row.held_bytes.is_some());
    let with_time = rows.iter().any(|row| row.cpu_ms.is_some());
    let with_share = rows.iter().any(|row| row.observed.is_some());
    let further = [
        with_bytes.then_some("bytes"),
        with_time.then_some("cpu ms"),
        with_share.then_some("in samples"),
    ];
    let heads = HEADS.into_iter().chain(further.into_iter().flatten());
    let head = format!("{:<width$}{}  verdict", "process", columns(heads));
    let line = |(row, name): &(&Row, String)| {
        let mut cells = cells(row);
        if with_time {
            let time = row.cpu_ms.map(|ms| format!("{ms:.1}"));
            cells.push(time.unwrap_or_default());
        }
        if with_share {
            cells.push(in_samples(row));
        }
        let cells = columns(cells.iter().map(String::as_str));
        format!("{name:<width$}{cells}  {}", plain(&verdict(row)))
    };
    std::iter::once(head)
        .chain(places.iter().map(line))
        .collect()
}

fn nodes(rows: &[Row]) -> Vec<Node<'_>> {
    fn node(row: &Row) -> Node<'_> {
        Node {
            host: row.host.as_deref(),
            pid: row.pid,
            parent: row.parent_pid,
        }
    }
    rows.iter().map(node).collect()
}

fn indented(name: &str, depth: usize) -> String {
    format!("{:1$}{2}", "", depth.min(DEEPEST) * STEP, plain(name))
}

fn columns<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    cells.map(|cell| format!("  {cell:>10}")).collect()
}

fn cells(row: &Row) -> Vec<String> {
    let counts = row.dropped.values();
    let dropped = counts.fold(0_u64, |sum, count| sum.saturating_add(*count));
    let numbers = [
        row.pid,
        row.threads,
        row.recorded,
        row.delivered,
        row.outside,
        row.evicted,
        dropped,
        row.unfinished,
    ];
    numbers
        .iter()
        .chain(&row.held_bytes)
        .map(u64::to_string)
        .collect()
}

/// The part of a process's processor time that is in samples, rounded down. Empty if it is not
/// known.
fn in_samples(row: &Row) -> String {
    let known = row.observed.filter(|time| time.used_us > 0);
    known.map_or_else(String::new, |time| {
        format!("{} %", time.recorded_us.saturating_mul(100) / time.used_us)
    })
}

/// The verdict on a process, with the times of its start and its end if another session records it.
/// A process without a known end was still running when the profile was written.
fn verdict(row: &Row) -> String {
    let verdict = row.verdict.clone();
    match (row.recorded_by_pid, row.began_ms, row.ended_ms) {
        (Some(_), Some(began), Some(ended)) => {
            format!("{verdict}; it ran from {began:.1} ms to {ended:.1} ms")
        }
        (Some(_), Some(began), None) => format!("{verdict}; it ran from {began:.1} ms on"),
        (None, Some(_), None) if verdict == COMPLETE => format!("{verdict}, still running"),
        _ => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, pid: u64, parent: Option<u64>) -> Row {
        Row {
            name: name.to_owned(),
            pid,
            parent_pid: parent,
            verdict: "complete".to_owned(),
            ..Row::default()
        }
    }

    #[test]
    fn a_process_is_below_the_one_that_started_it_and_two_lives_are_two_lines() {
        let rows = [
            row("sh", 1, None),
            row("make", 2, Some(1)),
            row("other", 3, None),
            row("cc", 4, Some(2)),
            row("make", 2, Some(1)),
        ];
        let lines = lines(&rows);
        let shown: Vec<&str> = lines.iter().map(|line| line.get(..8).unwrap()).collect();
        let expected = [
            "process ", "sh      ", "  make  ", "    cc  ", "  make  ", "other   ",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn processes_of_different_hosts_are_not_below_each_other() {
        let on = |host: &str, row: Row| Row {
            host: Some(host.to_owned()),
            ..row
        };
        let rows = [
            on("a", row("sh", 1, None)),
            on("b", row("sh", 1, None)),
            on("a", row("make", 2, Some(1))),
        ];
        let lines = lines(&rows);
        let shown: Vec<&str> = lines.iter().map(|line| line.get(..6).unwrap()).collect();
        assert_eq!(shown, ["proces", "sh    ", "  make", "sh    "]);
    }

    #[test]
    fn the_columns_are_below_each_other_at_every_depth() {
        let timed = Row {
            cpu_ms: Some(1.5),
            ..row("a long name", 2, Some(1))
        };
        let rows = [row("a", 1, None), timed];
        let ends = lines(&rows).into_iter().map(|line| {
            let at = line.find("verdict").or(line.find("complete"));
            at.unwrap()
        });
        assert_eq!(ends.collect::<std::collections::BTreeSet<_>>().len(), 1);
    }

    #[test]
    fn the_life_of_a_process_that_another_session_records_is_told() {
        let mut other = Row {
            recorded_by_pid: Some(3),
            began_ms: Some(1.3),
            ..row("worker", 4, Some(3))
        };
        assert_eq!(verdict(&other), "complete; it ran from 1.3 ms on");
        other.ended_ms = Some(10.0);
        let told = "complete; it ran from 1.3 ms to 10.0 ms";
        assert_eq!(verdict(&other), told);
        assert_eq!(verdict(&row("sh", 1, None)), "complete");
    }

    #[test]
    fn a_process_without_an_end_still_ran() {
        let mut daemon = Row {
            began_ms: Some(1.0),
            ..row("daemon", 1, None)
        };
        assert_eq!(verdict(&daemon), "complete, still running");
        daemon.ended_ms = Some(2.0);
        assert_eq!(verdict(&daemon), "complete");
    }
}
