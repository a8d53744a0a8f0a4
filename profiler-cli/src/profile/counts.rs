//! The entry counts of every process, from the profile's own logs.
//!
//! Called by [`super::read`] and by `profiler diff`. The rows come from `profileGatheringLog`,
//! which lists the missing processes, too. A profile without that log (of a single process, or of
//! another profiler) yields a row per process that it contains. Both formats have the same logs; in
//! the processed format the outermost object has the logs of all processes. The processor time of a
//! process is the sum over its threads in the profile.

use std::collections::{BTreeMap, HashMap, VecDeque};

use profiler_reader::{
    EntryTotals, GatheredProcess, Logs, Meta, Part, PartId, ProfilingLog, RawThread, Survey,
    Thread, system_pid,
};

use crate::process_row::Row;
use crate::remarks::Remark;

/// A thread's data about its process.
#[derive(Debug)]
pub(crate) struct Head {
    part: PartId,
    /// As in the file: a number or a text.
    pid: String,
    process_name: Option<String>,
    is_main: bool,
    /// Its processor time in milliseconds. `None` if the profile's unit is not a unit of time.
    cpu_ms: Option<f64>,
}

impl Head {
    /// The data of a thread in the profile that `meta` describes.
    pub(crate) fn of(thread: &Thread<'_>, meta: &Meta) -> Self {
        let first = usize::from(!meta.knows_first_cpu());
        let measured = (first..thread.nodes.len()).filter_map(|row| thread.raw.cpu_ns(row, meta));
        let used_ns = measured.fold(0_u64, u64::saturating_add);
        let RawThread {
            pid, process_name, ..
        } = thread.raw;
        let pid = pid.clone();
        let process_name = process_name.clone();
        Self {
            part: thread.part,
            pid,
            process_name,
            is_main: thread.raw.is_main(),
            cpu_ms: meta.cpu_unit_ns().map(|_| used_ns as f64 / 1e6),
        }
    }

    /// The process's number: 123 also for `123.1`, which is a second process with that number, and
    /// for `HOST:123` in a merged profile.
    fn pid_number(&self) -> u64 {
        system_pid(&self.pid).unwrap_or(0)
    }
}

/// A row for every process. Takes the logs out of `survey`.
pub(crate) fn rows(survey: &mut Survey, threads: Vec<Head>) -> Vec<Row> {
    let mut parts = std::mem::take(&mut survey.parts);
    let Some(root) = parts.first_mut() else {
        return Vec::new();
    };
    let Logs {
        profiling,
        gathering,
    } = std::mem::take(&mut root.logs);
    let logged = gathering.into_values().flat_map(|log| log.processes);
    let logged: Vec<GatheredProcess> = logged.collect();
    if !logged.is_empty() {
        return rows_of_log(logged, threads);
    }
    if survey.meta.is_processed() {
        return rows_by_pid(threads, profiling);
    }
    root.logs.profiling = profiling;
    let mut by_part = grouped(threads, |head| head.part.0);
    let row = |(at, part): (usize, Part)| {
        let row = row_of(&by_part.remove(&at).unwrap_or_default(), part.product);
        with_totals(
            row,
            part.logs.profiling.into_values().find_map(|log| log.total),
        )
    };
    parts.into_iter().enumerate().map(row).collect()
}

/// The rows of a log. The programs of a process are in the same order in the log and among the
/// threads.
fn rows_of_log(logged: Vec<GatheredProcess>, threads: Vec<Head>) -> Vec<Row> {
    let mut times = times_by_pid(threads);
    let row = |process: GatheredProcess| {
        let programs = (process.threads > 0)
            .then(|| times.get_mut(&process.pid_in_profile()))
            .flatten();
        let cpu_ms = programs.and_then(VecDeque::pop_front).flatten();
        Row {
            cpu_ms,
            ..row_of_log(process)
        }
    };
    logged.into_iter().map(row).collect()
}

/// The processor times of the programs of each process, by the number of the process's first
/// program.
fn times_by_pid(threads: Vec<Head>) -> HashMap<String, VecDeque<Option<f64>>> {
    let mut programs: Vec<(String, Option<f64>)> = Vec::new();
    let mut places: HashMap<(usize, String), usize> = HashMap::new();
    for Head {
        part, pid, cpu_ms, ..
    } in threads
    {
        let place = *places
            .entry((part.0, pid.clone()))
            .or_insert(programs.len());
        match programs.get_mut(place) {
            Some((_, sum)) => *sum = sum.zip(cpu_ms).map(|(sum, more)| sum + more),
            None => programs.push((pid, cpu_ms)),
        }
    }
    let mut times: HashMap<String, VecDeque<Option<f64>>> = HashMap::new();
    for (pid, cpu_ms) in programs {
        let first = first_program(&pid).to_owned();
        times.entry(first).or_default().push_back(cpu_ms);
    }
    times
}

/// The number of a process's first program: `HOST:12` for `HOST:12.1`.
fn first_program(pid: &str) -> &str {
    let host = pid.rfind(':').map_or(0, |colon| colon + 1);
    let number = pid.get(host..).unwrap_or_default();
    let length = number.find('.').unwrap_or(number.len());
    pid.get(..host + length).unwrap_or(pid)
}

fn row_of_log(log: GatheredProcess) -> Row {
    Row {
        name: log.name,
        pid: log.pid,
        host: log.host,
        parent_pid: log.parent,
        recorded_by_pid: log.recorded_by,
        began_ms: log.began_ms,
        ended_ms: log.ended_ms,
        threads: log.threads,
        recorded: log.recorded,
        delivered: log.delivered,
        outside: log.outside,
        evicted: log.evicted,
        dropped: log.dropped,
        unfinished: log.unfinished,
        verdict: log.verdict,
        observed: log.observed,
        ..Row::default()
    }
}

/// The rows of a profile without that log, in the format that has all threads in one list.
fn rows_by_pid(threads: Vec<Head>, mut logs: BTreeMap<String, ProfilingLog>) -> Vec<Row> {
    let order: Vec<String> = threads.iter().map(|head| head.pid.clone()).collect();
    let mut by_pid = grouped(threads, |head| head.pid.clone());
    let row = |pid: String| {
        let row = row_of(&by_pid.remove(&pid)?, None);
        Some(with_totals(
            row,
            logs.remove(&pid).and_then(|log| log.total),
        ))
    };
    order.into_iter().filter_map(row).collect()
}

fn grouped<K: Ord>(threads: Vec<Head>, key: impl Fn(&Head) -> K) -> BTreeMap<K, Vec<Head>> {
    let mut groups: BTreeMap<K, Vec<Head>> = BTreeMap::new();
    for head in threads {
        groups.entry(key(&head)).or_default().push(head);
    }
    groups
}

/// The row of a process, without entry counts.
fn row_of(threads: &[Head], product: Option<String>) -> Row {
    let main = threads
        .iter()
        .find(|thread| thread.is_main)
        .or(threads.first());
    let name = main
        .and_then(|thread| thread.process_name.clone())
        .filter(|name| !name.is_empty());
    Row {
        name: product
            .filter(|product| !product.is_empty())
            .or(name)
            .unwrap_or_default(),
        pid: main.map_or(0, Head::pid_number),
        threads: threads.len() as u64,
        cpu_ms: threads.iter().map(|thread| thread.cpu_ms).sum(),
        verdict: "unknown".to_owned(),
        ..Row::default()
    }
}

fn with_totals(row: Row, totals: Option<EntryTotals>) -> Row {
    let Some(totals) = totals else { return row };
    Row {
        recorded: totals.recorded,
        delivered: totals.delivered,
        outside: totals.outside,
        evicted: totals.evicted,
        unfinished: totals.unfinished,
        dropped: totals.into_dropped(),
        ..row
    }
}

/// The remarks of processes about missing data.
pub(super) fn remarks(survey: &Survey, threads: &[Head]) -> Vec<Remark> {
    let named = threads.iter().filter_map(|thread| {
        let name = thread.process_name.as_deref()?;
        Some((thread.pid.as_str(), name))
    });
    let names: HashMap<&str, &str> = named.collect();
    let parts = survey.parts.iter();
    let logs = parts.flat_map(|part| &part.logs.profiling);
    let of_log = |(pid, text): (&String, &String)| Remark {
        process: names.get(pid.as_str()).copied().unwrap_or("?").to_owned(),
        pid: pid.clone(),
        text: text.clone(),
    };
    let all = logs.flat_map(|(pid, log)| log.notices.iter().map(move |text| (pid, text)));
    all.map(of_log).collect()
}
