//! A thread as it stands in the file, in either form.
//!
//! Read whole, one at a time: its samples as numbers, its markers (only where a format shows them) with their payloads as text.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::markers::{RawMarkers, RawMarkersSeed};
use crate::reading::{Columns, Number, Table};

/// `stack`, `time`, `timeDeltas`, `threadCPUDelta`, `weight`.
pub(super) const SAMPLES: [(&str, usize); 5] =
    [("stack", 0), ("time", 1), ("timeDeltas", usize::MAX), ("threadCPUDelta", 3), ("weight", usize::MAX)];
/// `prefix`, `frame`.
const STACKS: [(&str, usize); 2] = [("prefix", 0), ("frame", 1)];
/// `location`, `line`.
const FRAMES: [(&str, usize); 2] = [("location", 0), ("line", 4)];

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct RawThread {
    /// A number or a text such as `12.1`.
    pub(super) pid: String,
    pub(super) process_name: Option<String>,
    pub(super) name: String,
    pub(super) tid: u64,
    pub(super) is_main: bool,
    pub(super) samples: Table<5>,
    /// The rest is empty in the processed form, where threads share it.
    pub(super) stacks: Table<2>,
    pub(super) frames: Table<2>,
    pub(super) strings: Vec<String>,
    pub(super) markers: RawMarkers,
    pub(super) paused: Vec<PausedRange>,
}

/// A time in which nothing was sampled, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PausedRange {
    pub(super) start_time: Option<Number>,
    pub(super) end_time: Option<Number>,
}

/// Reads a [`RawThread`].
#[derive(Clone, Copy, Debug)]
pub(super) struct RawThreadSeed {
    pub(super) with_markers: bool,
}

impl<'de> DeserializeSeed<'de> for RawThreadSeed {
    type Value = RawThread;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<RawThread, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RawThreadSeed {
    type Value = RawThread;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawThread, A::Error> {
        let mut thread = RawThread::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "pid" => thread.pid = plain(&map.next_value::<Value>()?),
                "tid" => thread.tid = plain(&map.next_value::<Value>()?).parse().unwrap_or(0),
                "processName" => thread.process_name = map.next_value::<Option<String>>()?,
                "name" => thread.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
                "isMainThread" => thread.is_main = map.next_value::<Value>()? == Value::Bool(true),
                "samples" => thread.samples = map.next_value_seed(Columns(SAMPLES))?,
                "stackTable" => thread.stacks = map.next_value_seed(Columns(STACKS))?,
                "frameTable" => thread.frames = map.next_value_seed(Columns(FRAMES))?,
                "stringTable" => thread.strings = map.next_value()?,
                "pausedRanges" => thread.paused = map.next_value()?,
                "markers" if self.with_markers => thread.markers = map.next_value_seed(RawMarkersSeed)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        // Either form has its own way to say it.
        thread.is_main |= thread.name == MAIN_THREAD;
        Ok(thread)
    }
}

/// What viewers know a main thread by.
pub(super) const MAIN_THREAD: &str = "GeckoMain";

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
