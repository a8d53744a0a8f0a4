//! Writes the cost of the sampler, for each tick and as statistics. Times are in microseconds, as
//! viewers expect. The columns `handlers` and `interval` are the time of the signal handlers since
//! the previous tick, and the interval in force. Viewers show the handlers as
//! a part of the overhead, and ignore the interval.

use std::io::{self, Write};

use profiler_json::JsonWriter;

use super::process::WrittenProcess;
use super::rows::Rows;
use super::store::RowStore;

/// Minimum, sum and maximum of one kind of cost, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Statistic {
    min: u64,
    sum: u64,
    max: u64,
}

impl Default for Statistic {
    fn default() -> Self {
        Self {
            min: u64::MAX,
            sum: 0,
            max: 0,
        }
    }
}

impl Statistic {
    fn add(&mut self, value: u64) {
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        self.sum = self.sum.saturating_add(value);
    }

    fn write<W: Write>(&self, name: &str, count: u64, out: &mut JsonWriter<W>) {
        let rows = [
            ("max", micros(self.max)),
            ("mean", micros(self.sum) / count.max(1) as f64),
            ("min", micros(self.min.min(self.max))),
        ];
        for (kind, value) in rows {
            out.key(&format!("{kind}{name}"));
            out.f64(value);
        }
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Writes the overhead of a process into the open array, if its sampler ran.
pub(super) fn write<W: Write>(
    process: &WrittenProcess<'_>,
    main_thread: u64,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    let ticks = &process.sorted.overhead;
    if ticks.is_empty() {
        return Ok(());
    }
    out.begin_object();
    out.key("samples");
    out.begin_object();
    ticks.write_column(rows, "counters", out, |[_, _, counters, ..], out| {
        out.f64(micros(counters))
    })?;
    ticks.write_column(rows, "expiredMarkerCleaning", out, |_, out| out.u64(0))?;
    ticks.write_column(rows, "handlers", out, |[.., handlers, _], out| {
        out.f64(micros(handlers))
    })?;
    ticks.write_column(rows, "interval", out, |[.., interval], out| {
        out.f64(micros(interval))
    })?;
    ticks.write_column(rows, "locking", out, |[_, locking, ..], out| {
        out.f64(micros(locking))
    })?;
    ticks.write_column(rows, "threads", out, |[_, _, _, threads, ..], out| {
        out.f64(micros(threads))
    })?;
    ticks.write_column(rows, "time", out, |[at, ..], out| {
        out.millis_ns(process.ns_of_raw(at))
    })?;
    out.entry_u64("length", ticks.len());
    out.end_object();
    write_statistics(process, ticks, rows, out)?;
    out.entry_str("pid", process.pid);
    out.entry_u64("mainThreadIndex", main_thread);
    out.end_object();
    Ok(())
}

fn write_statistics<W: Write>(
    process: &WrittenProcess<'_>,
    ticks: &Rows<7>,
    rows: &RowStore,
    out: &mut JsonWriter<W>,
) -> io::Result<()> {
    const NAMES: [&str; 6] = [
        "Lockings", "Counter", "Thread", "Overhead", "Interval", "Cleaning",
    ];
    let mut statistics = [Statistic::default(); NAMES.len()];
    let mut times: Option<(i64, i64)> = None;
    ticks.for_each(rows, |[at, costs @ .., _, _]| {
        let at = process.ns_of_raw(at);
        let interval = times.and_then(|(_, last)| u64::try_from(at.saturating_sub(last)).ok());
        times = Some((times.map_or(at, |(first, _)| first), at));
        let values = costs.into_iter().map(Some).chain([interval, Some(0)]);
        for (statistic, value) in statistics.iter_mut().zip(values) {
            value.into_iter().for_each(|value| statistic.add(value));
        }
    })?;
    out.key("statistics");
    out.begin_object();
    for (name, statistic) in NAMES.into_iter().zip(&statistics) {
        let count = if name == "Interval" {
            ticks.len().saturating_sub(1)
        } else {
            ticks.len()
        };
        statistic.write(name, count, out);
    }
    let spent = statistics
        .get(3)
        .map_or(0.0, |overhead| micros(overhead.sum));
    let duration = times.map_or(0.0, |(first, last)| {
        (last.saturating_sub(first)) as f64 / 1000.0
    });
    let share = if duration > 0.0 {
        spent / duration
    } else {
        0.0
    };
    for (name, value) in [
        ("overheadDurations", spent),
        ("overheadPercentage", share),
        ("profiledDuration", duration),
    ] {
        out.key(name);
        out.f64(value);
    }
    out.entry_u64("samplingCount", ticks.len());
    out.end_object();
    Ok(())
}
