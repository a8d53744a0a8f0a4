//! Observed markers for whoever watches, and only while somebody does.
//!
//! A request with a filter begins to observe; when nobody has asked for a while, that ends. Invariants: few filters at once,
//! few markers kept of each, all else is counted by the observer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::query::Query;
use crate::observe::{Filter, Observatory, ObservedMarker, Observer, ObserverOptions};

/// Filters that are watched at once; a further one takes the place of the one that was asked for longest ago.
const WATCHED: usize = 4;
/// Markers that are kept of each.
const KEPT: usize = 500;
/// Running spans that are shown.
const RUNNING: usize = 50;
/// Batches that are taken in one request.
const BATCHES: usize = 64;
/// Nanoseconds after which nobody watches any more.
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

/// What is new for whoever watches.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MarkersView {
    /// The latest first.
    rows: Vec<Numbered>,
    running: Vec<ObservedMarker>,
    /// Lost because nobody asked in time.
    dropped: u64,
    /// Evicted before they could be read.
    missed: u64,
}

/// Somebody watches this.
#[derive(Debug)]
struct Watched {
    filter: Filter,
    observer: Observer,
    asked_ns: i64,
    count: u64,
    latest: VecDeque<Numbered>,
    running: Vec<ObservedMarker>,
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
            self.running = batch.running;
            self.running.truncate(RUNNING);
            for marker in batch.markers {
                self.count += 1;
                self.latest.push_back(Numbered { number: self.count, marker });
            }
            let surplus = self.latest.len().saturating_sub(KEPT);
            self.latest.drain(..surplus);
        }
    }

    fn view(&self, after: u64) -> MarkersView {
        MarkersView {
            rows: self.latest.iter().rev().take_while(|one| one.number > after).cloned().collect(),
            running: self.running.clone(),
            dropped: self.dropped,
            missed: self.missed,
        }
    }
}

/// What is watched now.
#[derive(Debug)]
pub(super) struct Markers {
    observatory: Observatory,
    watched: Mutex<Vec<Watched>>,
}

impl Markers {
    pub(super) fn new(observatory: Observatory) -> Self {
        Self { observatory, watched: Mutex::default() }
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

    /// Ends the watching of what nobody asks for any more.
    pub(super) fn tidy(&self, now: i64) {
        self.lock().retain(|one| now.saturating_sub(one.asked_ns) < PATIENCE);
    }

    fn watch(&self, filter: Filter, now: i64) -> io::Result<Watched> {
        let options = ObserverOptions::default().queue_bytes(QUEUE);
        let observer = self.observatory.observe(filter.clone(), options)?;
        let (latest, running) = (VecDeque::new(), Vec::new());
        Ok(Watched { filter, observer, asked_ns: now, count: 0, latest, running, dropped: 0, missed: 0 })
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
