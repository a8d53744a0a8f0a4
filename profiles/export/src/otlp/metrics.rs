//! Metrics: the counters of all processes over time, and the entries that each process recorded and
//! lost.
//!
//! Called by [`super::encode`]. A counter has at most one point per second, its last value in this
//! second: engines keep seconds, and a profile has a value for each tick of its sampler. Memory:
//! one counter.

use std::collections::HashMap;

use super::super::ExportError;
use super::super::bodies::{BodyKind, BodyLimit, BodySink};
use super::super::proto::Message;
use super::super::recording::{Recording, Sink, Thread, Totals};
use super::attributes::add_text;
use super::clock::UnixClock;
use super::requests::Requests;
use super::resource::{ProcessKey, resource};
use super::series::{Series, Shape};
use profiler_reader::bounded_ns;
use profiler_reader::{CounterSeries, CounterValue, EntryTotals, Survey};

/// The shortest time between two points of a counter.
const STEP_NS: u64 = 1_000_000_000;
/// The largest number of points in one message.
const MAX_POINTS: usize = 4096;

/// Fields of `Metric`.
mod metric {
    pub(super) const NAME: u64 = 1;
    pub(super) const DESCRIPTION: u64 = 2;
    pub(super) const UNIT: u64 = 3;
    pub(super) const GAUGE: u64 = 5;
    pub(super) const SUM: u64 = 7;
}

/// Fields of `Sum` and `Gauge`, and the value for cumulative sums.
mod sum {
    pub(super) const POINTS: u64 = 1;
    pub(super) const TEMPORALITY: u64 = 2;
    pub(super) const IS_MONOTONIC: u64 = 3;
    pub(super) const CUMULATIVE: u64 = 2;
}

/// Fields of `NumberDataPoint`.
mod point {
    pub(super) const START: u64 = 2;
    pub(super) const TIME: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const INT: u64 = 6;
    pub(super) const ATTRIBUTES: u64 = 7;
}

/// The largest whole number up to which an `f64` represents every whole number exactly.
const MAX_WHOLE: f64 = (1_i64 << 53) as f64;

/// Encodes all counters.
pub(super) fn encode(
    recording: &Recording,
    limit: BodyLimit,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    let survey = recording.survey();
    // Counters may come before the threads that name their processes.
    let mut names = MetricNames::default();
    let totals = recording.threads(&mut names)?;
    let mut metrics = Metrics {
        requests: Requests::new(BodyKind::OtlpMetrics, limit, sink),
        clock: UnixClock::of(&survey.meta),
        names,
        process: None,
    };
    recording.threads(&mut metrics)?;
    metrics.losses(survey)?;
    metrics.requests.finish()?;
    Ok(totals)
}

/// The names of processes, and the process of each object of the file.
#[derive(Debug, Default)]
struct MetricNames {
    all: HashMap<ProcessKey, String>,
    by_pid: HashMap<String, String>,
    of_part: HashMap<usize, String>,
}

impl Sink for MetricNames {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let key = ProcessKey::of(thread);
        self.of_part
            .entry(key.part.0)
            .or_insert_with(|| key.pid.clone());
        let name = || thread.process.to_owned();
        self.by_pid.entry(key.pid.clone()).or_insert_with(name);
        self.all.entry(key).or_insert_with(name);
        Ok(())
    }
}

struct Metrics<'s> {
    requests: Requests<'s>,
    clock: UnixClock,
    names: MetricNames,
    /// The process whose counters are written.
    process: Option<ProcessKey>,
}

impl Sink for Metrics<'_> {
    const WITH_COUNTERS: bool = true;

    fn thread(&mut self, _: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        Ok(())
    }

    fn counter(
        &mut self,
        counter: &CounterSeries,
        shift_ns: i64,
        survey: &Survey,
    ) -> Result<(), ExportError> {
        let of_part = || self.names.of_part.get(&counter.part.0).cloned();
        let pid = counter.pid.clone().or_else(of_part).unwrap_or_default();
        let key = ProcessKey {
            part: counter.part,
            pid,
        };
        if self.process.as_ref() != Some(&key) {
            let name = self.names.all.get(&key).map_or("process", String::as_str);
            self.requests.begin(resource(&key.pid, name, &survey.meta));
            self.process = Some(key);
        }
        let points = Points {
            counter,
            shift_ns,
            clock: self.clock,
        };
        let series = Series::of(counter, &survey.meta);
        points.write(&series, |point| point.value, &mut self.requests)?;
        match Series::entries_of(counter) {
            Some(series) => points.write(&series, |point| point.number, &mut self.requests),
            None => Ok(()),
        }
    }
}

/// The points of a counter.
struct Points<'c> {
    counter: &'c CounterSeries,
    shift_ns: i64,
    clock: UnixClock,
}

impl Points<'_> {
    /// Writes the points as a metric.
    fn write(
        &self,
        series: &Series,
        value: fn(&CounterValue) -> f64,
        requests: &mut Requests<'_>,
    ) -> Result<(), ExportError> {
        let is_whole =
            series.per_unit == 1.0 && self.counter.values().all(|point| is_whole(value(&point)));
        let mut points = Vec::new();
        let mut last: Option<(i64, f64)> = None;
        let mut first = None;
        for of_counter in self.counter.values() {
            let at = bounded_ns(of_counter.at_ms).saturating_add(self.shift_ns);
            first = first.or(Some(at));
            // Seconds of the wall clock, in which a pusher thins counters out.
            let second = |at: i64| self.clock.at(at) / STEP_NS;
            let is_of = |one: i64, other: i64| second(one) == second(other);
            if let Some(last) = last.filter(|last| !is_of(last.0, at)) {
                points.push(last);
            }
            last = Some((at, value(&of_counter) / series.per_unit));
            if points.len() >= MAX_POINTS {
                requests.add(&self.metric(series, is_whole, first.unwrap_or(0), &points))?;
                points.clear();
            }
        }
        points.extend(last);
        if points.is_empty() {
            return Ok(());
        }
        requests.add(&self.metric(series, is_whole, first.unwrap_or(0), &points))
    }

    fn metric(
        &self,
        series: &Series,
        is_whole: bool,
        first: i64,
        points: &[(i64, f64)],
    ) -> Message {
        let mut data = Message::default();
        for (at, value) in points {
            let mut message = Message::default();
            if series.shape != Shape::Gauge {
                message.fixed(point::START, self.clock.at(first));
            }
            message.fixed(point::TIME, self.clock.at(*at));
            // All points of a counter have one type.
            if is_whole {
                message.fixed(point::INT, (*value as i64).cast_unsigned());
            } else {
                message.double(point::DOUBLE, *value);
            }
            if let Some(key) = series.attribute {
                add_text(point::ATTRIBUTES, key, &self.counter.name, &mut message);
            }
            data.message(sum::POINTS, &message);
        }
        metric(series, data)
    }
}

/// The message `Metric` with data points.
fn metric(series: &Series, mut data: Message) -> Message {
    let mut message = Message::default();
    message.bytes(metric::NAME, series.name.as_bytes());
    message.bytes(metric::DESCRIPTION, series.description.as_bytes());
    if !series.unit.is_empty() {
        message.bytes(metric::UNIT, series.unit.as_bytes());
    }
    if series.shape == Shape::Gauge {
        message.message(metric::GAUGE, &data);
    } else {
        data.number(sum::TEMPORALITY, sum::CUMULATIVE);
        data.number(sum::IS_MONOTONIC, u64::from(series.shape == Shape::Sum));
        message.message(metric::SUM, &data);
    }
    message
}

/// Whether a value can be written as a whole number.
fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < MAX_WHOLE
}

impl Metrics<'_> {
    /// Writes how many entries each process recorded and lost.
    fn losses(&mut self, survey: &Survey) -> Result<(), ExportError> {
        for part in &survey.parts {
            for (pid, log) in &part.logs.profiling {
                let Some(total) = &log.total else { continue };
                let name = self.names.by_pid.get(pid).map_or("process", String::as_str);
                self.requests.begin(resource(pid, name, &survey.meta));
                let evicted = missed_of(survey, pid).unwrap_or(total.evicted);
                for metric in self.entry_metrics(total, evicted, survey) {
                    self.requests.add(&metric)?;
                }
            }
        }
        Ok(())
    }

    fn entry_metrics(&self, total: &EntryTotals, evicted: u64, survey: &Survey) -> [Message; 2] {
        let recorded = entries("profiler.entries.recorded", "Entries that were recorded");
        let lost = entries(
            "profiler.entries.lost",
            "Entries that were recorded and are not kept",
        );
        let end_ns = survey.meta.profiling_end_time.map_or(0, bounded_ns);
        let add = |count: u64, reason: Option<&str>, data: &mut Message| {
            let mut message = Message::default();
            message.fixed(point::START, self.clock.at(0));
            message.fixed(point::TIME, self.clock.at(end_ns));
            message.fixed(point::INT, count);
            if let Some(reason) = reason {
                add_text(point::ATTRIBUTES, "reason", reason, &mut message);
            }
            data.message(sum::POINTS, &message);
        };
        let mut of_recorded = Message::default();
        add(total.recorded, None, &mut of_recorded);
        let mut of_lost = Message::default();
        add(evicted, Some("evicted"), &mut of_lost);
        add(total.unfinished, Some("unfinished"), &mut of_lost);
        for (reason, count) in total.dropped() {
            add(count, Some(reason), &mut of_lost);
        }
        [metric(&recorded, of_recorded), metric(&lost, of_lost)]
    }
}

/// The entries of a process that no profile of the series contains; `None` if the profile is not
/// one of a series.
fn missed_of(survey: &Survey, number: &str) -> Option<u64> {
    let logs = survey.parts.iter();
    let logs = logs.flat_map(|part| part.logs.gathering.values());
    let mut processes = logs.flat_map(|log| &log.processes);
    processes.find_map(|process| {
        let series = process.series.as_ref()?;
        (series.number == number).then_some(series.missed)
    })
}

fn entries(name: &'static str, description: &'static str) -> Series {
    Series {
        name,
        description,
        unit: "{entry}".to_owned(),
        shape: Shape::Sum,
        per_unit: 1.0,
        attribute: None,
    }
}
