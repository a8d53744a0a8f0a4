//! The markers of a run: their number and their durations, by name.
//!
//! Collected by [`super::run()`], compared by [`mod@super::compare`].

use std::collections::{BTreeMap, HashMap};

use profiler_reader::{MarkerPhase, NamedMarker, Thread};

/// The markers with one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MarkerTimes {
    /// Points, and intervals that ended.
    pub(super) count: u64,
    /// The durations of the intervals in milliseconds, in no order.
    pub(super) durations_ms: Vec<f64>,
}

/// The markers of some threads, by name.
#[derive(Debug, Default)]
pub(super) struct MarkersByName(BTreeMap<String, MarkerTimes>);

/// The spans of a process with a number whose start or end has been read. A span may begin on one
/// thread and end on another, in any order of the file.
#[derive(Debug, Default)]
pub(super) struct OpenSpans {
    /// By name and number; NaN for a time that is unknown.
    starts_ms: HashMap<(String, u64), f64>,
    ends_ms: HashMap<(String, u64), f64>,
}

impl MarkersByName {
    /// The names of the markers.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The markers with a name.
    pub(super) fn get(&self, name: &str) -> Option<&MarkerTimes> {
        self.0.get(name)
    }

    /// Adds the markers of a thread. The start and the end of a span are paired by its number, also
    /// on different threads of the process, whose spans are `spans`. Without a number, an end is
    /// paired with the latest start of the same name on this thread that has no end yet.
    pub(super) fn add(&mut self, thread: &Thread<'_>, spans: &mut OpenSpans) {
        let mut open: HashMap<&str, Vec<f64>> = HashMap::new();
        for marker in thread.markers() {
            let is_half = matches!(marker.phase, MarkerPhase::Start | MarkerPhase::End);
            let number = if is_half { marker.span() } else { None };
            let duration_ms = match (marker.phase, number) {
                (MarkerPhase::Instant, _) => None,
                (MarkerPhase::Interval, _) => Some(marker.end_ms - marker.start_ms),
                (MarkerPhase::Start | MarkerPhase::End, Some(number)) => {
                    match spans.other_half(&marker, number) {
                        Some(duration_ms) => Some(duration_ms),
                        None => continue,
                    }
                }
                (MarkerPhase::Start, None) => {
                    open.entry(marker.name).or_default().push(marker.start_ms);
                    continue;
                }
                (MarkerPhase::End, None) => {
                    let start = open.get_mut(marker.name).and_then(Vec::pop);
                    start.map(|start| marker.end_ms - start)
                }
            };
            self.add_one(marker.name, duration_ms);
        }
    }

    /// Adds the spans of a process that ended and whose start is not in the profile.
    pub(super) fn add_ends(&mut self, spans: OpenSpans) {
        for (name, _) in spans.ends_ms.into_keys() {
            self.add_one(&name, None);
        }
    }

    fn add_one(&mut self, name: &str, duration_ms: Option<f64>) {
        // `entry` would copy the name of every marker.
        let times = match self.0.get_mut(name) {
            Some(times) => times,
            None => self.0.entry(name.to_owned()).or_default(),
        };
        times.count += 1;
        times
            .durations_ms
            .extend(duration_ms.filter(|ms| ms.is_finite()));
    }
}

impl OpenSpans {
    /// The duration of the span if this marker completes it; otherwise the marker is kept until its
    /// other half is read.
    fn other_half(&mut self, marker: &NamedMarker<'_>, number: u64) -> Option<f64> {
        let key = (marker.name.to_owned(), number);
        if marker.phase == MarkerPhase::Start {
            let Some(end_ms) = self.ends_ms.remove(&key) else {
                self.starts_ms.insert(key, marker.start_ms);
                return None;
            };
            return Some(end_ms - marker.start_ms);
        }
        let Some(start_ms) = self.starts_ms.remove(&key) else {
            self.ends_ms.insert(key, marker.end_ms);
            return None;
        };
        Some(marker.end_ms - start_ms)
    }
}
