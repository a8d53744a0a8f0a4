//! Histograms: a marker per value, the number of values, and their sum.
//!
//! A profile shows when something was slow and what else happened then. So each value is a marker
//! on its thread, and a value that is a time is an interval that ends now: the request, beside the
//! samples that were taken during it. A distribution over the whole session, such as quantiles,
//! says nothing about that, and the program's own recorder has it. A hot histogram would evict all
//! other entries, so the markers of each histogram are limited to [`MAX_IN_WINDOW`] in a short
//! time. The two counters have all values: their changes are the rate and the mean in any range.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{HistogramFn, Key};
use profiler_core::counter::Counter;
use profiler_core::internal::runtime_site::RuntimeSite;
use profiler_core::marker::schema::{CategoryColor, Format, GraphType, MarkerSchema};
use profiler_core::marker::{Category as MarkerCategory, MarkerOptions};
use profiler_core::session;
use profiler_core::time::Timestamp;

use crate::descriptions::Kind;
use crate::losses::{LEFT_OUT, WITHOUT_LABELS, WITHOUT_MARKER};
use crate::ticks;
use crate::tracks::{CATEGORY, Category, Subject, Target, Track, Tracks, leak};
use crate::units::{Quantity, Scale, THOUSANDTHS};

/// Most markers of one histogram in a window of time.
const MAX_IN_WINDOW: u64 = 256;
/// The length of a window is `2^28` ticks: 0.27 s if a tick is a nanosecond, and about 0.1 s if it
/// is a cycle of the processor.
const WINDOW_BITS: u32 = 28;
/// The part of a word that counts the markers; the rest is the number of the window.
const COUNT_BITS: u32 = 28;
const NANOSECONDS_IN_MS: f64 = 1e6;

/// The category of the markers.
static METRICS: MarkerCategory = MarkerCategory::new(CATEGORY, CategoryColor::Purple, &[]);
static HISTOGRAMS: Tracks<&'static HistogramTarget> =
    Tracks::new(Kind::Histogram, 2, HistogramTarget::leaked);

/// The counters and the markers of a histogram.
#[derive(Debug)]
struct HistogramTarget {
    count: &'static Counter,
    sum: &'static Counter,
    scale: Scale,
    sum_scale: Scale,
    markers: RuntimeSite,
    /// The number of a window, and the markers in it.
    window: AtomicU64,
}

impl HistogramTarget {
    fn leaked(subject: &Subject) -> &'static Self {
        let scale = subject.scale;
        let sum_scale = match scale.quantity {
            Quantity::Count => THOUSANDTHS,
            _ => scale,
        };
        let number = Scale::of("", Some(metrics::Unit::Count));
        let name = leak(subject.name.clone());
        Box::leak(Box::new(Self {
            count: subject.counter(" count", number, Category::Number),
            sum: subject.counter(" sum", sum_scale, Category::Rate),
            scale,
            sum_scale,
            markers: RuntimeSite::new(name, &METRICS, schema_of(scale)),
            window: AtomicU64::new(0),
        }))
    }

    #[inline]
    fn record(&self, value: f64, times: u64) {
        let sum = self.sum_scale.whole(value);
        self.count.add(times.cast_signed());
        self.sum.add(sum.wrapping_mul(times.cast_signed()));
        let now = Timestamp::now();
        if self.may_add_marker(now) {
            self.add_marker(now, value, times);
        } else {
            WITHOUT_MARKER.add(1);
        }
    }

    /// Counts a marker in the present window; false if there are too many.
    fn may_add_marker(&self, now: Timestamp) -> bool {
        let window = (now.raw() >> WINDOW_BITS) << COUNT_BITS;
        let next = |word: u64| {
            let markers = if word >> COUNT_BITS == window >> COUNT_BITS {
                word & ((1 << COUNT_BITS) - 1)
            } else {
                0
            };
            (markers < MAX_IN_WINDOW).then(|| window | (markers + 1))
        };
        let counted = self
            .window
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.is_ok()
    }

    fn add_marker(&self, now: Timestamp, value: f64, times: u64) {
        let nanoseconds = self.scale.nanoseconds(value);
        let begin = nanoseconds.and_then(|nanoseconds| ticks::before(now, nanoseconds));
        let options = match begin {
            Some(begin) => MarkerOptions::interval(begin, now),
            None => MarkerOptions::instant_at(now),
        };
        let shown = match (nanoseconds, self.scale.quantity) {
            (Some(nanoseconds), _) => nanoseconds / NANOSECONDS_IN_MS,
            (None, Quantity::Bytes) => value * self.scale.factor,
            (None, _) => value,
        };
        self.markers.add(options, |out| {
            out.f64(shown)?;
            if times == 1 {
                out.none()
            } else {
                out.u64(times)
            }
        });
    }
}

/// The marker type of the values of a histogram.
fn schema_of(scale: Scale) -> MarkerSchema {
    let (name, format) = match scale.quantity {
        Quantity::Time(_) => ("HistogramTime", Format::Duration),
        Quantity::Bytes => ("HistogramBytes", Format::Bytes),
        Quantity::Other(_) | Quantity::Count => ("HistogramValue", Format::Decimal),
    };
    let schema = MarkerSchema::in_chart_and_table(name)
        .tooltip_label("{marker.name}")
        .chart_label("{marker.name} {marker.data.value}")
        .table_label("{marker.data.value}")
        .key_label_format("value", "Value", format)
        .key_label_format("times", "Times", Format::Integer);
    match scale.quantity {
        // The length of its interval shows it.
        Quantity::Time(_) => schema,
        _ => schema.graph("value", GraphType::Bar, None),
    }
}

/// What the program holds.
struct HistogramHandle {
    inner: metrics::Histogram,
    track: Option<&'static Track<&'static HistogramTarget>>,
}

/// A histogram around that of the inner recorder.
pub(crate) fn around(key: &Key, inner: metrics::Histogram) -> metrics::Histogram {
    let track = HISTOGRAMS.track(key);
    metrics::Histogram::from_arc(Arc::new(HistogramHandle { inner, track }))
}

impl HistogramHandle {
    #[inline]
    fn add(&self, value: f64, times: u64) {
        match self.track.map(|track| HISTOGRAMS.target(track)) {
            Some(Target::Own(target)) => target.record(value, times),
            Some(Target::Shared(target)) => {
                target.record(value, times);
                WITHOUT_LABELS.add(1);
            }
            Some(Target::Nowhere) | None => LEFT_OUT.add(1),
        }
    }
}

impl HistogramFn for HistogramHandle {
    fn record(&self, value: f64) {
        if session::is_active() {
            self.add(value, 1);
        }
        self.inner.record(value);
    }

    fn record_many(&self, value: f64, count: usize) {
        if session::is_active() && count > 0 {
            self.add(value, count as u64);
        }
        self.inner.record_many(value, count);
    }
}
