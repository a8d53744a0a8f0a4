//! What a stopped parent costs its children: the slowest of all record calls, in the thread's own time.
//!
//! A parent in a process of its own starts a session and two children, and is stopped while these record
//! at full speed, entries of all sizes, with evictions all the time. The figure is for 60 s;
//! `FIGURES_STOPPED_S` makes it shorter, and then its name says so.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::kills::entry;
use integration_tests::kills::wave::signal;
use integration_tests::own::state_of;
use integration_tests::patience::{Stopwatch, until};
use profiler_parent::Session;
use rustix::time::{ClockId, clock_gettime};

use super::{at_length, role};
use crate::figure::{Figure, Promise, Report};

const SECONDS: u64 = 60;
const CHILDREN: usize = 2;
const THREADS: u32 = 2;
const LIMIT: u64 = 32 << 20;
/// Entries before the first that counts: the thread joins the session and its chunks grow.
const WARM_UP: u64 = 1000;
/// Fewer entries than this per second and child say nothing.
const LEAST_PER_SECOND: u64 = 10_000;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let seconds = at_length("FIGURES_STOPPED_S", SECONDS);
    let mut parent =
        role("parent")?.arg(seconds.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(parent.stdout.take().context("no output")?).lines();
    let measured = measure_stopped(parent.id(), &mut lines, seconds);
    signal(parent.id(), libc::SIGCONT);
    drop(parent.stdin.take()); // it ends
    parent.wait()?;
    let (slowest_ns, entries) = measured?;
    let name =
        if seconds == SECONDS { "parent_stopped".to_owned() } else { format!("parent_stopped_{seconds}s") };
    let too_few =
        (entries < seconds * LEAST_PER_SECOND * CHILDREN as u64).then(|| format!("{entries} entries"));
    let slowest = Figure::new(format!("{name}.slowest_record_us"), slowest_ns as f64 / 1000.0, "us CPU");
    report.put(slowest.promised(Promise::AtMost(1000.0)).unless(too_few));
    report.put(Figure::new(format!("{name}.entries"), entries as f64, "entries"));
    Ok(())
}

/// Stops the parent until both children have said what they measured.
fn measure_stopped(
    parent: u32,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    seconds: u64,
) -> Result<(u64, u64)> {
    let mut line = || lines.next().context("the parent has ended")?.context("no line");
    ensure!(line()? == "ready", "the parent does not begin");
    signal(parent, libc::SIGSTOP);
    ensure!(until(|| state_of(parent) == Some('T')), "the parent does not stop");
    let watch = Stopwatch::start();
    let (mut slowest, mut entries) = (0, 0);
    for _ in 0..CHILDREN {
        let said = line()?;
        let (ns, count) = said.split_once(' ').context("not two numbers")?;
        slowest = slowest.max(ns.parse()?);
        entries += count.parse::<u64>()?;
    }
    ensure!(watch.elapsed() >= Duration::from_secs(seconds), "the children did not record so long");
    ensure!(state_of(parent) == Some('T'), "the parent went on");
    Ok((slowest, entries))
}

/// `parent SECONDS`: starts the children, says `ready`, and lives until its standard input is closed.
pub(super) fn play_parent(words: &[String]) -> Result<()> {
    let seconds = words.first().context("how long?")?;
    let session = Session::builder().memory_limit(LIMIT).start()?;
    let mut children = Vec::new();
    for number in 0..CHILDREN {
        let mut command = role("recorder")?;
        command.arg(seconds).stdin(Stdio::piped());
        children.push(session.spawn(&format!("recorder {number}"), command)?);
    }
    let connected =
        |report: &profiler_parent::ProcessReport| report.state == profiler_parent::ProcessState::Connected;
    ensure!(until(|| session.processes().iter().filter(|report| connected(report)).count() == CHILDREN));
    children.iter_mut().for_each(|child| drop(child.stdin.take())); // they begin
    println!("ready"); // stopped from here on
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// `recorder SECONDS`: records so long and one second more, for the parent is not stopped at once;
/// prints the slowest call in nanoseconds, and how many there were.
pub(super) fn play_recorder(words: &[String]) -> Result<()> {
    let time = Duration::from_secs(words.first().context("how long?")?.parse::<u64>()? + 1);
    ensure!(matches!(profiler_child::init(), profiler_child::Status::Recording), "it does not record");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let threads: Vec<_> = (0..THREADS)
        .map(|writer| std::thread::Builder::new().spawn(move || slowest_call(writer, time)))
        .collect::<std::io::Result<_>>()?;
    let (mut slowest, mut entries) = (0, 0);
    for thread in threads {
        let (ns, count) = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        slowest = slowest.max(ns);
        entries += count;
    }
    writeln!(std::io::stdout(), "{slowest} {entries}")?;
    Ok(())
}

fn slowest_call(writer: u32, time: Duration) -> (u64, u64) {
    let watch = Stopwatch::start();
    let (mut slowest, mut number) = (0, 0);
    while number % 1024 != 0 || watch.elapsed() < time {
        let before = thread_ns();
        entry::record(writer, number, true);
        let took = thread_ns().saturating_sub(before);
        if number >= WARM_UP {
            slowest = slowest.max(took);
        }
        number += 1;
    }
    (slowest, number)
}

/// Processor time of the calling thread.
fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
