//! A process whose descriptor table is full, so that the sampler cannot ask the system about
//! threads. The profile must list what it lacks for that reason.

use std::fs::File;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use integration_tests::patience::{LONG, until};
use profiler_core::marker;
use profiler_core::session::{self, Features, SampleSource};
use profiler_parent::Session;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The remarks that the profile must contain. The sampler adds the first when it samples a running
/// thread, and the second when it lists the threads.
const REMARKS: [&str; 2] = [
    "no thread is asked for its stack",
    "threads that record nothing are not sampled",
];

/// The number of ticks, in the first attempt, at which the table is full and a thread runs. The
/// number doubles with each further attempt.
const FIRST_TICKS: u64 = 20;

pub(crate) fn full() -> Result<()> {
    let most = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, most)?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = Session::builder()
        .features(features)
        .sample_source(SampleSource::Signal)
        .name("parent")
        .start()?;
    // An attempt may end before the sampler lists the threads.
    let deadline = Instant::now() + LONG;
    let mut ticks = FIRST_TICKS;
    let left_out = loop {
        compute_with_full_table(ticks)?;
        let left_out = remarks_of_profile(&session)?;
        let says = |text: &str| left_out.iter().any(|remark| remark.contains(text));
        if REMARKS.into_iter().all(says) {
            break left_out;
        }
        ensure!(Instant::now() < deadline, "{left_out:?}");
        ticks *= 2;
    };
    println!("ok {left_out:?}");
    Ok(())
}

/// Captures a complete profile and returns its remarks about what it lacks.
fn remarks_of_profile(session: &Session) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let report = session
        .capture()
        .save(directory.path().join("profile.json.gz"))?;
    let verdict = report
        .processes
        .first()
        .map(|process| process.verdict.to_string());
    ensure!(verdict.as_deref() == Some("complete"), "{verdict:?}");
    Ok(report.left_out)
}

/// Fills the descriptor table and computes on a new thread for this number of ticks. The sampler
/// may have opened what it needs for the older threads before the table was full.
fn compute_with_full_table(ticks: u64) -> Result<()> {
    let now = || session::sampling_stats().map_or(0, |stats| stats.ticks);
    let open = || std::iter::from_fn(|| File::open("/dev/null").ok());
    let mut files: Vec<File> = open().collect();
    ensure!(!files.is_empty(), "the table was already full");
    let end = now() + ticks;
    let is_done = AtomicBool::new(false);
    let has_ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            marker!("started with a full descriptor table");
            while !is_done.load(Ordering::Relaxed) {
                (0..50_000_u64).for_each(|number| _ = black_box(number));
            }
        });
        let has_ended = until(|| {
            // Another thread may have closed a descriptor after the table was filled.
            files.extend(open());
            now() >= end
        });
        is_done.store(true, Ordering::Relaxed);
        has_ended
    });
    ensure!(has_ended, "{:?}", session::sampling_stats());
    Ok(())
}
