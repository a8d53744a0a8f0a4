//! The markers of a thread as the file has them, in either form: rows (Gecko), or a column per key
//! (processed).
//!
//! Payloads stay text until they are written again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use profiler_json::span_types::is_span_type;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::json::{Items, List, Members, skip};
use super::parser::list_or_text;
use super::table::{Number, as_index, column};

/// The columns without the payload, in the order of the Gecko form's rows.
const KEYS: [&str; 5] = ["name", "startTime", "endTime", "phase", "category"];
/// The place of the payload in a row of a file without a schema.
const DATA: usize = 5;

/// A marker; missing numbers are NaN.
#[derive(Clone, Copy, Debug)]
pub struct RawMarker<'m> {
    /// An index into the thread's or the profile's texts.
    pub name: f64,
    /// Milliseconds.
    pub start: f64,
    /// Milliseconds.
    pub end: f64,
    /// 0 instant, 1 interval, 2 start, 3 end.
    pub phase: f64,
    /// An index into the categories of the profile.
    pub category: f64,
    /// JSON of an object.
    pub data: Option<&'m str>,
}

impl RawMarker<'_> {
    /// The number that the start and the end of a span have in common, if it is one of them.
    pub fn span(&self) -> Option<u64> {
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
    is_span_type(&fields.kind).then_some(fields.span)
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
    pub fn of(marker: RawMarker<'m>, texts: &'m [String]) -> Option<Self> {
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
pub struct RawMarkers {
    columns: [Vec<f64>; KEYS.len()],
    /// The payloads, one after the other.
    payloads: String,
    /// The end of each marker's payload in `payloads`. A marker without a payload has an empty one.
    ends: Vec<usize>,
}

impl RawMarkers {
    /// Iterates in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = RawMarker<'_>> {
        let [names, starts, ends, phases, categories] = &self.columns;
        let at = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(f64::NAN);
        let mut payload_start = 0;
        (0..names.len()).map(move |row| {
            let payload_end = self.ends.get(row).copied().unwrap_or(payload_start);
            let payload = self.payloads.get(payload_start..payload_end);
            payload_start = payload_end;
            RawMarker {
                name: at(names, row),
                start: at(starts, row),
                end: at(ends, row),
                phase: at(phases, row),
                category: at(categories, row),
                data: payload.filter(|payload| !payload.is_empty()),
            }
        })
    }

    /// Adds a marker's payload; other values than objects are no payload.
    fn add_payload(&mut self, text: &str) {
        if text.starts_with('{') {
            self.payloads.push_str(text);
        }
    }

    fn end_payload(&mut self) {
        self.ends.push(self.payloads.len());
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
        let item = MarkerItem {
            markers: &mut self.markers,
            places: self.places,
            data: self.data,
        };
        let is_there = items.next_element_seed(item)?.is_some();
        if is_there {
            self.markers.end_payload();
        }
        Ok(is_there)
    }
}

/// A row, or the payload of a marker.
struct MarkerItem<'m> {
    markers: &'m mut RawMarkers,
    places: [usize; KEYS.len()],
    data: usize,
}

impl<'de> DeserializeSeed<'de> for MarkerItem<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        list_or_text(from, self)
    }
}

impl<'de> Visitor<'de> for MarkerItem<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a marker")
    }

    fn visit_str<E>(self, payload: &str) -> Result<(), E> {
        self.markers.add_payload(payload);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut cells: A) -> Result<(), A::Error> {
        let mut numbers = [f64::NAN; KEYS.len()];
        for at in 0.. {
            let cell = if at == self.data {
                cells
                    .next_element_seed(PayloadCell(&mut *self.markers))?
                    .map(|()| f64::NAN)
            } else if self.places.contains(&at) {
                cells.next_element::<Number>()?.map(|cell| cell.0)
            } else {
                cells.next_element::<IgnoredAny>()?.map(|_| f64::NAN)
            };
            let Some(cell) = cell else { break };
            let wanted = numbers.iter_mut().zip(self.places);
            wanted
                .filter(|(_, place)| *place == at)
                .for_each(|(number, _)| *number = cell);
        }
        let columns = self.markers.columns.iter_mut();
        columns
            .zip(numbers)
            .for_each(|(column, number)| column.push(number));
        Ok(())
    }
}

/// The payload in a row.
struct PayloadCell<'m>(&'m mut RawMarkers);

impl<'de> DeserializeSeed<'de> for PayloadCell<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        list_or_text(from, self)
    }
}

impl<'de> Visitor<'de> for PayloadCell<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a payload")
    }

    fn visit_str<E>(self, payload: &str) -> Result<(), E> {
        self.0.add_payload(payload);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}
