//! A program whose spans are in its log and in a profile: `cargo run --example spans`.
//!
//! Two threads handle requests. The log has the warnings; the profile `spans.json.gz` has all spans
//! with their fields, and samples that show in which span the time was spent.

use std::hint::black_box;
use std::thread::Builder;

use profiler_parent::Session;
use profiler_tracing::RecordingRules;
use tracing::{debug, info_span, instrument, warn};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new("warn"));
    let rules = RecordingRules::default().beyond_filters(true);
    tracing::subscriber::set_global_default(rules.around(log.finish()))?;
    let session = Session::builder().start()?;
    let workers = ["worker 1", "worker 2"].map(|name| Builder::new().name(name.into()).spawn(work));
    for worker in workers {
        let _ = worker?.join();
    }
    session.capture().save("spans.json.gz")?;
    println!("spans.json.gz: open it with `profiler view` or at https://profiler.firefox.com");
    Ok(())
}

fn work() {
    for number in 0..20_u64 {
        let _request = info_span!("request", number, path = %"/index.html").entered();
        let sum = compute(1 + number % 5);
        debug!(sum, "computed");
        if number == 13 {
            warn!(number, "an unlucky request");
        }
    }
}

/// Uses the processor for some milliseconds.
#[instrument]
fn compute(rounds: u64) -> u64 {
    (0..rounds * 2_000_000).fold(0, |sum, number| black_box(sum ^ number))
}
