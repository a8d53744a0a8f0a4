//! The processes of a batch: when each began and ended, what it lost, and its memory.
//!
//! The rows come from the log of the profile. A process that is only in the threads of the profile,
//! as in a profile of another tool, has a row without a verdict. Invariant: these are the last rows
//! of a batch, so a batch with processes has all its rows.

use std::collections::BTreeMap;

use super::FleetTable;
use super::rows::{Row, Rows, instant};
use crate::ExportError;
use crate::recording::Thread;
use profiler_reader::bounded_ns;
use profiler_reader::{CounterSeries, GatheredProcess, Survey};

/// The counter of a process's memory.
const RESIDENT: &str = "Resident memory";

/// What the threads and counters of a profile say about its processes.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The processes of the threads, by number.
    processes: BTreeMap<String, SeenProcess>,
    /// The latest resident memory in bytes, by number without a suffix such as `.1`. Of processes
    /// with one number, the last one's.
    resident: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct SeenProcess {
    name: String,
    threads: u64,
}

impl Seen {
    /// Notes the process of a thread.
    pub(super) fn thread(&mut self, thread: &Thread<'_>) {
        let seen = self.processes.entry(thread.pid.to_owned()).or_default();
        seen.threads += 1;
        if seen.name.is_empty() {
            seen.name = thread.process.to_owned();
        }
    }

    /// Notes the memory of a process, if the counter is that.
    pub(super) fn counter(&mut self, counter: &CounterSeries) {
        let pid = counter.pid.as_deref().filter(|_| counter.name == RESIDENT);
        if let (Some(pid), Some(last)) = (pid, counter.values().last()) {
            self.resident
                .insert(without_suffix(pid).to_owned(), last.value as u64);
        }
    }

    /// The latest resident memory of a process; 0 if the profile does not have it.
    fn resident_bytes(&self, pid: &str) -> u64 {
        let of_process = self.resident.get(without_suffix(pid));
        of_process.copied().unwrap_or(0)
    }
}

/// Writes the processes.
pub(super) fn write(
    survey: &Survey,
    mut seen: Seen,
    rows: &mut Rows<'_>,
) -> Result<(), ExportError> {
    let at = |ms: f64| bounded_ns(ms);
    let captured = rows
        .identity
        .unix_ns(survey.meta.profiling_end_time.map_or(0, at));
    let logs = survey
        .parts
        .iter()
        .flat_map(|part| part.logs.gathering.values());
    for process in logs.flat_map(|log| &log.processes) {
        // A later program of the process has a number such as `12.1` in the threads.
        let pid = process.pid.to_string();
        seen.processes
            .retain(|known, _| without_suffix(known) != pid);
        let times = Lifetime {
            captured,
            began: process.began_ms.map(|ms| rows.identity.unix_ns(at(ms))),
            ended: process.ended_ms.map(|ms| rows.identity.unix_ns(at(ms))),
        };
        rows.add(FleetTable::Processes, captured, |row| {
            write_process(process, &pid, times, seen.resident_bytes(&pid), row);
        })?;
    }
    for (pid, process) in std::mem::take(&mut seen.processes) {
        rows.add(FleetTable::Processes, captured, |row| {
            let process = GatheredProcess {
                name: process.name,
                threads: process.threads,
                ..GatheredProcess::default()
            };
            let times = Lifetime {
                captured,
                ..Lifetime::default()
            };
            write_process(&process, &pid, times, seen.resident_bytes(&pid), row);
        })?;
    }
    Ok(())
}

/// Instants in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
struct Lifetime {
    captured: i64,
    began: Option<i64>,
    ended: Option<i64>,
}

fn write_process(
    process: &GatheredProcess,
    pid: &str,
    times: Lifetime,
    resident_bytes: u64,
    row: &mut Row,
) {
    row.entry_str("process", &process.name);
    row.entry_str("pid", pid);
    row.entry_u64("parent_pid", process.parent.unwrap_or(0));
    row.entry_u64("captured_ns", instant(times.captured));
    row.entry_u64("began_ns", times.began.map_or(0, instant));
    row.entry_u64("ended_ns", times.ended.map_or(0, instant));
    row.entry_str("verdict", &process.verdict);
    for (column, count) in [
        ("threads", process.threads),
        ("recorded", process.recorded),
        ("delivered", process.delivered),
        ("outside", process.outside_of_range()),
        ("evicted", process.newly_evicted()),
        ("unfinished", process.unfinished),
        ("dropped", sum(process.dropped.values())),
        ("resident_bytes", resident_bytes),
    ] {
        row.entry_u64(column, count);
    }
    let reasons = process.dropped.iter().filter(|(_, count)| **count > 0);
    let reasons: Vec<_> = reasons.collect();
    row.entry_list("drop.reason", &reasons, |(reason, _), row| {
        row.string(reason)
    });
    row.entry_list("drop.count", &reasons, |(_, count), row| row.u64(**count));
}

/// The sum of counts from a file, which may be wrong.
fn sum<'c>(counts: impl Iterator<Item = &'c u64>) -> u64 {
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// The number of a process without the suffix of a later process or program, as in `12.1`.
fn without_suffix(pid: &str) -> &str {
    pid.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_hostile_file_have_a_sum() {
        assert_eq!(sum([1, 2].iter()), 3);
        assert_eq!(sum([u64::MAX, 2].iter()), u64::MAX);
    }
}
