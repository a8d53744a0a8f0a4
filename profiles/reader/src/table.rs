//! A table of a profile, in either form: rows with a schema (Gecko), or a column per key
//! (processed).
//!
//! Used by every reader of this module. Only the named columns are kept, as numbers; false is 0,
//! true is 1, and null and values of other types become NaN.

use std::collections::HashMap;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::json::{Items, List, skip};

/// The columns of a [`Columns`], in its order. Missing columns are empty.
#[derive(Debug)]
pub struct Table<const N: usize>(
    /// The columns; null and values of other types are NaN.
    pub [Vec<f64>; N],
    /// The unit of the weights.
    pub WeightType,
);

/// The unit of the weights of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// A number of samples.
    #[default]
    Samples,
    /// The time in milliseconds that each sample stands for. In an imported profile, this time
    /// begins with the sample.
    Milliseconds,
    /// The time in milliseconds that each sample stands for. In a recorded profile, this time ends
    /// with the sample. The samples have the member `weightsAreTimeBefore`.
    MillisecondsBefore,
}

impl<const N: usize> Default for Table<N> {
    fn default() -> Self {
        Self::new(std::array::from_fn(|_| Vec::new()))
    }
}

impl<const N: usize> Table<N> {
    /// A table of these columns.
    pub const fn new(columns: [Vec<f64>; N]) -> Self {
        Self(columns, WeightType::Samples)
    }

    /// A value as an index.
    pub fn index(&self, column: usize, row: usize) -> Option<usize> {
        as_index(self.number(column, row))
    }

    /// A value; NaN if it is missing.
    pub fn number(&self, column: usize, row: usize) -> f64 {
        self.0
            .get(column)
            .and_then(|column| column.get(row))
            .copied()
            .unwrap_or(f64::NAN)
    }
}

/// A number as an index; `None` for -1 and NaN.
pub fn as_index(number: f64) -> Option<usize> {
    (number >= 0.0 && number <= f64::from(u32::MAX)).then_some(number as usize)
}

/// The limit on the times of rows, in milliseconds (36 years), so that sums of times stay exact
/// enough.
const MAX_MS: f64 = (1_i64 << 60) as f64 / 1e6;

/// The times of this number of rows: the sums of `timeDeltas`, or `time`. A row without a time has
/// the time of the previous one.
pub(super) fn times_ms(times: &[f64], deltas: &[f64], rows: usize) -> impl Iterator<Item = f64> {
    let at = |column: &[f64], row: usize| column.get(row).copied().filter(|ms| ms.is_finite());
    let mut ms = 0.0;
    (0..rows).map(move |row| {
        let after = |delta: f64| (ms + delta).clamp(-MAX_MS, MAX_MS);
        ms = at(deltas, row).map(after).or(at(times, row)).unwrap_or(ms);
        ms
    })
}

/// The columns to read, with their places in rows that have no schema before them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<const N: usize>(
    /// Names, with their places in rows without a schema.
    pub(super) [(&'static str, usize); N],
);

impl<'de, const N: usize> DeserializeSeed<'de> for Columns<N> {
    type Value = Table<N>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Table<N>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Columns<N> {
    type Value = Table<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_unit<E>(self) -> Result<Table<N>, E> {
        Ok(Table::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<N>, A::Error> {
        let mut table = Table::default();
        let mut places = self.0.map(|(_, place)| place);
        let mut is_before = false;
        while let Some(key) = map.next_key::<String>()? {
            let place = self.0.iter().position(|(name, _)| *name == key);
            match (key.as_str(), place.and_then(|place| table.0.get_mut(place))) {
                ("schema", _) => {
                    let schema: HashMap<String, Number> = map.next_value()?;
                    let place = |name| schema.get(name).and_then(|place| as_index(place.0));
                    places = self.0.map(|(name, _)| place(name).unwrap_or(usize::MAX));
                }
                ("data", _) => map.next_value_seed(List(&mut Rows {
                    places,
                    table: &mut table,
                }))?,
                ("weightType", _) => {
                    let is_time = map.next_value::<serde_json::Value>()? == "tracing-ms";
                    table.1 = if is_time {
                        WeightType::Milliseconds
                    } else {
                        WeightType::Samples
                    };
                }
                ("weightsAreTimeBefore", _) => {
                    is_before = map.next_value::<serde_json::Value>()? == true;
                }
                (_, Some(values)) => *values = column(&mut map)?,
                _ => skip(&mut map)?,
            }
        }
        if is_before && table.1 == WeightType::Milliseconds {
            table.1 = WeightType::MillisecondsBefore;
        }
        Ok(table)
    }
}

/// All rows.
struct Rows<'t, const N: usize> {
    places: [usize; N],
    table: &'t mut Table<N>,
}

impl<const N: usize> Items for Rows<'_, N> {
    const NAME: &'static str = "rows";

    fn item<'de, A: SeqAccess<'de>>(&mut self, rows: &mut A) -> Result<bool, A::Error> {
        let mut row = Row {
            places: self.places,
            at: 0,
            cells: [f64::NAN; N],
        };
        if rows.next_element_seed(List(&mut row))?.is_none() {
            return Ok(false);
        }
        self.table
            .0
            .iter_mut()
            .zip(row.cells)
            .for_each(|(column, value)| column.push(value));
        Ok(true)
    }
}

/// One row; it may be shorter than the schema.
struct Row<const N: usize> {
    places: [usize; N],
    /// The place of the next cell.
    at: usize,
    cells: [f64; N],
}

impl<const N: usize> Items for Row<N> {
    const NAME: &'static str = "a row";

    fn item<'de, A: SeqAccess<'de>>(&mut self, cells: &mut A) -> Result<bool, A::Error> {
        let column = self.places.iter().position(|wanted| *wanted == self.at);
        self.at += 1;
        let Some(cell) = column.and_then(|column| self.cells.get_mut(column)) else {
            return Ok(cells.next_element::<IgnoredAny>()?.is_some());
        };
        let read = cells.next_element::<Number>()?;
        if let Some(Number(value)) = read {
            *cell = value;
        }
        Ok(read.is_some())
    }
}

/// Reads a column as numbers; null is an empty column, false is 0 and true is 1.
pub fn column<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Vec<f64>, A::Error> {
    let numbers = map.next_value::<Option<Vec<Number>>>()?.unwrap_or_default();
    Ok(numbers.into_iter().map(|number| number.0).collect())
}

/// A number, or another value in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(
    /// NaN for a value that is not a number.
    pub(super) f64,
);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyNumber)
    }
}

struct AnyNumber;

impl<'de> Visitor<'de> for AnyNumber {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(Number(number))
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number(f64::NAN))
    }

    fn visit_bool<E>(self, is_true: bool) -> Result<Number, E> {
        Ok(Number(f64::from(u8::from(is_true))))
    }

    fn visit_str<E>(self, _: &str) -> Result<Number, E> {
        Ok(Number(f64::NAN))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Number, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number(f64::NAN))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut values: A) -> Result<Number, A::Error> {
        while values.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> [Vec<f64>; 2] {
        let columns = Columns([("stack", 0), ("cpu", 3)]);
        columns
            .deserialize(&mut serde_json::Deserializer::from_str(text))
            .unwrap()
            .0
    }

    #[test]
    fn rows_and_columns_are_the_same_table() {
        let rows = read(
            r#"{"schema":{"cpu":2,"time":1,"stack":0},"data":[[5,1.5,7],[null,2],[6,[{"x":3}],-1.5]]}"#,
        );
        let columns =
            read(r#"{"length":3,"stack":[5,null,6],"time":[1.5,2,{}],"cpu":[7,"x",-1.5]}"#);
        for [stack, cpu] in [rows, columns] {
            assert!(
                stack[0] == 5.0 && stack[1].is_nan() && stack[2] == 6.0,
                "{stack:?}"
            );
            assert!(
                cpu[0] == 7.0 && cpu[1].is_nan() && cpu[2] == -1.5,
                "{cpu:?}"
            );
        }
    }

    #[test]
    fn rows_before_their_schema_have_the_usual_order() {
        let [stack, cpu] = read(r#"{"data":[[1,0,0,9]],"schema":{"stack":0}}"#);
        assert_eq!((stack, cpu), (vec![1.0], vec![9.0]));
        for empty in ["null", r#"{"stack":null}"#] {
            assert!(read(empty).iter().all(Vec::is_empty), "{empty}");
        }
    }

    #[test]
    fn the_unit_of_weights_is_known_in_any_order_of_members() {
        let unit = |members: &str| {
            let text = format!(r#"{{"length":0,{members}}}"#);
            let columns = Columns([("stack", 0)]);
            let table = columns.deserialize(&mut serde_json::Deserializer::from_str(&text));
            table.unwrap().1
        };
        let (ms, before) = (
            r#""weightType":"tracing-ms""#,
            r#""weightsAreTimeBefore":true"#,
        );
        assert_eq!(unit(ms), WeightType::Milliseconds);
        assert_eq!(
            unit(&format!("{ms},{before}")),
            WeightType::MillisecondsBefore
        );
        assert_eq!(
            unit(&format!("{before},{ms}")),
            WeightType::MillisecondsBefore
        );
        assert_eq!(unit(before), WeightType::Samples);
        assert_eq!(unit(r#""weightType":"samples""#), WeightType::Samples);
    }

    #[test]
    fn only_valid_numbers_are_indices() {
        assert_eq!(
            [0.0, -1.0, f64::NAN, 7.0, 1e300].map(as_index),
            [Some(0), None, None, Some(7), None]
        );
    }
}
