//! The markers of a thread as the file has them, in either form: rows (Gecko), or a column per key
//! (processed).
//!
//! Payloads stay text until they are written again.

use std::borrow::Cow;
use std::collections::HashMap;

use profiler_core::marker::{ProfilerMarker, SpanMark};
use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess};
use serde_json::value::RawValue;

use super::json::{Items, List, Members, skip};
use super::table::{as_index, column};

/// The columns without the payload, in the order of the Gecko form's rows.
const KEYS: [&str; 5] = ["name", "startTime", "endTime", "phase", "category"];
/// The place of the payload in a row of a file without a schema.
const DATA: usize = 5;

/// A marker; missing numbers are NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawMarker<'m> {
    /// An index into the thread's or the profile's texts.
    pub(crate) name: f64,
    /// Milliseconds.
    pub(crate) start: f64,
    /// Milliseconds.
    pub(crate) end: f64,
    /// 0 instant, 1 interval, 2 start, 3 end.
    pub(crate) phase: f64,
    pub(crate) category: f64,
    /// JSON of an object.
    pub(crate) data: Option<&'m str>,
}

impl RawMarker<'_> {
    /// The number that the start and the end of a span have in common, if it is one of them.
    pub(crate) fn span(&self) -> Option<u64> {
        span(self.data?)
    }
}

/// The fields of a span's payload that are needed.
#[derive(Deserialize)]
struct SpanFields<'m> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'m, str>,
    span: u64,
}

/// The number of a span in a payload of it.
fn span(data: &str) -> Option<u64> {
    let fields: SpanFields<'_> = serde_json::from_str(data).ok()?;
    (fields.kind == SpanMark::TYPE_NAME).then_some(fields.span)
}

/// A marker with its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedMarker<'m> {
    /// Its name.
    pub name: &'m str,
    /// Whether it is a point, an interval, or one end of an interval.
    pub phase: MarkerPhase,
    /// Milliseconds since the start of the process's session; NaN if unknown.
    pub start_ms: f64,
    /// Milliseconds since the start of the process's session; NaN if unknown.
    pub end_ms: f64,
    /// JSON of an object.
    data: Option<&'m str>,
}

/// The phase of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerPhase {
    /// A point in time.
    Instant,
    /// An interval with both ends.
    Interval,
    /// The start of an interval, whose end is another marker.
    Start,
    /// The end of an interval, whose start is another marker.
    End,
}

impl<'m> NamedMarker<'m> {
    /// Looks up the name; `None` if it is missing.
    pub(super) fn of(marker: RawMarker<'m>, texts: &'m [String]) -> Option<Self> {
        let phase = match as_index(marker.phase) {
            Some(1) => MarkerPhase::Interval,
            Some(2) => MarkerPhase::Start,
            Some(3) => MarkerPhase::End,
            _ => MarkerPhase::Instant,
        };
        Some(Self {
            name: texts.get(as_index(marker.name)?)?,
            phase,
            start_ms: marker.start,
            end_ms: marker.end,
            data: marker.data,
        })
    }

    /// The number that the start and the end of a span have in common, if it is one of them. The
    /// two may be on different threads of the process.
    pub fn span(&self) -> Option<u64> {
        span(self.data?)
    }
}

/// All markers of a thread.
#[derive(Debug, Default)]
pub(crate) struct RawMarkers {
    columns: [Vec<f64>; KEYS.len()],
    data: Vec<Option<Box<RawValue>>>,
}

impl RawMarkers {
    /// Iterates in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawMarker<'_>> {
        let [names, starts, ends, phases, categories] = &self.columns;
        let at = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(f64::NAN);
        (0..names.len()).map(move |row| RawMarker {
            name: at(names, row),
            start: at(starts, row),
            end: at(ends, row),
            phase: at(phases, row),
            category: at(categories, row),
            data: self
                .data
                .get(row)
                .and_then(|data| Some(data.as_ref()?.get())),
        })
    }

    fn push_row(&mut self, row: &RawValue, places: &[usize; KEYS.len()], data: usize) {
        let cells: Vec<&RawValue> = serde_json::from_str(row.get()).unwrap_or_default();
        let number = |place: usize| {
            cells
                .get(place)
                .and_then(|cell| cell.get().parse::<f64>().ok())
        };
        for (column, place) in self.columns.iter_mut().zip(places) {
            column.push(number(*place).unwrap_or(f64::NAN));
        }
        let payload = cells.get(data).filter(|cell| cell.get().starts_with('{'));
        self.data.push(payload.map(|cell| (*cell).to_owned()));
    }
}

/// Reads [`RawMarkers`].
pub(super) struct ReadMarkers {
    pub(super) markers: RawMarkers,
    places: [usize; KEYS.len()],
    data: usize,
}

impl Default for ReadMarkers {
    fn default() -> Self {
        Self {
            markers: RawMarkers::default(),
            places: std::array::from_fn(|place| place),
            data: DATA,
        }
    }
}

impl Members for ReadMarkers {
    const NAME: &'static str = "markers";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let place = KEYS.iter().position(|known| *known == key);
        match (
            key,
            place.and_then(|place| self.markers.columns.get_mut(place)),
        ) {
            ("schema", _) => {
                let schema: HashMap<String, usize> = map.next_value()?;
                let place = |key: &str| schema.get(key).copied().unwrap_or(usize::MAX);
                (self.places, self.data) = (KEYS.map(place), place("data"));
            }
            ("data", _) => map.next_value_seed(List(self))?,
            (_, Some(values)) => *values = column(map)?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

/// Reads rows, or the payloads alone.
impl Items for ReadMarkers {
    const NAME: &'static str = "markers' data";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let Some(item) = items.next_element::<Box<RawValue>>()? else {
            return Ok(false);
        };
        match item.get().as_bytes().first() {
            Some(b'[') => self.markers.push_row(&item, &self.places, self.data),
            Some(b'{') => self.markers.data.push(Some(item)),
            _ => self.markers.data.push(None),
        }
        Ok(true)
    }
}
