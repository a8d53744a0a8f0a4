//! Formats the answer `live.json` of a live page: groups and processes.

use serde::Deserialize;

use super::text::{self, Line, NAME, bytes, cut, none, time};
use crate::columns::{Side, aligned};
use crate::plain::plain;

/// The members of `live.json` that are shown.
#[derive(Debug, Deserialize)]
pub(super) struct Everything {
    session: Session,
    groups: Groups,
    processes: Processes,
    alerts: Vec<Alert>,
}

#[derive(Debug, Deserialize)]
struct Session {
    running: u64,
    held_bytes: u64,
    memory_limit: u64,
}

#[derive(Debug, Deserialize)]
struct Groups {
    window: String,
    interval_ns: u64,
    sort: String,
    total: usize,
    rows: Vec<Group>,
}

#[derive(Debug, Deserialize)]
struct Group {
    name: String,
    kind: String,
    ticks: u64,
    wall_ns: u64,
    cpu_ns: u64,
    off_cpu_ns: u64,
    blocking_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    longest_ns: u64,
    janky: u64,
    processes: u64,
}

#[derive(Debug, Deserialize)]
struct Processes {
    rows: Vec<TopProcess>,
}

#[derive(Debug, Deserialize)]
struct TopProcess {
    name: String,
    pid: u32,
    state: String,
    cpu_pct: Option<f64>,
    resident_bytes: Option<u64>,
    held_bytes: u64,
    rate: Option<f64>,
    dropped: u64,
}

#[derive(Debug, Deserialize)]
struct Alert {
    group: String,
    kind: String,
    highest_ns: u64,
    process_name: String,
}

impl Everything {
    /// Lines of at most `columns` characters; heads are highlighted if `is_terminal`.
    pub(super) fn shown(
        &self,
        is_terminal: bool,
        columns: Option<usize>,
        with_processes: bool,
    ) -> String {
        let mut lines = vec![Line::plain(self.summary())];
        let alert = self.alerts.first().map(shown_alert);
        lines.extend(alert.map(Line::plain));
        lines.extend(Line::table(self.groups.lines()));
        if with_processes {
            lines.extend(Line::table(self.processes.lines()));
        }
        text::joined(lines, is_terminal, columns)
    }

    fn summary(&self) -> String {
        let Session {
            running,
            held_bytes,
            memory_limit,
        } = &self.session;
        let Groups {
            window,
            interval_ns,
            sort,
            total,
            rows,
        } = &self.groups;
        let noun = if *running == 1 {
            "process"
        } else {
            "processes"
        };
        let window = if window == "start" {
            "since start".to_owned()
        } else {
            format!("last {}", time(*interval_ns))
        };
        format!(
            "{running} {noun} running, {} of {} recorded; {} of {total} groups, {window}, by {sort}",
            bytes(*held_bytes),
            bytes(*memory_limit),
            rows.len()
        )
    }
}

fn shown_alert(alert: &Alert) -> String {
    let Alert {
        group,
        kind,
        highest_ns,
        process_name,
    } = alert;
    plain(&format!(
        "last alert: {kind} {group} took {} in {process_name}",
        time(*highest_ns)
    ))
}

impl Groups {
    fn lines(&self) -> Vec<String> {
        let head = [
            "GROUP",
            "KIND",
            "TIME",
            "ON CPU",
            "OFF CPU",
            "BLOCKING",
            "ENTRIES",
            "P50",
            "P99",
            "LONGEST",
            ">64MS",
            "PROCESSES",
        ];
        let rows = self.rows.iter().map(|row| {
            let times = [row.wall_ns, row.cpu_ns, row.off_cpu_ns, row.blocking_ns].map(time);
            let runs = [row.median_ns, row.p99_ns, row.longest_ns].map(time);
            let [wall, on_cpu, off_cpu, blocking] = times;
            let [median, p99, longest] = runs;
            let ticks = row.ticks.to_string();
            let janky = row.janky.to_string();
            let processes = row.processes.to_string();
            [
                cut(&row.name, NAME),
                row.kind.clone(),
                wall,
                on_cpu,
                off_cpu,
                blocking,
                ticks,
                median,
                p99,
                longest,
                janky,
                processes,
            ]
        });
        aligned(Side::Left, head, rows)
    }
}

impl Processes {
    fn lines(&self) -> Vec<String> {
        let head = [
            "PROCESS",
            "PID",
            "STATE",
            "CPU",
            "RESIDENT",
            "RECORDING",
            "ENTRIES/S",
            "DROPPED",
        ];
        let rows = self.rows.iter().map(|row| {
            let cpu = row
                .cpu_pct
                .map_or_else(none, |share| format!("{share:.1}%"));
            let rate = row.rate.map_or_else(none, |rate| format!("{rate:.0}"));
            let resident = row.resident_bytes.map_or_else(none, bytes);
            let pid = row.pid.to_string();
            let held = bytes(row.held_bytes);
            let dropped = row.dropped.to_string();
            [
                cut(&row.name, NAME),
                pid,
                cut(&row.state, NAME),
                cpu,
                resident,
                held,
                rate,
                dropped,
            ]
        });
        aligned(Side::Left, head, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Everything {
        let text = r#"{"session":{"running":2,"held_bytes":1048576,"memory_limit":8388608},
            "groups":{"window":"start","interval_ns":5,"sort":"wall","total":9,"rows":[
              {"name":"spell\u001b[31m checker of a very long name indeed","kind":"plugin","ticks":12,"wall_ns":1500000,
               "cpu_ns":0,"off_cpu_ns":0,"blocking_ns":999,"median_ns":2000,"p99_ns":64000000,"longest_ns":3000000000,"janky":4,"processes":2}]},
            "processes":{"rows":[{"name":"worker","pid":7,"state":"recording","cpu_pct":12.25,"resident_bytes":null,
               "held_bytes":0,"rate":null,"dropped":1}]},
            "alerts":[{"group":"g","kind":"plugin","highest_ns":70000000,"process_name":"worker"}]}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn l1_the_table_in_a_pipe_is_plain_text() {
        let text = everything().shown(false, None, true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "2 processes running, 1.0 MiB of 8.0 MiB recorded; 1 of 9 groups, since start, by wall"
        );
        assert_eq!(lines[1], "last alert: plugin g took 70.0 ms in worker");
        assert!(
            lines[2].starts_with("GROUP ") && lines[2].ends_with("PROCESSES"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("spell\u{fffd}[31m checker of a very lon…  plugin  1.50 ms  –"),
            "{text}"
        );
        assert!(
            lines[3].ends_with("2.00 µs  64.0 ms  3.00 s   4      2"),
            "{text}"
        );
        assert!(
            lines[5].starts_with("worker   7    recording  12.2%"),
            "{text}"
        );
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn in_a_terminal_lines_fit_and_heads_stand_out() {
        let shown = everything().shown(true, Some(20), false);
        assert_eq!(shown.matches(text::BOLD).count(), 1);
        let widest = shown
            .replace(text::BOLD, "")
            .replace(text::PLAIN, "")
            .lines()
            .map(|line| line.chars().count())
            .max();
        assert_eq!(widest, Some(20));
    }
}
