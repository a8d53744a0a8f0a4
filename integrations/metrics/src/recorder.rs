//! A recorder that records into the profile, and passes everything on to the program's own.
//!
//! Called by `metrics`: by its macros at every execution, and by handles that the program keeps.
//! Invariant: the inner recorder gets exactly the calls that it would get without the profiler.

use std::fmt;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, NoopRecorder, Recorder, SetRecorderError,
    SharedString, Unit,
};
use profiler_core::session;

use crate::descriptions::{self, Kind};
use crate::{counters, gauges, histograms, ticks};

/// Records into the profile, and passes everything on to an inner recorder.
///
/// Made by [`around`](crate::around) or [`alone`](crate::alone).
pub struct ProfilerRecorder<R> {
    inner: R,
}

impl<R: Recorder> ProfilerRecorder<R> {
    pub(crate) fn new(inner: R) -> Self {
        if cfg!(feature = "enabled") {
            session::on_switch(show_metrics);
            if session::is_active() {
                ticks::begin(); // a running session has been announced before
            }
        }
        Self { inner }
    }

    /// The inner recorder.
    pub const fn inner(&self) -> &R {
        &self.inner
    }

    /// Installs this recorder for the whole program.
    ///
    /// # Errors
    /// If a recorder was installed before. The error has this recorder.
    pub fn install(self) -> Result<(), SetRecorderError<Self>>
    where
        R: Sync + 'static,
    {
        metrics::set_global_recorder(self)
    }

    fn describe(&self, kind: Kind, name: &KeyName, unit: Option<Unit>, text: &SharedString) {
        if cfg!(feature = "enabled") {
            descriptions::keep(kind, name, unit, text);
        }
    }
}

impl ProfilerRecorder<NoopRecorder> {
    pub(crate) fn alone() -> Self {
        Self::new(NoopRecorder)
    }
}

/// Called after each start and stop, on a thread of the profiler.
fn show_metrics() {
    if session::is_active() {
        ticks::begin();
        gauges::show_all();
    }
}

impl<R: Recorder> Recorder for ProfilerRecorder<R> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(Kind::Counter, &key, unit, &description);
        self.inner.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(Kind::Gauge, &key, unit, &description);
        self.inner.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(Kind::Histogram, &key, unit, &description);
        self.inner.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let inner = self.inner.register_counter(key, metadata);
        if cfg!(feature = "enabled") {
            counters::around(key, inner)
        } else {
            inner
        }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        let inner = self.inner.register_gauge(key, metadata);
        if cfg!(feature = "enabled") {
            gauges::around(key, inner)
        } else {
            inner
        }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let inner = self.inner.register_histogram(key, metadata);
        if cfg!(feature = "enabled") {
            histograms::around(key, inner)
        } else {
            inner
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for ProfilerRecorder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerRecorder")
            .field("inner", &self.inner)
            .finish()
    }
}
