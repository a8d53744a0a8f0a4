//! Observed markers for the page, only while the page requests them.
//!
//! A request with a filter begins to observe; that ends when no request has come for a while.
//! Invariants: the number of filters, and the markers and bytes kept of each, are bounded, and so is
//! an answer; markers that are left out are counted, here or by the observer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::query::Query;
use crate::observe::{Filter, ObservedMarker, Observer, ObserverOptions, ObserverRegistry};

/// Filters that are watched at once; a further one takes the place of the one that was asked for longest ago.
const WATCHED: usize = 4;
/// Markers that are kept of each, and bytes of them all.
const KEPT: usize = 500;
const KEPT_BYTES: usize = 1 << 20;
/// Running spans that are shown, and bytes of them all.
const RUNNING: usize = 50;
const RUNNING_BYTES: usize = 256 << 10;
/// Batches that are taken in one request.
const BATCHES: usize = 64;
/// Nanoseconds without a request after which a filter is dropped.
const PATIENCE: i64 = 10_000_000_000;
/// Bytes that may wait until the next request.
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
    /// Of the latest one so far: what to ask after next. Less than before if no request had come for a while.
    number: u64,
    /// The latest first.
    rows: Vec<Numbered>,
    /// New ones that are not kept any more: they were too many, or too large.
    left_out: u64,
    running: Vec<ObservedMarker>,
    /// Running spans that are not listed.
    running_left_out: u64,
    /// Lost because no request came in time.
    dropped: u64,
    /// Evicted before they could be read.
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
        self.markers.push_back(Numbered { number: self.count, marker });
        while self.markers.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.markers.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.marker.weight());
        }
    }

    /// Those with a higher number, the latest first, and how many of that kind are not kept any more. A number that there was
    /// not yet is of those who watched before.
    fn after(&self, number: u64) -> (Vec<Numbered>, u64) {
        let number = if number > self.count { 0 } else { number };
        let rows: Vec<Numbered> =
            self.markers.iter().rev().take_while(|one| one.number > number).cloned().collect();
        let left_out = self.count.saturating_sub(number).saturating_sub(rows.len() as u64);
        (rows, left_out)
    }
}

/// The latest of the running spans that fit, which come oldest first; and how many do not.
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

/// A filter that is observed.
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
                Err(_) => return, // nothing more, now or ever
            };
            (self.dropped, self.missed) = (batch.dropped, batch.missed);
            let (running, left_out) = shown(batch.running);
            self.running = (running, left_out.saturating_add(batch.running_left_out));
            batch.markers.into_iter().for_each(|marker| self.latest.add(marker));
        }
    }

    fn view(&self, after: u64) -> MarkersView {
        let (rows, left_out) = self.latest.after(after);
        let (running, running_left_out) = self.running.clone();
        let (dropped, missed) = (self.dropped, self.missed);
        let number = self.latest.count;
        MarkersView { number, rows, left_out, running, running_left_out, dropped, missed }
    }
}

/// What is watched now.
#[derive(Debug)]
pub(super) struct Markers {
    observers: ObserverRegistry,
    watched: Mutex<Vec<Watched>>,
}

impl Markers {
    pub(super) fn new(observers: ObserverRegistry) -> Self {
        Self { observers, watched: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is new since the marker of this number.
    pub(super) fn look(&self, query: &Query, now: i64) -> io::Result<MarkersView> {
        let filter = filter(query);
        let mut watched = self.lock();
        if !watched.iter().any(|one| one.filter == filter) {
            if watched.len() >= WATCHED {
                let oldest = watched.iter().enumerate().min_by_key(|(_, one)| one.asked_ns);
                oldest.map(|(place, _)| place).map(|place| watched.remove(place));
            }
            watched.push(self.watch(filter.clone(), now)?);
        }
        let one = watched.iter_mut().find(|one| one.filter == filter).ok_or(io::ErrorKind::NotFound)?;
        one.asked_ns = now;
        one.take();
        Ok(one.view(query.number("after").unwrap_or(0)))
    }

    /// Drops filters that are no longer requested.
    pub(super) fn tidy(&self, now: i64) {
        self.lock().retain(|one| now.saturating_sub(one.asked_ns) < PATIENCE);
    }

    fn watch(&self, filter: Filter, now: i64) -> io::Result<Watched> {
        let options = ObserverOptions::default().queue_bytes(QUEUE);
        let observer = self.observers.observe(filter.clone(), options).map_err(io::Error::other)?;
        let (latest, running) = (Latest::default(), (Vec::new(), 0));
        Ok(Watched { filter, observer, asked_ns: now, latest, running, dropped: 0, missed: 0 })
    }
}

fn filter(query: &Query) -> Filter {
    // A part of a name is enough.
    let part = |name: String| if name.contains(['*', '?']) { name } else { format!("*{name}*") };
    let ms = query.number::<f64>("min_ms").filter(|ms| (0.0..1e9).contains(ms)).unwrap_or(0.0);
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
    use profiler_core::ids::{ProcessId, ThreadId};

    use super::*;
    use crate::observe::{Detail, Origin, SessionNs, Shape};

    /// A marker with this many bytes of text.
    fn marker(bytes: usize) -> ObservedMarker {
        let (process, thread) = (ProcessId::new(1), ThreadId::new(1));
        ObservedMarker {
            origin: Origin { process, process_name: "p".into(), thread, thread_name: "t".into() },
            name: "m".into(),
            category: "c".into(),
            shape: Shape::Instant,
            start: SessionNs(0),
            end: Some(SessionNs(0)),
            span: None,
            opened_before: false,
            unfinished: false,
            fields: Vec::new(),
            flows: Vec::new(),
            groups: Vec::new(),
            details: vec![Detail { name: "said".into(), value: "x".repeat(bytes) }],
            cut: false,
        }
    }

    fn numbers(rows: &[Numbered]) -> Vec<u64> {
        rows.iter().map(|row| row.number).collect()
    }

    #[test]
    fn l1_markers_that_are_kept_are_bounded_in_number_and_in_bytes_and_the_rest_is_counted() {
        let mut latest = Latest::default();
        (0..KEPT + 7).for_each(|_| latest.add(marker(10)));
        let (rows, left_out) = latest.after(0);
        assert_eq!((rows.len(), left_out), (KEPT, 7));
        (0..20).for_each(|_| latest.add(marker(KEPT_BYTES / 4)));
        let (rows, left_out) = latest.after(507);
        assert_eq!(
            (numbers(&rows), left_out),
            (vec![527, 526, 525], 17),
            "three quarters of the bytes, and some more"
        );
        latest.add(marker(2 * KEPT_BYTES));
        assert_eq!((latest.after(527), latest.bytes), ((Vec::new(), 1), 0), "none that is too large alone");
        latest.add(marker(10));
        assert_eq!(numbers(&latest.after(527).0), [529]);
        assert_eq!(latest.after(1_000), latest.after(0), "who has watched before");
    }

    #[test]
    fn l1_running_spans_of_which_much_is_said_are_few_and_the_latest() {
        let sized = |sizes: &[usize]| shown(sizes.iter().map(|bytes| marker(*bytes)).collect());
        let sizes = |running: &[ObservedMarker]| -> Vec<usize> {
            running.iter().map(|one| one.details[0].value.len()).collect()
        };
        let (running, left_out) = sized(&[1, 2, RUNNING_BYTES, 4, 5]);
        assert_eq!((sizes(&running), left_out), (vec![4, 5], 3));
        let (running, left_out) = sized(&(0..RUNNING + 3).collect::<Vec<_>>());
        assert_eq!((sizes(&running)[0], running.len(), left_out), (3, RUNNING, 3));
    }
}
