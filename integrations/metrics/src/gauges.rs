//! Gauges: the latest value is a counter of the profile, and goes to the inner recorder.
//!
//! The latest value of each gauge is always kept, because a change may be relative, and because a
//! profile shows the value that a gauge had before the session. A gauge of whole numbers gets a
//! second counter, in thousandths, when it first has a fraction: without a unit it is not known
//! before whether it counts connections or is a ratio. Invariant: when all threads have returned,
//! the counters have the latest value.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use metrics::{GaugeFn, Key};
use profiler_core::counter::Counter;
use profiler_core::session;

use crate::descriptions::Kind;
use crate::losses::LEFT_OUT;
use crate::tracks::{Category, Subject, Target, Track, Tracks, take_counter};
use crate::units::{Quantity, THOUSANDTHS};

static GAUGES: Tracks<&'static GaugeTarget> = Tracks::new(Kind::Gauge, 1, GaugeTarget::leaked);

/// The counters of the profile that a gauge sets.
#[derive(Debug)]
struct GaugeTarget {
    subject: Subject,
    counter: &'static Counter,
    /// The value with its fraction, since it has one. `None` if there are too many counters.
    fraction: OnceLock<Option<&'static Counter>>,
}

impl GaugeTarget {
    fn leaked(subject: &Subject) -> &'static Self {
        Box::leak(Box::new(Self {
            counter: subject.counter("", subject.scale, Category::Level),
            subject: subject.clone(),
            fraction: OnceLock::new(),
        }))
    }

    fn set(&self, value: f64) {
        let scale = self.subject.scale;
        self.counter.set(scale.whole(value));
        let is_fraction = value.is_finite() && value.fract() != 0.0;
        let has_fraction = scale.quantity == Quantity::Count && is_fraction;
        if has_fraction && self.fraction.get().is_none() {
            let _ = self.fraction.set(self.make_fraction());
        }
        if let Some(Some(fraction)) = self.fraction.get() {
            fraction.set(THOUSANDTHS.whole(value));
        }
    }

    #[cold]
    fn make_fraction(&self) -> Option<&'static Counter> {
        take_counter().then(|| self.subject.counter("", THOUSANDTHS, Category::Level))
    }
}

/// What the program holds.
struct GaugeHandle {
    inner: metrics::Gauge,
    track: Option<&'static Track<&'static GaugeTarget>>,
}

/// A gauge around that of the inner recorder.
pub(crate) fn around(key: &Key, inner: metrics::Gauge) -> metrics::Gauge {
    // The values of several gauges have no sum that a change of one of them could be added to.
    let track = GAUGES.track(key).filter(|track| track.is_own());
    metrics::Gauge::from_arc(Arc::new(GaugeHandle { inner, track }))
}

/// Sets the counters of all gauges, when a session has started.
pub(crate) fn show_all() {
    let has_value = |track: &&Track<_>| track.latest.load(Ordering::Relaxed) != 0;
    GAUGES.iter().filter(has_value).for_each(show);
}

/// Sets the counters of a gauge to its latest value.
fn show(track: &'static Track<&'static GaugeTarget>) {
    let Target::Own(target) = GAUGES.target(track) else {
        LEFT_OUT.add(1);
        return;
    };
    loop {
        let bits = track.latest.load(Ordering::Relaxed);
        target.set(f64::from_bits(bits));
        // A thread that changes the value from now on sets the counters afterwards; a change from
        // before is seen here.
        fence(Ordering::SeqCst);
        if track.latest.load(Ordering::Relaxed) == bits {
            return;
        }
    }
}

impl GaugeHandle {
    /// Changes the latest value.
    #[inline]
    fn change(&self, next: impl Fn(f64) -> f64) {
        let Some(track) = self.track else {
            LEFT_OUT.add(1);
            return;
        };
        let next = |bits: u64| Some(next(f64::from_bits(bits)).to_bits());
        update(&track.latest, next);
        if session::is_active() {
            fence(Ordering::SeqCst); // see `show`
            show(track);
        }
    }
}

fn update(latest: &AtomicU64, next: impl Fn(u64) -> Option<u64>) {
    let _ = latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

impl GaugeFn for GaugeHandle {
    fn increment(&self, value: f64) {
        self.change(|latest| latest + value);
        self.inner.increment(value);
    }

    fn decrement(&self, value: f64) {
        self.change(|latest| latest - value);
        self.inner.decrement(value);
    }

    fn set(&self, value: f64) {
        self.change(|_| value);
        self.inner.set(value);
    }
}
