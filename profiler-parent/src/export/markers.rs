//! The markers of a thread as they stand in the file, in either form: rows (Gecko), or a column per key (processed).
//!
//! Payloads stay text until they are written again.

use std::collections::HashMap;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::reading::Number;

/// Columns but for the payload, in the Gecko form's order of rows.
const KEYS: [&str; 5] = ["name", "startTime", "endTime", "phase", "category"];
/// Where the payload stands in a row of a file that does not say it.
const DATA: usize = 5;

/// A marker; what it does not have is NaN.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawMarker<'m> {
    /// A place in the thread's or the profile's texts.
    pub(super) name: f64,
    /// Milliseconds.
    pub(super) start: f64,
    /// Milliseconds.
    pub(super) end: f64,
    /// 0 instant, 1 interval, 2 start, 3 end.
    pub(super) phase: f64,
    pub(super) category: f64,
    /// JSON of an object.
    pub(super) data: Option<&'m str>,
}

/// All markers of a thread.
#[derive(Debug, Default)]
pub(super) struct RawMarkers {
    columns: [Vec<f64>; KEYS.len()],
    data: Vec<Option<Box<RawValue>>>,
}

impl RawMarkers {
    /// In the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = RawMarker<'_>> {
        let [names, starts, ends, phases, categories] = &self.columns;
        let at = |column: &[f64], row: usize| column.get(row).copied().unwrap_or(f64::NAN);
        (0..names.len()).map(move |row| RawMarker {
            name: at(names, row),
            start: at(starts, row),
            end: at(ends, row),
            phase: at(phases, row),
            category: at(categories, row),
            data: self.data.get(row).and_then(|data| Some(data.as_ref()?.get())),
        })
    }

    fn push_row(&mut self, row: &RawValue, places: &[usize; KEYS.len()], data: usize) {
        let cells: Vec<&RawValue> = serde_json::from_str(row.get()).unwrap_or_default();
        let number = |place: usize| cells.get(place).and_then(|cell| cell.get().parse::<f64>().ok());
        for (column, place) in self.columns.iter_mut().zip(places) {
            column.push(number(*place).unwrap_or(f64::NAN));
        }
        let payload = cells.get(data).filter(|cell| cell.get().starts_with('{'));
        self.data.push(payload.map(|cell| (*cell).to_owned()));
    }
}

/// Reads [`RawMarkers`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RawMarkersSeed;

impl<'de> DeserializeSeed<'de> for RawMarkersSeed {
    type Value = RawMarkers;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<RawMarkers, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RawMarkersSeed {
    type Value = RawMarkers;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("markers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMarkers, A::Error> {
        let mut markers = RawMarkers::default();
        let (mut places, mut data) = (std::array::from_fn(|place| place), DATA);
        while let Some(key) = map.next_key::<String>()? {
            let column = KEYS.iter().position(|known| *known == key);
            match (key.as_str(), column.and_then(|column| markers.columns.get_mut(column))) {
                ("schema", _) => {
                    let schema: HashMap<String, usize> = map.next_value()?;
                    let place = |key: &str| schema.get(key).copied().unwrap_or(usize::MAX);
                    (places, data) = (KEYS.map(place), place("data"));
                }
                ("data", _) => map.next_value_seed(Data { markers: &mut markers, places, data })?,
                (_, Some(column)) => {
                    *column = map.next_value::<Vec<Number>>()?.into_iter().map(|number| number.0).collect();
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(markers)
    }
}

/// Rows, or the payloads alone.
struct Data<'m> {
    markers: &'m mut RawMarkers,
    places: [usize; KEYS.len()],
    data: usize,
}

impl<'de> DeserializeSeed<'de> for Data<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Data<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("markers' data")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            match item.get().as_bytes().first() {
                Some(b'[') => self.markers.push_row(&item, &self.places, self.data),
                Some(b'{') => self.markers.data.push(Some(item)),
                _ => self.markers.data.push(None),
            }
        }
        Ok(())
    }
}
