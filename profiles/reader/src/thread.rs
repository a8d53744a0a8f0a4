//! A thread as the file has it, in either form.
//!
//! One thread is held at a time: its samples as numbers, and its markers, if they are wanted, with
//! their payloads as text.

use serde::Deserialize;
use serde::de::MapAccess;
use serde_json::Value;

use super::json::{Members, object, skip};
use super::markers::{RawMarkers, ReadMarkers};
use super::table::{Columns, Number, Table, as_index, times_ms};

/// `stack`, `time`, `timeDeltas`, `threadCPUDelta`, `weight`.
const SAMPLES: [(&str, usize); 5] = [
    ("stack", 0),
    ("time", 1),
    ("timeDeltas", usize::MAX),
    ("threadCPUDelta", 3),
    ("weight", usize::MAX),
];
/// `prefix`, `frame`.
const STACKS: [(&str, usize); 2] = [("prefix", 0), ("frame", 1)];
/// `location`, `line`.
const FRAMES: [(&str, usize); 2] = [("location", 0), ("line", 4)];

/// A thread as the file has it, without names for its addresses.
#[derive(Debug, Default)]
pub struct RawThread {
    /// The process's number, or a text such as `12.1`.
    pub pid: String,
    /// The process's name.
    pub process_name: Option<String>,
    /// The name in the file; `GeckoMain` for a main thread in the Gecko format.
    pub name: String,
    /// Its number.
    pub tid: u64,
    pub(super) is_marked_main: bool,
    /// `stack`, `time`, `timeDeltas`, `threadCPUDelta`, `weight`.
    pub samples: Table<5>,
    /// `prefix`, `frame`. This and the next two are empty in the processed form, where threads
    /// share their tables.
    pub(super) stacks: Table<2>,
    /// `location`, `line`.
    pub(super) frames: Table<2>,
    pub(super) strings: Vec<String>,
    /// Its markers.
    pub markers: RawMarkers,
    /// The times in which no sample was taken.
    pub paused: Vec<PausedRange>,
}

/// A time in which no sample was taken, in milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PausedRange {
    start_time: Option<Number>,
    end_time: Option<Number>,
}

/// Reads a [`RawThread`].
#[derive(Default)]
pub(super) struct ReadThread {
    pub(super) thread: RawThread,
    pub(super) with_markers: bool,
}

impl Members for ReadThread {
    const NAME: &'static str = "a thread";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let thread = &mut self.thread;
        match key {
            "pid" => thread.pid = plain(&map.next_value::<Value>()?),
            "tid" => thread.tid = plain(&map.next_value::<Value>()?).parse().unwrap_or(0),
            "processName" => thread.process_name = map.next_value()?,
            "name" => thread.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "isMainThread" => {
                thread.is_marked_main = map.next_value::<Value>()? == Value::Bool(true)
            }
            "samples" => thread.samples = map.next_value_seed(Columns(SAMPLES))?,
            "stackTable" => thread.stacks = map.next_value_seed(Columns(STACKS))?,
            "frameTable" => thread.frames = map.next_value_seed(Columns(FRAMES))?,
            "stringTable" => thread.strings = map.next_value()?,
            "pausedRanges" => thread.paused = map.next_value()?,
            "markers" if self.with_markers => {
                thread.markers = object::<ReadMarkers, A>(map)?.markers
            }
            _ => skip(map)?,
        }
        Ok(())
    }
}

impl RawThread {
    /// Whether it is its process's main thread. Each form marks it differently.
    pub fn is_main(&self) -> bool {
        self.is_marked_main || self.name == MAIN_THREAD
    }

    /// The times of the samples, in milliseconds since the start of the process's session. A sample
    /// without a time has the time of the previous one.
    pub fn sample_times_ms(&self) -> impl Iterator<Item = f64> {
        let [stacks, times, deltas, ..] = &self.samples.0;
        times_ms(times, deltas, stacks.len())
    }

    /// The stacks of the samples, as rows of the table of stacks.
    pub(super) fn sampled_stacks(&self) -> impl Iterator<Item = Option<usize>> {
        let [stacks, ..] = &self.samples.0;
        stacks.iter().map(|stack| as_index(*stack))
    }
}

impl PausedRange {
    /// The range in nanoseconds; a range without an end is unlimited.
    pub fn ns(&self) -> Option<(i64, i64)> {
        let ms = |at: Option<Number>| at.map(|at| at.0).filter(|ms| ms.is_finite());
        let start = ms(self.start_time).map_or(i64::MIN, |ms| (ms * 1e6) as i64);
        let end = ms(self.end_time).map_or(i64::MAX, |ms| (ms * 1e6) as i64);
        (start < end).then_some((start, end))
    }
}

/// The name by which viewers recognise a main thread.
pub(super) const MAIN_THREAD: &str = "GeckoMain";

/// A number or a text, as text.
pub fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
