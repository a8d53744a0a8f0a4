//! A program whose records are in its log and in a profile: `cargo run --example records`.
//!
//! Two threads handle requests. The standard error output has the warnings; the profile
//! `records.json.gz` has all records with their key-values, and the stack of each error.

use std::hint::black_box;
use std::thread::Builder;

use log::{Level, debug, error, info, warn};
use profiler_log::RecordingRules;
use profiler_parent::Session;

fn main() -> anyhow::Result<()> {
    let logger = env_logger::Builder::new().parse_filters("warn").build();
    let max_level = logger.filter();
    let rules = RecordingRules::default().stacks_from(Level::Error);
    rules.around(logger).install(max_level)?;
    let session = Session::builder().start()?;
    let workers = ["worker 1", "worker 2"].map(|name| Builder::new().name(name.into()).spawn(work));
    for worker in workers {
        let _ = worker?.join();
    }
    session.capture().save("records.json.gz")?;
    println!("records.json.gz: open it with `profiler view` or at https://profiler.firefox.com");
    Ok(())
}

fn work() {
    for number in 0..20_u64 {
        info!(number, path = "/index.html"; "request");
        let sum = (0..2_000_000).fold(0, |sum, step| black_box(sum ^ (step * number)));
        debug!(sum; "computed");
        match number {
            7 => warn!(number; "a slow request"),
            13 => error!(number; "an unlucky request"),
            _ => {}
        }
    }
}
