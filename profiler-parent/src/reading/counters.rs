//! The counters of a profile, each reduced to its highest and its last value.
//!
//! Used by [`super::survey`] if counters are wanted. A file has the changes of a counter's value
//! over time, in the rows of `samples`; the values are the sums of the changes.

use serde::de::{MapAccess, SeqAccess};
use serde_json::Value;

use super::json::{Items, Members, Object, skip};
use super::table::Columns;
use super::thread::plain;
use super::walk::PartId;

/// The place of `count` in a row of a file without a schema.
const COUNT: usize = 1;

/// A counter of a process.
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

impl Members for CounterLevels {
    const NAME: &'static str = "a counter";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "category" => self.category = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "pid" => self.pid = Some(plain(&map.next_value::<Value>()?)),
            "samples" => {
                let [changes] = map.next_value_seed(Columns([("count", COUNT)]))?.0;
                self.add(&changes);
            }
            _ => skip(map)?,
        }
        Ok(())
    }
}

impl CounterLevels {
    fn add(&mut self, changes: &[f64]) {
        for change in changes.iter().filter(|change| change.is_finite()) {
            self.last += change;
            self.highest = self.highest.max(self.last);
        }
    }
}

/// Reads the counters of a process's object.
pub(super) struct ReadCounters<'c> {
    pub(super) part: PartId,
    pub(super) counters: &'c mut Vec<CounterLevels>,
}

impl Items for ReadCounters<'_> {
    const NAME: &'static str = "counters";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let mut counter = CounterLevels {
            part: self.part,
            ..CounterLevels::default()
        };
        let found = items.next_element_seed(Object(&mut counter))?.is_some();
        if found {
            self.counters.push(counter);
        }
        Ok(found)
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
            counters: &mut counters,
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
}
