//! The values of counters over time, and the times of performance groups.
//!
//! A row has the latest value of each second, and the highest of all values: a profile may have a
//! value per sample, which would need more bytes than the samples. A profile has the time and the
//! runs of a group as a counter that begins at 0 in each batch. Such a counter becomes a row of the
//! groups instead. A profile has no processor time and no histogram of groups; the metrics of a
//! live session have them.

use super::FleetTable;
use super::rows::{Row, Rows, instant};
use crate::ExportError;
use profiler_reader::bounded_ns;
use profiler_reader::{CounterSeries, CounterValue, Survey};

/// The category of the counters of groups.
const GROUP: &str = "Group";
/// The length of a row's window, in nanoseconds, as of samples.
const WINDOW_NS: i64 = 10_000_000_000;
/// The time in which only the latest value is kept, in nanoseconds.
const RESOLUTION_NS: i64 = 1_000_000_000;

/// Writes a counter or a group.
pub(super) fn write(
    counter: &CounterSeries,
    shift_ns: i64,
    survey: &Survey,
    rows: &mut Rows<'_>,
) -> Result<(), ExportError> {
    let points = Points {
        about: counter,
        process: process_name(counter, survey),
        points: Vec::new(),
        highest: f64::NEG_INFINITY,
    };
    if counter.category == GROUP {
        points.write_group(shift_ns, rows)
    } else {
        points.write_values(shift_ns, rows)
    }
}

/// The name of a counter's process, as far as the profile's log has it.
fn process_name<'s>(counter: &CounterSeries, survey: &'s Survey) -> &'s str {
    let pid = counter.pid.as_deref().unwrap_or_default();
    let pid = pid
        .split('.')
        .next()
        .and_then(|pid| pid.parse::<u64>().ok());
    let logs = survey
        .parts
        .iter()
        .flat_map(|part| part.logs.gathering.values());
    let mut processes = logs.flat_map(|log| &log.processes);
    let process = processes.find(|process| Some(process.pid) == pid && process.delivered > 0);
    process.map_or("", |process| &process.name)
}

/// A counter, and the points of the row that is being collected.
struct Points<'c> {
    about: &'c CounterSeries,
    process: &'c str,
    /// Nanoseconds since 1970, and values.
    points: Vec<(i64, f64)>,
    /// The highest value of the row.
    highest: f64,
}

impl Points<'_> {
    fn write_values(mut self, shift_ns: i64, rows: &mut Rows<'_>) -> Result<(), ExportError> {
        for value in self.about.values() {
            let at = instant_of(value, shift_ns, rows);
            let first = self.points.first().map_or(at, |first| first.0);
            if first.div_euclid(WINDOW_NS) != at.div_euclid(WINDOW_NS) {
                self.pass(rows)?;
            }
            self.add(at, value.value);
        }
        self.pass(rows)
    }

    /// Adds a value, which replaces an earlier one of the same second.
    fn add(&mut self, at: i64, value: f64) {
        self.highest = self.highest.max(value);
        let second = |at: i64| at.div_euclid(RESOLUTION_NS);
        match self.points.last_mut() {
            Some(last) if second(last.0) == second(at) => *last = (at, value),
            _ => self.points.push((at, value)),
        }
    }

    /// Writes the row, and begins another one.
    fn pass(&mut self, rows: &mut Rows<'_>) -> Result<(), ExportError> {
        let (Some((first, _)), Some((last, value))) = (self.points.first(), self.points.last())
        else {
            return Ok(());
        };
        rows.add(FleetTable::Counters, *first, |row| {
            self.name(row);
            row.entry_str("category", &self.about.category);
            row.entry_str("unit", self.about.unit.as_deref().unwrap_or_default());
            row.entry_u64("start_ns", instant(*first));
            row.entry_u64("end_ns", instant(*last));
            row.key("last_value");
            row.f64(*value);
            row.key("highest_value");
            row.f64(self.highest);
            row.entry_list("point.after_ns", &self.points, |(at, _), row| {
                row.u64(at.saturating_sub(*first).unsigned_abs());
            });
            row.entry_list("point.value", &self.points, |(_, value), row| {
                row.f64(*value)
            });
        })?;
        self.points.clear();
        self.highest = f64::NEG_INFINITY;
        Ok(())
    }

    fn name(&self, row: &mut Row) {
        row.entry_str("process", self.process);
        row.entry_str("pid", self.about.pid.as_deref().unwrap_or_default());
        row.entry_str("name", &self.about.name);
    }

    fn write_group(self, shift_ns: i64, rows: &mut Rows<'_>) -> Result<(), ExportError> {
        let first = self.about.values().next();
        let (Some(first), Some(last)) = (first, self.about.values().last()) else {
            return Ok(());
        };
        let [start, end] = [first, last].map(|value| instant_of(value, shift_ns, rows));
        rows.add(FleetTable::Groups, start, |row| {
            self.name(row);
            row.entry_u64("start_ns", instant(start));
            row.entry_u64("end_ns", instant(end));
            // The values of these counters are milliseconds.
            row.entry_u64("time_ns", (last.value * 1e6).round() as u64);
            row.entry_u64("runs", last.number as u64);
        })
    }
}

fn instant_of(value: CounterValue, shift_ns: i64, rows: &Rows<'_>) -> i64 {
    let ns = bounded_ns(value.at_ms).saturating_add(shift_ns);
    rows.identity.unix_ns(ns)
}
