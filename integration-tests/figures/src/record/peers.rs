//! Compares a scope with the same scope in other libraries.
//!
//! One thread on one core runs all libraries in every round. The conditions favour each peer:
//! puffin's scopes are nested in one outer scope, because each would take its global lock at the
//! top level, and the frame ends outside the measurement. tracing-chrome writes into a sink instead
//! of a file and may flush outside the measurement.

use profiler_core::marker::category;
use profiler_core::scope;
use profiler_core::session::SessionParams;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::layer::SubscriberExt;

use crate::recording::{Recording, objection};
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::{cores, median, median_ratio, ns_each, pin_to};

/// Scopes per library and round.
const BATCH: u32 = 1_000;
const ROUNDS: usize = 201;

pub(super) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let recording = Recording::start(SessionParams::DEFAULT_LIMIT.get())?;
    let chrome = start_chrome()?;
    puffin::set_scopes_on(true);
    let [own_times, puffin, tracing] = rounds(&chrome);
    puffin::set_scopes_on(false);
    let objection = objection(&recording.counts()?, ROUNDS as u64 * u64::from(BATCH));
    report.put(Figure::new("record.scope.ns", median(&own_times), "ns").unless(objection.clone()));
    for (name, peer_times) in [("puffin", puffin), ("tracing_chrome", tracing)] {
        report.put(Figure::new(
            format!("record.{name}.ns"),
            median(&peer_times),
            "ns",
        ));
        let ratio = Figure::new(
            format!("record.vs_{name}.ratio"),
            median_ratio(&own_times, &peer_times),
            "x its scope",
        );
        report.put(
            ratio
                .promised(Promise::Below(1.0))
                .unless(objection.clone()),
        );
    }
    Ok(())
}

/// Makes tracing-chrome the subscriber of this process.
fn start_chrome() -> anyhow::Result<FlushGuard> {
    let (layer, guard) = ChromeLayerBuilder::new().writer(std::io::sink()).build();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    Ok(guard)
}

/// Returns the nanoseconds per scope of the profiler, puffin and tracing-chrome, per round.
fn rounds(chrome: &FlushGuard) -> [Vec<f64>; 3] {
    let _pinned = cores().first().map(|core| pin_to(*core));
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let round = [own_scope_ns(), puffin_scope_ns(), tracing_scope_ns()];
        times
            .iter_mut()
            .zip(round)
            .for_each(|(times, time)| times.push(time));
        puffin::GlobalProfiler::lock().new_frame();
        chrome.flush();
    }
    times
}

fn own_scope_ns() -> f64 {
    ns_each(BATCH, || {
        let _scope = scope!("work", &category::TEST);
    })
}

fn puffin_scope_ns() -> f64 {
    puffin::profile_scope!("outer");
    ns_each(BATCH, || {
        puffin::profile_scope!("work");
    })
}

fn tracing_scope_ns() -> f64 {
    ns_each(BATCH, || {
        let _scope = tracing::info_span!("work").entered();
    })
}
