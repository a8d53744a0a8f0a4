//! Counters: each change goes to a counter of the profile and to the inner recorder.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metrics::{CounterFn, Key};
use profiler_core::counter::Counter;
use profiler_core::session;

use crate::descriptions::Kind;
use crate::losses::{LEFT_OUT, WITHOUT_LABELS};
use crate::tracks::{Category, Subject, Target, Track, Tracks};
use crate::units::Scale;

static COUNTERS: Tracks<&'static CounterTarget> =
    Tracks::new(Kind::Counter, 1, CounterTarget::leaked);

/// The counter of the profile that a metric changes.
#[derive(Debug)]
struct CounterTarget {
    counter: &'static Counter,
    scale: Scale,
}

impl CounterTarget {
    fn leaked(subject: &Subject) -> &'static Self {
        Box::leak(Box::new(Self {
            counter: subject.counter("", subject.scale, Category::Rate),
            scale: subject.scale,
        }))
    }

    #[inline]
    fn add(&self, value: u64) {
        self.counter.add(self.scale.whole_of(value));
    }
}

/// What the program holds.
struct CounterHandle {
    inner: metrics::Counter,
    track: Option<&'static Track<&'static CounterTarget>>,
}

/// A counter around that of the inner recorder.
pub(crate) fn around(key: &Key, inner: metrics::Counter) -> metrics::Counter {
    let track = COUNTERS.track(key);
    metrics::Counter::from_arc(Arc::new(CounterHandle { inner, track }))
}

impl CounterHandle {
    #[inline]
    fn add(&self, value: u64) {
        match self.track.map(|track| COUNTERS.target(track)) {
            Some(Target::Own(target)) => target.add(value),
            Some(Target::Shared(target)) => {
                target.add(value);
                WITHOUT_LABELS.add(1);
            }
            Some(Target::Nowhere) | None => LEFT_OUT.add(1),
        }
    }

    /// The growth since the previous absolute value. Of the first one it is not known.
    fn growth(&self, value: u64) -> Option<u64> {
        let track = self.track.filter(|track| track.is_own())?;
        // One more than the value; 0 before the first one.
        let latest = value.saturating_add(1);
        let before = track.latest.fetch_max(latest, Ordering::Relaxed);
        Some(if before == 0 {
            0
        } else {
            latest.saturating_sub(before)
        })
    }
}

impl CounterFn for CounterHandle {
    #[inline]
    fn increment(&self, value: u64) {
        if session::is_active() {
            self.add(value);
        }
        self.inner.increment(value);
    }

    fn absolute(&self, value: u64) {
        match self.growth(value) {
            Some(0) => {}
            Some(growth) if session::is_active() => self.add(growth),
            Some(_) => {}
            None => LEFT_OUT.add(1),
        }
        self.inner.absolute(value);
    }
}
