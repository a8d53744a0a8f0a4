//! The markers of a run: their number and their durations, by name.

use std::collections::{BTreeMap, HashMap};

use profiler_parent::internal::reading::{MarkerPhase, Thread};

/// The markers with one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MarkerTimes {
    /// Points, and intervals that ended.
    pub(super) count: u64,
    /// The durations of the intervals in milliseconds, in no order.
    pub(super) durations_ms: Vec<f64>,
}

/// The markers of some threads, by name.
pub(super) type MarkersByName = BTreeMap<String, MarkerTimes>;

/// Adds the markers of a thread. The start of an interval and its end belong together if they have
/// the same name and all intervals with this name between them have ended.
pub(super) fn add(to: &mut MarkersByName, thread: &Thread<'_>) {
    let mut open: HashMap<&str, Vec<f64>> = HashMap::new();
    for marker in thread.markers() {
        let duration_ms = match marker.phase {
            MarkerPhase::Instant => None,
            MarkerPhase::Interval => Some(marker.end_ms - marker.start_ms),
            MarkerPhase::Start => {
                open.entry(marker.name).or_default().push(marker.start_ms);
                continue;
            }
            MarkerPhase::End => {
                let start = open.get_mut(marker.name).and_then(Vec::pop);
                start.map(|start| marker.end_ms - start)
            }
        };
        // `entry` would copy the name of every marker.
        let times = match to.get_mut(marker.name) {
            Some(times) => times,
            None => to.entry(marker.name.to_owned()).or_default(),
        };
        times.count += 1;
        times
            .durations_ms
            .extend(duration_ms.filter(|ms| ms.is_finite()));
    }
}
