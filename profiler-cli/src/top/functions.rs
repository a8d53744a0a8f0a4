//! The table of functions: where the processes spend their time, from the live page's flame graph.
//!
//! Formats the answer `flame.json`. The server follows the samples of all processes while it is
//! asked; the first answers come before it has read the samples that are recorded already.

use serde::Deserialize;

use super::text::{self, Line, cut, percent, time};
use crate::columns::{Side, aligned};

/// The longest shown name of a function, in characters.
const NAME: usize = 80;

/// The members of `flame.json` that are shown.
#[derive(Debug, Deserialize)]
pub(super) struct FunctionsAnswer {
    passes: u64,
    is_behind: bool,
    /// Which threads of the server have stopped, and why.
    #[serde(default)]
    trouble: Vec<String>,
    #[serde(default)]
    window: String,
    time: String,
    range: Range,
    before: Option<Range>,
    total_ns: u64,
    on_cpu_ns: u64,
    off_cpu_ns: u64,
    unnamed: u64,
    missing: Missing,
    process_count: u64,
    functions: Vec<Function>,
    table: Table,
}

#[derive(Debug, Deserialize)]
struct Range {
    from_ns: i64,
    to_ns: i64,
}

#[derive(Debug, Deserialize)]
struct Missing {
    evicted_before: u64,
    evicted_since: u64,
    unreadable: u64,
    #[serde(default)]
    behind: u64,
    left_out_ns: u64,
    #[serde(default)]
    frames: u64,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    module: String,
}

#[derive(Debug, Deserialize)]
struct Table {
    sort: String,
    total: usize,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    function: usize,
    self_ns: u64,
    total_ns: u64,
    before_self_ns: u64,
}

impl Range {
    fn length_ns(&self) -> u64 {
        u64::try_from(self.to_ns.saturating_sub(self.from_ns)).unwrap_or(0)
    }
}

impl FunctionsAnswer {
    /// Whether the server has read the samples that were recorded before the first request.
    const fn is_complete(&self) -> bool {
        self.passes > 0 && !self.is_behind
    }

    /// Whether a later answer cannot contain more: all recorded samples were read, and all names
    /// were looked up, or a thread that does this has stopped.
    pub(super) const fn is_final(&self) -> bool {
        (self.is_complete() && self.unnamed == 0) || !self.trouble.is_empty()
    }

    /// Lines of at most `columns` characters; heads are highlighted if `is_terminal`.
    pub(super) fn shown(&self, is_terminal: bool, columns: Option<usize>) -> String {
        let mut lines = vec![Line::plain(self.summary())];
        lines.extend(self.remarks().map(Line::plain));
        lines.extend(Line::table(self.lines()));
        text::joined(lines, is_terminal, columns)
    }

    fn summary(&self) -> String {
        let length = self.range.length_ns();
        format!(
            "{} processes: {} on CPU, {} off CPU in {}; {} of {} functions by {} ({})",
            self.process_count,
            time(self.on_cpu_ns),
            time(self.off_cpu_ns),
            time(length),
            self.table.rows.len(),
            self.table.total,
            self.table.sort,
            self.time
        )
    }

    fn remarks(&self) -> impl Iterator<Item = String> {
        let Missing {
            evicted_before,
            evicted_since,
            unreadable,
            behind,
            left_out_ns,
            frames,
        } = self.missing;
        let all = [
            (
                !self.is_complete(),
                "the recorded samples are still being read".to_owned(),
            ),
            (
                self.unnamed > 0,
                format!(
                    "the names of {} addresses are being looked up",
                    self.unnamed
                ),
            ),
            (
                // The other windows do not begin at the oldest entry.
                evicted_before > 0 && self.window == "start",
                format!("{evicted_before} older entries had been evicted"),
            ),
            (
                evicted_since > 0,
                format!("{evicted_since} entries were evicted before they were read"),
            ),
            (
                unreadable > 0,
                format!("{unreadable} processes could not be read"),
            ),
            (
                behind > 0,
                format!("{behind} processes record faster than they are read"),
            ),
            (
                left_out_ns > 0,
                format!("{} did not fit", time(left_out_ns)),
            ),
            (frames > 0, format!("{frames} frames did not fit")),
        ];
        let missing = all.into_iter().filter(|(is_so, _)| *is_so);
        let missing = missing.map(|(_, text)| text);
        // The text of a panic may contain anything.
        let trouble = self.trouble.iter().map(|text| cut(text, NAME * 2));
        let said: Vec<String> = trouble.chain(missing).collect();
        (!said.is_empty()).then(|| said.join("; ")).into_iter()
    }

    fn lines(&self) -> Vec<String> {
        let rows = self.table.rows.iter().map(|row| {
            let function = self.functions.get(row.function);
            let name = function.map_or("", |function| &function.name);
            let module = function.map_or("", |function| &function.module);
            [
                percent(row.self_ns, self.total_ns),
                time(row.self_ns),
                percent(row.total_ns, self.total_ns),
                time(row.total_ns),
                self.change(row),
                cut(module, super::text::NAME),
                cut(name, NAME),
            ]
        });
        let head = [
            "SELF%", "SELF", "TOTAL%", "TOTAL", "CHANGE", "LIBRARY", "FUNCTION",
        ];
        aligned(Side::Left, head, rows)
    }

    /// The change of the own time to the window before, in percent of a processor.
    #[allow(clippy::cast_precision_loss)] // shown with three digits
    fn change(&self, row: &Row) -> String {
        let Some(before) = &self.before else {
            return text::none();
        };
        let share = |ns: u64, range: &Range| ns as f64 * 100.0 / range.length_ns().max(1) as f64;
        let change = share(row.self_ns, &self.range) - share(row.before_self_ns, before);
        let sign = if change < 0.0 { "-" } else { "+" };
        format!("{sign}{}%", text::digits(change.abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_reader_has_stopped_is_not_asked_again_and_says_why() {
        let answer: FunctionsAnswer = serde_json::from_str(
            r#"{"passes":3,"is_behind":true,"trouble":["the reader has stopped: \u001b[2J"],
            "time":"on-cpu","range":{"from_ns":0,"to_ns":10000000000},
            "before":null,"total_ns":0,"on_cpu_ns":0,"off_cpu_ns":0,"unnamed":2,"process_count":0,
            "missing":{"evicted_before":0,"evicted_since":0,"unreadable":0,"behind":1,"left_out_ns":0},
            "functions":[],"table":{"sort":"self","total":0,"rows":[]}}"#,
        )
        .unwrap();
        assert!(answer.is_final());
        let text = answer.shown(false, None);
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with("the reader has stopped: \u{fffd}[2J; "),
            "{text}"
        );
        assert!(
            line.ends_with("1 processes record faster than they are read"),
            "{text}"
        );
    }

    #[test]
    fn entries_that_had_been_evicted_are_missing_only_in_the_time_since_the_start() {
        let remarks = |window: &str| {
            let answer = r#"{"passes":3,"is_behind":false,"window":"WINDOW","time":"on-cpu",
                "range":{"from_ns":0,"to_ns":1},"before":null,"total_ns":0,"on_cpu_ns":0,
                "off_cpu_ns":0,"unnamed":0,"process_count":0,"missing":{"evicted_before":7,
                "evicted_since":0,"unreadable":0,"left_out_ns":0,"frames":3},
                "functions":[],"table":{"sort":"self","total":0,"rows":[]}}"#;
            let answer = answer.replace("WINDOW", window);
            let answer: FunctionsAnswer = serde_json::from_str(&answer).unwrap();
            answer.remarks().collect::<Vec<_>>()
        };
        let frames = "3 frames did not fit";
        assert_eq!(remarks("10s"), [frames]);
        let both = format!("7 older entries had been evicted; {frames}");
        assert_eq!(remarks("start"), [both]);
    }

    #[test]
    fn the_table_of_functions_shows_shares_and_what_is_missing() {
        let answer: FunctionsAnswer = serde_json::from_str(
            r#"{"passes":3,"is_behind":false,"time":"on-cpu","range":{"from_ns":0,"to_ns":10000000000},
            "before":{"from_ns":0,"to_ns":5000000000},"total_ns":2000000000,"on_cpu_ns":2000000000,
            "off_cpu_ns":0,"unnamed":2,"process_count":3,
            "missing":{"evicted_before":0,"evicted_since":0,"unreadable":1,"left_out_ns":0},
            "functions":[{"name":"outer","module":"app"},{"name":"inner\u001b","module":"app"}],
            "table":{"sort":"self","total":9,"rows":[
              {"function":1,"self_ns":1500000000,"total_ns":1500000000,"before_self_ns":1000000000},
              {"function":0,"self_ns":0,"total_ns":2000000000,"before_self_ns":0}]}}"#,
        )
        .unwrap();
        let text = answer.shown(false, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "3 processes: 2.00 s on CPU, – off CPU in 10.0 s; 2 of 9 functions by self (on-cpu)"
        );
        assert_eq!(
            lines[1],
            "the names of 2 addresses are being looked up; 1 processes could not be read"
        );
        assert!(lines[2].starts_with("SELF%"), "{text}");
        let cells = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            cells(lines[3]),
            [
                "75.0%",
                "1.50",
                "s",
                "75.0%",
                "1.50",
                "s",
                "-5.00%",
                "app",
                "inner\u{fffd}"
            ]
        );
        assert_eq!(
            cells(lines[4]),
            ["0.00%", "–", "100%", "2.00", "s", "+0.00%", "app", "outer"]
        );
    }
}
