//! A process whose descriptor table is full, so that the sampler cannot ask the system about
//! threads. The profile must list what it lacks for that reason.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use integration_tests::patience::until;
use profiler_core::marker;
use profiler_core::session::{self, Features};
use profiler_parent::Session;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ticks at which the sampler could not ask about a running thread.
const HIDDEN: u64 = 20;

pub(crate) fn full() -> Result<()> {
    let most = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, most)?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = Session::builder()
        .features(features)
        .name("parent")
        .start()?;
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    ensure!(!files.is_empty(), "the table was already full");
    compute_until_hidden()?;
    drop(files);
    let directory = tempfile::tempdir()?;
    let report = session
        .capture()
        .save(directory.path().join("profile.json.gz"))?;
    let verdict = report
        .processes
        .first()
        .map(|process| process.verdict.to_string());
    ensure!(verdict.as_deref() == Some("complete"), "{verdict:?}");
    let says = |text: &str| report.left_out.iter().any(|remark| remark.contains(text));
    ensure!(
        says("no thread is asked for its stack"),
        "{:?}",
        report.left_out
    );
    ensure!(
        says("threads that record nothing are not sampled"),
        "{:?}",
        report.left_out
    );
    println!("ok {:?}", report.left_out);
    Ok(())
}

/// Computes on a new thread until the sampler has missed it often enough. The sampler may have
/// opened what it needs for the older threads before the table was full.
fn compute_until_hidden() -> Result<()> {
    let is_done = AtomicBool::new(false);
    let was_hidden = std::thread::scope(|scope| {
        scope.spawn(|| {
            marker!("started with a full descriptor table");
            while !is_done.load(Ordering::Relaxed) {
                (0..50_000_u64).for_each(|number| _ = black_box(number));
            }
        });
        let was_hidden =
            until(|| session::sampling_stats().is_some_and(|stats| stats.hidden >= HIDDEN));
        is_done.store(true, Ordering::Relaxed);
        was_hidden
    });
    ensure!(was_hidden, "{:?}", session::sampling_stats());
    Ok(())
}
