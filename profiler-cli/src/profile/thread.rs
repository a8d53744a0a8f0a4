//! One thread of a profile: whose it is, and its tables, in either form.
//!
//! Only one is held at a time.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::functions::{SAMPLES, STACKS};
use profiler_parent::internal::reading::{Columns, Table};

/// A thread. What is not named here is skipped while it is read.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) head: Head,
    pub(super) samples: Table<3>,
    /// The rest is empty in the processed form, where threads share it.
    pub(super) stacks: Table<3>,
    /// The locations of frames, as places in `strings`.
    pub(super) locations: Table<1>,
    pub(super) strings: Vec<String>,
}

/// Whose a thread is.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// As it stands there, a number or a text.
    pub(super) pid: String,
    pub(super) process_name: Option<String>,
    pub(super) name: String,
    pub(super) is_main: bool,
}

/// Reads a [`Thread`].
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadSeed;

impl<'de> DeserializeSeed<'de> for ThreadSeed {
    type Value = Thread;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Thread, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ThreadSeed {
    type Value = Thread;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Thread, A::Error> {
        let mut thread = Thread::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "pid" => thread.head.pid = plain(&map.next_value::<Value>()?),
                "processName" => thread.head.process_name = map.next_value::<Text>()?.0,
                "name" => thread.head.name = map.next_value::<Text>()?.0.unwrap_or_default(),
                "isMainThread" => thread.head.is_main = map.next_value::<Value>()? == Value::Bool(true),
                "samples" => thread.samples = map.next_value_seed(Columns(SAMPLES))?,
                "stackTable" => thread.stacks = map.next_value_seed(Columns(STACKS))?,
                "frameTable" => thread.locations = map.next_value_seed(Columns([("location", 0)]))?,
                "stringTable" => thread.strings = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(thread)
    }
}

impl Head {
    /// Whether it is its process's main thread, as either form says it.
    pub(super) fn is_main(&self) -> bool {
        self.is_main || self.name == "GeckoMain"
    }

    /// The process's number; of `123.1`, a second process of one number, the number.
    pub(super) fn pid_number(&self) -> u64 {
        let digits = self.pid.split('.').next().unwrap_or_default();
        digits.parse().unwrap_or(0)
    }
}

/// A text that may be missing.
#[derive(Debug, Deserialize)]
struct Text(Option<String>);

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
