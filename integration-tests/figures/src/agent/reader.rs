//! The processor time and memory of the session's reader of observed programs, in a session of this
//! process.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Observation;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::patience::until;

const IDLE: usize = 1000;
const SECONDS: f64 = 10.0;
/// Runs busy threads for some seconds.
const BUSY: &str = include_str!("busy.c");

pub(super) fn measure(report: &mut Report) -> Result<()> {
    per_sample(report)?;
    idle(report)
}

/// The reader's processor time per sample, including the time of all its other work.
fn per_sample(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
    let program = place.compile("busy", BUSY, &["-O2", "-pthread"])?;
    let observation = Observation::new()?;
    let mut command = Command::new(program);
    observation.observe(&mut command)?;
    let before = reader_ns()?;
    let status = command.stdin(Stdio::null()).status()?;
    ensure!(status.success(), "{status}");
    let recorded = || observation.session.recorded_by_children();
    ensure!(until(|| recorded() > 1000), "{} entries", recorded());
    let used = reader_ns()? - before;
    let us = used as f64 / 1e3 / recorded() as f64;
    report.put(Figure::new("agent.reader_us_per_sample", us, "us").promised(Promise::AtMost(25.0)));
    Ok(())
}

/// The reader's share of a processor while a thousand processes wait, and the number of them that
/// are missing.
fn idle(report: &mut Report) -> Result<()> {
    let observation = Observation::new()?;
    let mut children: Vec<Child> = Vec::new();
    let before = resident_mib()?;
    let mut at_300 = 0.0;
    for number in 0..IDLE {
        let mut command = Command::new("sleep");
        observation.observe(command.arg("600").stdin(Stdio::null()))?;
        children.push(command.spawn()?);
        if number == 299 {
            until(|| listed(&observation) == 300);
            at_300 = resident_mib()? - before;
        }
    }
    until(|| listed(&observation) == IDLE);
    let missing = IDLE - listed(&observation);
    // After this time, the programs count as idle.
    std::thread::sleep(Duration::from_secs(15));
    let began = reader_ns()?;
    std::thread::sleep(Duration::from_secs_f64(SECONDS));
    let used = (reader_ns()? - began) as f64 / 1e9;
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    report.put(
        Figure::new("agent.crowd_1000_missing", missing as f64, "processes")
            .promised(Promise::AtMost(0.0)),
    );
    let percent = 100.0 * used / SECONDS;
    report.put(
        Figure::new("agent.reader_idle_pct.processes_1000", percent, "%")
            .promised(Promise::AtMost(0.5)),
    );
    report.put(Figure::new("agent.parent_mib.processes_300", at_300, "MiB"));
    Ok(())
}

fn listed(observation: &Observation) -> usize {
    let all = observation.session.processes().into_iter();
    all.filter(|process| process.name == "sleep").count()
}

/// The processor time of the reader's threads of this process, in nanoseconds.
fn reader_ns() -> Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        if name.starts_with("profiler-observ") {
            let times = std::fs::read_to_string(task.join("schedstat"))?;
            let ran: u64 = times.split(' ').next().context("no time")?.parse()?;
            sum += ran;
        }
    }
    Ok(sum)
}

/// The resident memory of this process.
fn resident_mib() -> Result<f64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = pages.split(' ').nth(1).context("no number")?.parse()?;
    Ok(pages * rustix::param::page_size() as f64 / f64::from(1 << 20))
}
