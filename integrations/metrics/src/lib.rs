//! The counters, gauges and histograms of the crate `metrics`, in the profiles of the profiler.
//!
//! Called by applications, which install the recorder of this crate around their own, such as the
//! one of a Prometheus exporter. The profiler's sessions are those of `profiler-parent` and
//! `profiler-child`; this crate starts none.
//!
//! ```
//! profiler_metrics::alone().install()?;
//! metrics::counter!("requests_total", "method" => "GET").increment(1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is recorded
//! - A counter is a counter of the profile, per set of labels. It begins with zero at the start of
//!   a session. An absolute value counts by its growth since the previous absolute value.
//! - A gauge is a counter of the profile that has the latest value, also the one that it had when
//!   the session started.
//! - Each value of a histogram is a marker on its thread. A value that is a time is an interval
//!   that ends when it is recorded. Two counters have the number of the values, and their sum.
//!
//! The profile has the values of counters at each tick of the sampler, and the last values of a
//! process that was killed.
//!
//! # Units
//! The counters of a profile are whole numbers. The unit decides how they are made: seconds and
//! milliseconds become microseconds, percent become thousandths of a percent, and multiples of
//! bytes become bytes. The name of the track has the unit. The unit is that of `describe_counter!`
//! and its like, or that with which the name ends: `_seconds`, `_ms`, `_bytes`, `_percent`,
//! `_ratio` (in thousandths) and similar ones, also before `_total`. Any other metric counts whole
//! numbers. If such a gauge has a fraction, it has a second track, in thousandths, from then on; if
//! such a histogram has a value, its sum is in thousandths.
//!
//! Viewers draw counters of bytes as a rate, and gauges of bytes as memory. A description is used
//! if it is there before the first change in a session.
//!
//! # Costs
//! While no session runs, a change of a counter or a histogram costs one load, besides the inner
//! recorder; a gauge also keeps its value. While a session runs, a change of a counter costs about
//! as much as a counter of the profiler. The macros of `metrics` ask the recorder for a handle each
//! time, and this crate then allocates one around that of the inner recorder: keep the handle of a
//! hot metric.
//!
//! # What is lost
//! A profile has room for a bounded number of counters. The changes of counters and histograms with
//! more than 100 sets of labels per name, or about 600 tracks in all, go to a track of their name
//! with "(other labels)"; a counter of the profile has the number of such changes. If there are too
//! many names, or too many gauges, their changes are left out and counted, as well. A histogram has
//! at most 256 markers in some tenths of a second; the values beyond are in its counters only, and
//! are counted. Tracks are made once and kept for all sessions of the process.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod counters;
mod descriptions;
mod gauges;
mod histograms;
mod key_table;
mod losses;
mod recorder;
mod ticks;
mod tracks;
mod units;

use metrics::{NoopRecorder, Recorder};

pub use recorder::ProfilerRecorder;

/// A recorder that records into the profile, and passes everything on to `inner`.
pub fn around<R: Recorder>(inner: R) -> ProfilerRecorder<R> {
    ProfilerRecorder::new(inner)
}

/// A recorder that records into the profile, and does nothing else.
pub fn alone() -> ProfilerRecorder<NoopRecorder> {
    ProfilerRecorder::alone()
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
