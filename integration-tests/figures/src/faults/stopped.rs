//! The time that a capture takes beyond its progress timeout when some of eight children are
//! stopped.
//!
//! The figure is the maximum of several runs. Each run has a new session, because a capture does
//! not wait for a child that an earlier capture found frozen.

use std::time::Duration;

use anyhow::{Result, ensure};
use integration_tests::kills::wave::signal;
use integration_tests::own::state_of;
use integration_tests::patience::{Stopwatch, until};
use profiler_parent::Session;
use profiler_parent::core::session::Features;

use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};

const CHILDREN: usize = 8;
/// Bytes that each child records.
const BYTES_EACH: u64 = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(1);
const RUNS: usize = 3;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    for (name, stopped) in [
        ("1", 1),
        ("half", CHILDREN / 2),
        ("all_but_one", CHILDREN - 1),
    ] {
        let runs = (0..RUNS)
            .map(|_| extra(stopped))
            .collect::<Result<Vec<f64>>>()?;
        let worst = runs.into_iter().fold(f64::MIN, f64::max);
        let figure = Figure::new(format!("gather.stopped_extra_s.{name}"), worst, "s");
        report.put(figure.promised(Promise::AtMost(0.5)));
    }
    Ok(())
}

/// Returns the seconds beyond the timeout.
fn extra(stopped: usize) -> Result<f64> {
    let session = Session::builder()
        .features(Features::NONE)
        .progress_timeout(TIMEOUT)
        .start()?;
    let mut workers = workers::start_all(&session, CHILDREN, "fill", "fill", |_| BYTES_EACH)?;
    let pids: Vec<u32> = workers
        .iter()
        .take(stopped)
        .map(|worker| worker.child.id().get())
        .collect();
    pids.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
    ensure!(
        pids.iter().all(|pid| until(|| state_of(*pid) == Some('T'))),
        "a child does not stop"
    );
    let directory = tempfile::tempdir()?;
    let watch = Stopwatch::start();
    let captured = session
        .capture()
        .format(profiler_parent::Format::Gecko)
        .save(directory.path().join("profile.json"));
    let took = watch.elapsed();
    pids.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
    for worker in &mut workers {
        worker.child.wait()?;
    }
    let whole = captured?
        .processes
        .iter()
        .filter(|process| process.counts.delivered > 0)
        .count();
    ensure!(
        whole >= CHILDREN,
        "only {whole} processes are in the profile"
    );
    ensure!(took >= TIMEOUT, "the capture did not wait");
    Ok((took - TIMEOUT).as_secs_f64())
}
