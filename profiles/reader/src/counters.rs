//! The counters of a profile: their values over time, and each reduced to its highest and its last
//! value.
//!
//! Used by [`super::survey`] if counters are wanted, and by [`super::reader`] for sinks that take
//! counters. A file has the changes of a counter's value over time, in the rows of `samples`; the
//! values are the sums of the changes. One counter at a time is held.

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess};
use serde_json::Value;

use super::json::{Items, Members, Object, skip};
use super::table::{Columns, Table, times_ms};
use super::thread::plain;
use super::walk::PartId;

/// The columns of `samples`, with their places in a row of a file without a schema.
const COLUMNS: [(&str, usize); 4] = [
    ("time", 0),
    ("timeDeltas", usize::MAX),
    ("count", 1),
    ("number", 2),
];

/// A counter of a process, over time.
#[derive(Debug, Default)]
pub struct CounterSeries {
    /// The object that contains it.
    pub part: PartId,
    /// Its process's number, if the file has it: always in the processed format.
    pub pid: Option<String>,
    /// Its name.
    pub name: String,
    /// Its category; `Memory` if its values are bytes of memory.
    pub category: String,
    /// Its description; empty if it has none.
    pub description: String,
    /// The unit in which viewers show it, if the file has it: in `display`, or alone.
    pub unit: Option<String>,
    /// `time`, `timeDeltas`, `count`, `number`.
    samples: Table<4>,
}

/// A point of a [`CounterSeries`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CounterValue {
    /// Milliseconds since the start of the process's session.
    pub at_ms: f64,
    /// The value: the sum of the changes so far.
    pub value: f64,
    /// How often the value had changed so far.
    pub number: f64,
}

/// How a counter is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Display {
    unit: Option<String>,
}

impl Members for CounterSeries {
    const NAME: &'static str = "a counter";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let text = |map: &mut A| Ok(map.next_value::<Option<String>>()?.unwrap_or_default());
        match key {
            "name" => self.name = text(map)?,
            "category" => self.category = text(map)?,
            "description" => self.description = text(map)?,
            "pid" => self.pid = Some(plain(&map.next_value::<Value>()?)),
            "unit" => self.unit = map.next_value()?,
            "display" => self.unit = map.next_value::<Option<Display>>()?.and_then(|it| it.unit),
            "samples" => self.samples = map.next_value_seed(Columns(COLUMNS))?,
            _ => skip(map)?,
        }
        Ok(())
    }
}

impl CounterSeries {
    /// The values, in the order of the file. A change that is not a number is none.
    pub fn values(&self) -> impl Iterator<Item = CounterValue> {
        let [times, deltas, counts, numbers] = &self.samples.0;
        let (mut value, mut number) = (0.0, 0.0);
        let rows = times_ms(times, deltas, counts.len()).enumerate();
        rows.map(move |(row, at_ms)| {
            let change = |column: &[f64]| column.get(row).copied().filter(|it| it.is_finite());
            value += change(counts).unwrap_or(0.0);
            number += change(numbers).unwrap_or(0.0);
            CounterValue {
                at_ms,
                value,
                number,
            }
        })
    }
}

/// A counter of a process, reduced to two values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterLevels {
    /// The object that contains it.
    pub part: PartId,
    /// Its process's number, if the file has it: always in the processed format.
    pub pid: Option<String>,
    /// Its name.
    pub name: String,
    /// Its category; `Memory` if its values are bytes of memory.
    pub category: String,
    /// The highest value.
    pub highest: f64,
    /// The last value.
    pub last: f64,
}

impl From<CounterSeries> for CounterLevels {
    fn from(series: CounterSeries) -> Self {
        let (mut highest, mut last) = (0.0_f64, 0.0);
        for point in series.values() {
            (highest, last) = (highest.max(point.value), point.value);
        }
        Self {
            part: series.part,
            pid: series.pid,
            name: series.name,
            category: series.category,
            highest,
            last,
        }
    }
}

/// Reads the counters of a process's object, one after the other.
pub(super) struct ReadCounters<F> {
    pub(super) part: PartId,
    /// Takes a counter, and returns whether to read on.
    pub(super) take: F,
}

impl<F: FnMut(CounterSeries) -> bool> Items for ReadCounters<F> {
    const NAME: &'static str = "counters";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let mut series = CounterSeries {
            part: self.part,
            ..CounterSeries::default()
        };
        if items.next_element_seed(Object(&mut series))?.is_none() {
            return Ok(false);
        }
        if (self.take)(series) {
            Ok(true)
        } else {
            Err(serde::de::Error::custom("the output failed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;

    use super::super::json::OptionalList;
    use super::*;

    fn counters(text: &str) -> Vec<CounterLevels> {
        let mut counters = Vec::new();
        let mut read = ReadCounters {
            part: PartId(3),
            take: |series: CounterSeries| {
                counters.push(series.into());
                true
            },
        };
        let mut from = serde_json::Deserializer::from_str(text);
        OptionalList(&mut read).deserialize(&mut from).unwrap();
        counters
    }

    #[test]
    fn the_highest_and_last_values_are_sums_of_the_changes_in_both_formats() {
        let rows = r#"[{"name":"malloc","category":"Memory","samples":{"schema":{"time":0,"number":1,"count":2},"data":[[1,0,5],[2,0,7],[3,0,null],[4,0,-4]]}}]"#;
        let columns = r#"[{"pid":"7","name":"malloc","category":"Memory","samples":{"length":3,"timeDeltas":[1,1,1],"count":[5,7,-4]}}]"#;
        for (text, pid) in [(rows, None), (columns, Some("7".to_owned()))] {
            let expected = CounterLevels {
                part: PartId(3),
                pid,
                name: "malloc".to_owned(),
                category: "Memory".to_owned(),
                highest: 12.0,
                last: 8.0,
            };
            assert_eq!(counters(text), [expected]);
        }
        assert!(counters("null").is_empty());
    }

    #[test]
    fn the_values_over_time_are_sums_of_the_changes() {
        let text = r#"{"name":"g","display":{"unit":"ms"},"samples":{"timeDeltas":[1,0.5,2],"count":[5,-7,null],"number":[1,2]}}"#;
        let mut series = CounterSeries::default();
        let mut from = serde_json::Deserializer::from_str(text);
        Object(&mut series).deserialize(&mut from).unwrap();
        let values: Vec<_> = series
            .values()
            .map(|it| (it.at_ms, it.value, it.number))
            .collect();
        assert_eq!(
            values,
            [(1.0, 5.0, 1.0), (1.5, -2.0, 3.0), (3.5, -2.0, 3.0)]
        );
        assert_eq!(series.unit.as_deref(), Some("ms"));
    }
}
