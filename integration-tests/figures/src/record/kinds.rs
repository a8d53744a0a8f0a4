//! The cost of one marker of each kind, relative to a bare read of the clock that stamps it.
//!
//! Every round measures the clock and then each kind, on one core, in a session with the default
//! limit. The conditions are those of an application: chunks of the default sizes, with their
//! switches, first in fresh memory and then in recycled memory. Rounds are short, so that most of
//! them are not interrupted.

use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::session::SessionParams;
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};

use crate::recording::{Recording, objection};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{clock_read_ns, cores, median, median_ratio, ns_each, pin_to};

/// Entries per kind and round.
pub(super) const BATCH: u32 = 10_000;
const ROUNDS: usize = 201;

/// A typical payload: a number and a short text.
#[derive(serde::Serialize)]
pub(super) struct Request<'a> {
    pub(super) bytes: u64,
    pub(super) path: &'a str,
}

impl ProfilerMarker for Request<'_> {
    const TYPE_NAME: &'static str = "Request";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_label_format("bytes", "Size", Format::Bytes)
            .key_label_format("path", "Path", Format::FilePath)
    }
}

/// Records a marker without payload.
#[inline(always)]
pub(super) fn instant() {
    marker!("instant", &category::TEST);
}

/// Records a marker with a duration, including both reads of the clock.
#[inline(always)]
pub(super) fn interval() {
    let start = Timestamp::now();
    marker!(
        "interval",
        &category::TEST,
        MarkerOptions::interval_until_now_from(start)
    );
}

/// Records a marker with a text of 16 bytes.
#[inline(always)]
pub(super) fn text() {
    let text = std::hint::black_box("sixteen letters!");
    text_marker!("text", &category::TEST, MarkerOptions::default(), text);
}

/// Records a marker with a number and a text of 16 bytes.
#[inline(always)]
pub(super) fn typed() {
    let (bytes, path) = std::hint::black_box((70_000, "src/bin/figures/"));
    marker!(
        "typed",
        &category::IO,
        MarkerOptions::default(),
        &Request { bytes, path }
    );
}

/// Records a marker with two numbers as fields.
#[inline(always)]
pub(super) fn fields() {
    let (bytes, seconds) = std::hint::black_box((70_000_u64, 0.25_f64));
    marker!(
        "fields",
        category = &category::IO,
        bytes = bytes,
        seconds = seconds
    );
}

/// A kind of marker: its name, the function that returns the nanoseconds per entry of a batch, and
/// the promise of its ratio.
type Kind = (&'static str, fn() -> f64, Promise);

const KINDS: [Kind; 5] = [
    ("instant", || ns_each(BATCH, instant), Promise::AtMost(1.5)),
    (
        "interval",
        || ns_each(BATCH, interval),
        Promise::AtMost(2.5),
    ),
    ("text", || ns_each(BATCH, text), Promise::None),
    ("typed", || ns_each(BATCH, typed), Promise::AtMost(2.0)),
    ("fields", || ns_each(BATCH, fields), Promise::AtMost(2.5)),
];

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    off(report);
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let (clock, kinds) = rounds();
    let entries = (KINDS.len() * ROUNDS) as u64 * u64::from(BATCH);
    let objection = objection(&recording.counts()?, entries);
    report.put(Figure::new("clock.read.ns", median(&clock), "ns"));
    for ((name, _, promise), times) in KINDS.iter().zip(&kinds) {
        let ns = Figure::new(format!("record.{name}.ns"), median(times), "ns");
        let ratio = Figure::new(
            format!("record.{name}.ratio"),
            median_ratio(times, &clock),
            "x clock.read",
        );
        report.put(ns.unless(objection.clone()));
        report.put(ratio.promised(*promise).unless(objection.clone()));
    }
    Ok(())
}

/// Measures a marker while no session runs, including the loop.
fn off(report: &mut Report) {
    let _pinned = cores().first().map(|core| pin_to(*core));
    let times: Vec<f64> = (0..ROUNDS).map(|_| ns_each(BATCH, instant)).collect();
    report.put(Figure::new("record.off.ns", median(&times), "ns").promised(Promise::AtMost(1.0)));
}

/// Returns the times of the clock and of each kind, per round.
fn rounds() -> (Vec<f64>, Vec<Vec<f64>>) {
    let _pinned = cores().first().map(|core| pin_to(*core));
    let mut clock = Vec::new();
    let mut kinds = vec![Vec::new(); KINDS.len()];
    for _ in 0..ROUNDS {
        clock.push(clock_read_ns(BATCH));
        for (times, (_, batch, _)) in kinds.iter_mut().zip(KINDS) {
            times.push(batch());
        }
    }
    (clock, kinds)
}
