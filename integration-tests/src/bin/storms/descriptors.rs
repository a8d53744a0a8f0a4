//! A process whose descriptor table is full, so that the sampler cannot ask the system about
//! threads: the profile says what it lacks.

use std::fs::File;
use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, ensure};
use integration_tests::patience::Stopwatch;
use profiler_core::session::{self, Features};
use profiler_parent::Session;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Longer than it takes; only a failing test waits until the end.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn full() -> Result<()> {
    let most = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, most)?;
    let features = Features::STACK_WALK.with(Features::CPU);
    let session = Session::builder().features(features).name("parent").start()?;
    let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    ensure!(!all.is_empty(), "it was full before");
    let watch = Stopwatch::start();
    while session::sampling_stats().is_none_or(|stats| stats.hidden < 20) {
        ensure!(watch.elapsed() < PATIENCE, "{:?}", session::sampling_stats());
        (0..50_000_u64).for_each(|number| _ = black_box(number));
    }
    drop(all);
    let directory = tempfile::tempdir()?;
    let report = session.capture().save(directory.path().join("profile.json.gz"))?;
    let verdict = report.processes.first().map(|process| process.verdict.to_string());
    ensure!(verdict.as_deref() == Some("complete"), "{verdict:?}");
    let says = |what: &str| report.left_out.iter().any(|remark| remark.contains(what));
    ensure!(says("no thread is asked for its stack"), "{:?}", report.left_out);
    ensure!(says("threads that record nothing are not sampled"), "{:?}", report.left_out);
    println!("ok {:?}", report.left_out);
    Ok(())
}
