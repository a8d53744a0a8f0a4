//! The table of waits: for whom the threads of each process wait, from the live page's samples.
//!
//! Formats the answer `waits.json`.

use serde::Deserialize;

use super::text::{self, Line, cut, digits, time};
use crate::columns::{Side, aligned};

/// The longest shown name of what a process waits for, in characters.
const WHOM: usize = 60;

/// The members of `waits.json` that are shown.
#[derive(Debug, Deserialize)]
pub(super) struct WaitsAnswer {
    passes: u64,
    is_window_read: bool,
    /// Which threads of the server have stopped, and why.
    trouble: Vec<String>,
    from_ns: i64,
    to_ns: i64,
    total: usize,
    rows: Vec<WaitRow>,
}

#[derive(Debug, Deserialize)]
struct WaitRow {
    pid: u32,
    name: String,
    whom: String,
    kind: String,
    wait_ns: u64,
}

impl WaitsAnswer {
    /// Whether a later answer for the same time cannot contain more.
    pub(super) const fn is_final(&self) -> bool {
        (self.passes > 0 && self.is_window_read) || !self.trouble.is_empty()
    }

    /// The first `rows` rows whose process, or what it waits for, contains the text `find`; all
    /// rows for 0. Lines of at most `columns` characters; heads are highlighted if `is_terminal`.
    pub(super) fn shown(
        &self,
        (rows, find): (usize, &str),
        is_terminal: bool,
        columns: Option<usize>,
    ) -> String {
        let most = if rows == 0 { usize::MAX } else { rows };
        let find = find.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&find);
        let all = self.rows.iter();
        let found: Vec<&WaitRow> = all.filter(|row| has(&row.name) || has(&row.whom)).collect();
        let shown = found.get(..most.min(found.len())).unwrap_or_default();
        let length = u64::try_from(self.to_ns.saturating_sub(self.from_ns)).unwrap_or(0);
        let summary = format!(
            "{} of {} waits for other processes and threads, in {}",
            shown.len(),
            self.total,
            time(length)
        );
        let mut lines = vec![Line::plain(summary)];
        if !self.is_final() {
            let reading = "the recorded samples are still being read";
            lines.push(Line::plain(reading.to_owned()));
        }
        // The text of a panic may contain anything.
        let trouble = self.trouble.iter().map(|text| cut(text, 2 * WHOM));
        lines.extend(trouble.map(Line::plain));
        lines.extend(Line::table(table(shown, length)));
        text::joined(lines, is_terminal, columns)
    }
}

/// The table of these rows, of a time of this length.
#[allow(clippy::cast_precision_loss)] // shown with three digits
fn table(rows: &[&WaitRow], length_ns: u64) -> Vec<String> {
    let rows = rows.iter().map(|row| {
        let threads = match length_ns {
            0 => text::none(),
            length => digits(row.wait_ns as f64 / length as f64),
        };
        [
            time(row.wait_ns),
            threads,
            format!("{} ({})", cut(&row.name, text::NAME), row.pid),
            cut(&row.kind, text::NAME),
            cut(&row.whom, WHOM),
        ]
    });
    let head = ["TIME", "THREADS", "PROCESS", "KIND", "WAITS FOR"];
    aligned(Side::Left, head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> WaitsAnswer {
        serde_json::from_str(
            r#"{"passes":2,"is_window_read":true,"trouble":[],"window":"10s","from_ns":0,
            "to_ns":10000000000,"total":3,"rows":[
            {"pid":7,"name":"parent","whom":"worker [9]","whom_pids":[9],"kind":"pipe",
             "wait_ns":20000000000},
            {"pid":9,"name":"worker\u001b","whom":"database [11]","whom_pids":[11],"kind":"TCP",
             "wait_ns":2500000000}]}"#,
        )
        .unwrap()
    }

    fn cells(line: &str) -> Vec<&str> {
        line.split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect()
    }

    #[test]
    fn each_row_says_who_waits_for_whom_and_with_how_many_threads() {
        let text = answer().shown((0, ""), false, None);
        let lines: Vec<&str> = text.lines().collect();
        let summary = "2 of 3 waits for other processes and threads, in 10.0 s";
        assert_eq!(lines[0], summary);
        let heads = ["TIME", "THREADS", "PROCESS", "KIND", "WAITS FOR"];
        assert_eq!(cells(lines[1]), heads);
        let first = ["20.0 s", "2.00", "parent (7)", "pipe", "worker [9]"];
        assert_eq!(cells(lines[2]), first);
        let second = [
            "2.50 s",
            "0.25",
            "worker\u{fffd} (9)",
            "TCP",
            "database [11]",
        ];
        assert_eq!(cells(lines[3]), second);
    }

    #[test]
    fn rows_are_found_by_both_sides_and_limited() {
        let shown = |rows, find| answer().shown((rows, find), false, None).lines().count();
        assert_eq!(shown(1, ""), 3);
        assert_eq!(
            shown(0, "WORKER"),
            4,
            "as a holder and as a waiting process"
        );
        assert_eq!(shown(0, "data"), 3);
        assert_eq!(shown(0, "nothing"), 2);
    }

    #[test]
    fn an_answer_before_the_samples_are_read_is_asked_for_again() {
        let mut early = answer();
        early.is_window_read = false;
        assert!(!early.is_final());
        let text = early.shown((0, ""), false, None);
        assert!(text.contains("still being read"), "{text}");
        early.trouble.push("the reader has stopped".to_owned());
        assert!(early.is_final());
    }
}
