//! The observed markers that the page shows. Markers are observed only while the page requests
//! them.
//!
//! A request with a new filter starts an observer; it is dropped after a period without requests.
//! Invariants: the number of filters, the markers and bytes kept of each, and the size of an answer
//! are bounded; markers that are left out are counted, here or by the observer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_http::Query;
use serde::Serialize;

use crate::observe::{Filter, ObservedMarker, Observer, ObserverOptions, ObserverRegistry};

/// Limit on the observed filters. A further one replaces the filter with the oldest request.
const WATCHED: usize = 4;
/// Limits on the markers kept per filter, and on their bytes.
const KEPT: usize = 500;
const KEPT_BYTES: usize = 1 << 20;
/// Limits on the running spans shown, and on their bytes.
const RUNNING: usize = 50;
const RUNNING_BYTES: usize = 256 << 10;
/// Limit on the batches taken per request.
const BATCHES: usize = 64;
/// Nanoseconds without a request after which a filter is dropped.
const PATIENCE: i64 = 10_000_000_000;
/// Limit on the bytes that wait for the next request.
const QUEUE: usize = 4 << 20;

/// A marker with its number.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Numbered {
    number: u64,
    #[serde(flatten)]
    marker: ObservedMarker,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MarkersView {
    /// The number of the latest marker, for the next request. It starts again if the filter was
    /// dropped.
    number: u64,
    /// The latest first.
    rows: Vec<Numbered>,
    /// New markers that are not kept any more, because they were too many or too large.
    left_out: u64,
    running: Vec<ObservedMarker>,
    /// Running spans that are not listed.
    running_left_out: u64,
    /// Markers lost because no request came in time.
    dropped: u64,
    /// Entries evicted before they were read.
    missed: u64,
}

/// The latest markers, within bounds.
#[derive(Debug, Default)]
struct Latest {
    count: u64,
    markers: VecDeque<Numbered>,
    bytes: usize,
}

impl Latest {
    fn add(&mut self, marker: ObservedMarker) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(marker.weight());
        self.markers.push_back(Numbered {
            number: self.count,
            marker,
        });
        while self.markers.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.markers.pop_front() else {
                return;
            };
            self.bytes = self.bytes.saturating_sub(oldest.marker.weight());
        }
    }

    /// Returns the markers with a higher number, the latest first, and how many of them are no
    /// longer kept. A number above the latest one is from an earlier observer and counts as 0.
    fn after(&self, number: u64) -> (Vec<Numbered>, u64) {
        let number = if number > self.count { 0 } else { number };
        let rows: Vec<Numbered> = self
            .markers
            .iter()
            .rev()
            .take_while(|one| one.number > number)
            .cloned()
            .collect();
        let left_out = self
            .count
            .saturating_sub(number)
            .saturating_sub(rows.len() as u64);
        (rows, left_out)
    }
}

/// The latest running spans that fit, and the number of the others. The input is sorted oldest
/// first.
fn shown(mut running: Vec<ObservedMarker>) -> (Vec<ObservedMarker>, u64) {
    let mut bytes = 0_usize;
    let fits = |one: &&ObservedMarker| {
        bytes = bytes.saturating_add(one.weight());
        bytes <= RUNNING_BYTES
    };
    let count = running.iter().rev().take(RUNNING).take_while(fits).count();
    let left_out = running.len().saturating_sub(count);
    running.drain(..left_out);
    (running, left_out as u64)
}

/// An observed filter.
#[derive(Debug)]
struct Watched {
    filter: Filter,
    observer: Observer,
    asked_ns: i64,
    latest: Latest,
    running: (Vec<ObservedMarker>, u64),
    dropped: u64,
    missed: u64,
}

impl Watched {
    fn take(&mut self) {
        for _ in 0..BATCHES {
            let batch = match self.observer.next(Duration::ZERO) {
                Ok(batch) => batch,
                Err(_) => return, // no batch yet, or the session is over
            };
            (self.dropped, self.missed) = (batch.dropped, batch.missed);
            let (running, left_out) = shown(batch.running);
            self.running = (running, left_out.saturating_add(batch.running_left_out));
            batch
                .markers
                .into_iter()
                .for_each(|marker| self.latest.add(marker));
        }
    }

    fn view(&self, after: u64) -> MarkersView {
        let (rows, left_out) = self.latest.after(after);
        let (running, running_left_out) = self.running.clone();
        let dropped = self.dropped;
        let missed = self.missed;
        let number = self.latest.count;
        MarkersView {
            number,
            rows,
            left_out,
            running,
            running_left_out,
            dropped,
            missed,
        }
    }
}

/// All observed filters.
#[derive(Debug)]
pub(super) struct Markers {
    observers: ObserverRegistry,
    watched: Mutex<Vec<Watched>>,
}

impl Markers {
    pub(super) fn new(observers: ObserverRegistry) -> Self {
        Self {
            observers,
            watched: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The markers since the number in the request.
    pub(super) fn view(&self, query: &Query, now: i64) -> io::Result<MarkersView> {
        let filter = filter(query);
        let mut watched = self.lock();
        if !watched.iter().any(|one| one.filter == filter) {
            if watched.len() >= WATCHED {
                let oldest = watched
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, one)| one.asked_ns);
                oldest
                    .map(|(place, _)| place)
                    .map(|place| watched.remove(place));
            }
            watched.push(self.watch(filter.clone(), now)?);
        }
        let one = watched
            .iter_mut()
            .find(|one| one.filter == filter)
            .ok_or(io::ErrorKind::NotFound)?;
        one.asked_ns = now;
        one.take();
        Ok(one.view(query.number("after").unwrap_or(0)))
    }

    /// Drops filters that are no longer requested.
    pub(super) fn tidy(&self, now: i64) {
        self.lock()
            .retain(|one| now.saturating_sub(one.asked_ns) < PATIENCE);
    }

    fn watch(&self, filter: Filter, now: i64) -> io::Result<Watched> {
        let options = ObserverOptions::default().queue_bytes(QUEUE);
        let observer = self
            .observers
            .observe(filter.clone(), options)
            .map_err(io::Error::other)?;
        let latest = Latest::default();
        let running = (Vec::new(), 0);
        Ok(Watched {
            filter,
            observer,
            asked_ns: now,
            latest,
            running,
            dropped: 0,
            missed: 0,
        })
    }
}

fn filter(query: &Query) -> Filter {
    // A name without wildcards matches any part.
    let part = |name: String| {
        if name.contains(['*', '?']) {
            name
        } else {
            format!("*{name}*")
        }
    };
    let ms = query
        .number::<f64>("min_ms")
        .filter(|ms| (0.0..1e9).contains(ms))
        .unwrap_or(0.0);
    let filter = Filter {
        process: query.text("process"),
        thread: query.text("thread"),
        group: query.text("group"),
        category: query.text("category"),
        name: query.text("name").map(part),
        ..Filter::default()
    };
    filter.min_duration(Duration::from_secs_f64(ms / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Detail, SessionNs, Shape};

    /// Creates a marker with this many bytes of text.
    fn marker(bytes: usize) -> ObservedMarker {
        ObservedMarker {
            shape: Shape::Instant,
            end: Some(SessionNs(0)),
            details: vec![Detail {
                name: "said".into(),
                value: "x".repeat(bytes),
            }],
            ..ObservedMarker::test_span(1, "m")
        }
    }

    fn numbers(rows: &[Numbered]) -> Vec<u64> {
        rows.iter().map(|row| row.number).collect()
    }

    #[test]
    fn l1_kept_markers_are_bounded_in_number_and_bytes_and_the_others_are_counted() {
        let mut latest = Latest::default();
        (0..KEPT + 7).for_each(|_| latest.add(marker(10)));
        let (rows, left_out) = latest.after(0);
        assert_eq!((rows.len(), left_out), (KEPT, 7));
        (0..20).for_each(|_| latest.add(marker(KEPT_BYTES / 4)));
        let (rows, left_out) = latest.after(507);
        assert_eq!(
            (numbers(&rows), left_out),
            (vec![527, 526, 525], 17),
            "three markers of a quarter of the bytes and some more fit"
        );
        latest.add(marker(2 * KEPT_BYTES));
        assert_eq!(
            (latest.after(527), latest.bytes),
            ((Vec::new(), 1), 0),
            "a marker that is too large alone is not kept"
        );
        latest.add(marker(10));
        assert_eq!(numbers(&latest.after(527).0), [529]);
        assert_eq!(
            latest.after(1_000),
            latest.after(0),
            "a number of an earlier observer counts as 0"
        );
    }

    #[test]
    fn l1_running_spans_are_bounded_in_number_and_bytes_to_the_latest() {
        let sized = |sizes: &[usize]| shown(sizes.iter().map(|bytes| marker(*bytes)).collect());
        let sizes = |running: &[ObservedMarker]| -> Vec<usize> {
            running
                .iter()
                .map(|one| one.details[0].value.len())
                .collect()
        };
        let (running, left_out) = sized(&[1, 2, RUNNING_BYTES, 4, 5]);
        assert_eq!((sizes(&running), left_out), (vec![4, 5], 3));
        let (running, left_out) = sized(&(0..RUNNING + 3).collect::<Vec<_>>());
        assert_eq!(
            (sizes(&running)[0], running.len(), left_out),
            (3, RUNNING, 3)
        );
    }
}
