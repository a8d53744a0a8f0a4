//! The contents of a profile as [`ProfileReader`] sees it: names instead of numbers.

use std::path::Path;

use serde_json::Value;

use profiler_reader::{
    Function, NodeId, ProfileReader, ReadError, Survey, Tables, Thread, ThreadSink, Wanted,
};

/// A thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    pub(super) pid: String,
    pub(super) process: String,
    pub(super) thread: String,
    /// Nanoseconds, stack, processor time and weight as bits.
    pub(super) samples: Vec<(i64, Vec<String>, u64, u64)>,
    pub(super) markers: Vec<MarkerContent>,
}

/// A marker, with names instead of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MarkerContent {
    pub(super) name: String,
    pub(super) category: String,
    pub(super) start_ns: i64,
    pub(super) payload: Value,
}

/// All threads of a profile.
pub(super) fn of(path: &Path) -> Vec<Content> {
    let reader = ProfileReader::open(path, Wanted::default()).unwrap();
    let mut contents = Contents(Vec::new());
    reader.threads(&mut contents).unwrap();
    contents.0
}

struct Contents(Vec<Content>);

fn ns(ms: f64) -> i64 {
    (ms * 1e6).round() as i64
}

fn stack(tables: &Tables, node: NodeId) -> Vec<String> {
    let frames = tables.stack(node);
    let shown = frames.map(|(_, frame)| {
        let func = tables.function(frame.func).map(|func| Function {
            // Labels of one name are one function, which has the line of the first of them.
            line: func.line.filter(|_| frame.address.is_some()),
            ..func
        });
        format!("{func:?} line {:?} address {:?}", frame.line, frame.address)
    });
    shown.collect()
}

/// Replaces the numbers of texts and stacks in a payload.
fn named(payload: &str, thread: &Thread<'_>, survey: &Survey) -> Value {
    let mut payload: Value = serde_json::from_str(payload).unwrap();
    let kind = payload["type"].as_str().unwrap_or_default().to_owned();
    for field in survey.meta.text_fields().remove(&kind).unwrap_or_default() {
        if let Some(number) = payload[&field.key].as_u64() {
            payload[&field.key] = thread.texts[number as usize].as_str().into();
        }
    }
    if let Some(number) = payload["cause"]["stack"].as_u64() {
        payload["cause"]["stack"] = stack(thread.tables, NodeId(number as u32)).into();
    }
    payload
}

impl ThreadSink for Contents {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ReadError> {
        let raw = thread.raw;
        let samples = raw.sample_times_ms().zip(thread.nodes).enumerate();
        let samples = samples.map(|(row, (ms, node))| {
            let stack = node.map_or_else(Vec::new, |node| stack(thread.tables, node));
            let bits = |column| raw.samples.number(column, row).to_bits();
            (ns(ms), stack, bits(3), bits(4))
        });
        let markers = raw.markers.iter().map(|marker| MarkerContent {
            name: thread.texts[marker.name as usize].clone(),
            category: survey.meta.category(marker.category).to_owned(),
            start_ns: ns(marker.start),
            payload: marker
                .data
                .map_or(Value::Null, |payload| named(payload, thread, survey)),
        });
        self.0.push(Content {
            pid: raw.pid.clone(),
            process: thread.process.to_owned(),
            thread: thread.name.to_owned(),
            samples: samples.collect(),
            markers: markers.collect(),
        });
        Ok(())
    }
}
