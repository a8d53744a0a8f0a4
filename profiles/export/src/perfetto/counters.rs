//! The counters of processes.
//!
//! Called by [`super`] for each counter. The values are the sums of the changes in the profile, so
//! the last value is the sum of all. Times of groups and processor times are in nanoseconds. If the
//! profile says how often a counter changed between two points, this number is a second counter.

use std::io::{self, Write};

use super::super::proto::Message;
use super::Trace;
use super::descriptor;
use super::event;
use super::packets::{Content, Packets};
use super::tracks::TrackId;
use profiler_reader::bounded_ns;
use profiler_reader::{CounterSeries, CounterValue, Meta, Survey};

/// Fields of `CounterDescriptor`, and values of its unit.
mod counter {
    pub(super) const UNIT: u64 = 3;
    pub(super) const UNIT_NAME: u64 = 6;
    pub(super) const NANOSECONDS: u64 = 1;
    pub(super) const COUNT: u64 = 2;
    pub(super) const BYTES: u64 = 3;
}

/// The unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit<'n> {
    /// Perfetto's number; 0 for none.
    known: u64,
    /// The name of another unit; may be empty.
    name: &'n str,
    /// The factor from the values of the profile.
    factor: f64,
}

impl<'n> Unit<'n> {
    /// A unit that Perfetto does not know.
    pub(super) const fn named(name: &'n str) -> Self {
        Self {
            known: 0,
            name,
            factor: 1.0,
        }
    }

    const fn known(known: u64, factor: f64) -> Self {
        Self {
            known,
            name: "",
            factor,
        }
    }

    fn of(series: &'n CounterSeries, meta: &Meta) -> Self {
        let unit = series.unit.as_deref().unwrap_or_default();
        match (series.category.as_str(), unit) {
            ("CPU", "percent" | "") => match meta.cpu_unit_ns() {
                Some(ns) => Self::known(counter::NANOSECONDS, ns),
                None => Self::named(""),
            },
            ("Memory" | "Bandwidth", "") | (_, "bytes") => Self::known(counter::BYTES, 1.0),
            ("Group", "") | (_, "ms") => Self::known(counter::NANOSECONDS, 1e6),
            (_, unit) => Self::named(unit),
        }
    }
}

/// Writes a counter.
pub(super) fn write<W: Write>(
    trace: &mut Trace<W>,
    series: &CounterSeries,
    shift_ns: i64,
    survey: &Survey,
) -> io::Result<()> {
    let Trace {
        packets, tracks, ..
    } = trace;
    let parent = tracks.of_counter(series.part, series.pid.as_deref());
    let mut write = |name: &str, about: &str, unit: Unit<'_>, of: fn(&CounterValue) -> f64| {
        let track = tracks.next();
        counter_track(track, parent, name, about, unit, packets)?;
        let mut nothing = Message::default();
        for point in series.values() {
            let at = bounded_ns(point.at_ms).saturating_add(shift_ns);
            let event = counter_value(track, of(&point) * unit.factor);
            packets.write_at(at, Content::TrackEvent, &event, &mut nothing)?;
        }
        io::Result::Ok(())
    };
    let unit = Unit::of(series, &survey.meta);
    write(&series.name, &series.description, unit, |point| point.value)?;
    if changes_between_points(series) {
        let name = format!("{}: number", series.name);
        let unit = Unit::known(counter::COUNT, 1.0);
        write(&name, "How often the counter changed", unit, |point| {
            point.number
        })?;
    }
    Ok(())
}

/// Whether a point stands for more than one change.
fn changes_between_points(series: &CounterSeries) -> bool {
    let mut before = 0.0;
    series
        .values()
        .any(|point| point.number - std::mem::replace(&mut before, point.number) > 1.0)
}

/// Writes the track of a counter.
pub(super) fn counter_track<W: Write>(
    track: TrackId,
    parent: TrackId,
    name: &str,
    description: &str,
    unit: Unit<'_>,
    packets: &mut Packets<W>,
) -> io::Result<()> {
    let mut counter = Message::default();
    counter.number(counter::UNIT, unit.known);
    if !unit.name.is_empty() {
        counter.bytes(counter::UNIT_NAME, unit.name.as_bytes());
    }
    let body = descriptor::counter(track, parent, [name, description], &counter);
    packets.write(Content::TrackDescriptor, &body)
}

/// The limit below which an `f64` represents every whole number exactly. Other values are written
/// as floating-point numbers.
const MAX_WHOLE: f64 = (1_i64 << 53) as f64;

/// The event for a value of a counter: a whole number if it is one, to within the precision of the
/// profile.
pub(super) fn counter_value(track: TrackId, value: f64) -> Message {
    let mut event = event::new(event::COUNTER, track);
    let whole = value.round();
    if (value - whole).abs() <= whole.abs() * f64::EPSILON * 16.0 && whole.abs() < MAX_WHOLE {
        event.signed(event::VALUE, whole as i64);
    } else {
        event.double(event::VALUE_WITH_FRACTION, value);
    }
    event
}
