//! What a stopped parent costs its children: the slowest of all record calls, in the thread's own time.
//!
//! A parent in a process of its own starts a session and two children, and is stopped while these record
//! at full speed, entries of all sizes, with evictions all the time. The figure is for 60 s;
//! `FIGURES_STOPPED_S` makes it shorter, and then its name says so.
//!
//! A virtual machine charges a thread for time in which the host ran something else, milliseconds at a
//! time. So after every call the thread reads the clock for as long as the call took, and what happens to
//! *that* is reported beside: where the bare reads are held up for longer than the promise, the slowest
//! call says nothing about us, and what counts is whether calls are held up more often than they, and
//! whether any slow call slept or faulted, which bare reads never do.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::kills::entry;
use integration_tests::kills::wave::signal;
use integration_tests::own::state_of;
use integration_tests::patience::{Stopwatch, until};
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;
use profiler_parent::core::session::Features;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::at_length;
use crate::figure::{Figure, Promise, Report};
use crate::roles::role;

const SECONDS: u64 = 60;
const CHILDREN: usize = 2;
const THREADS: u32 = 2;
const LIMIT: u64 = 32 << 20;
/// Entries before the first that counts: the thread joins the session and its chunks grow.
const WARM_UP: u64 = 1000;
/// What is promised of the slowest call.
const SLOW_NS: u64 = 1_000_000;
/// A call that was held up is not followed by clock reads of the same length.
const LONGEST_BARE_NS: u64 = 20_000;
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
    report_on(report, seconds, measured?);
    Ok(())
}

fn report_on(report: &mut Report, seconds: u64, seen: Seen) {
    let name =
        if seconds == SECONDS { "parent_stopped".to_owned() } else { format!("parent_stopped_{seconds}s") };
    let few = (seen.entries < seconds * LEAST_PER_SECOND * CHILDREN as u64)
        .then(|| format!("{} entries", seen.entries));
    let held_up = (seen.slowest_bare_ns > SLOW_NS).then(|| "so are bare clock reads, see below".to_owned());
    let figure = |what: &str, value: f64, unit| Figure::new(format!("{name}.{what}"), value, unit);
    let slowest = figure("slowest_record_us", seen.slowest_ns as f64 / 1000.0, "us CPU");
    report.put(slowest.promised(Promise::AtMost(SLOW_NS as f64 / 1000.0)).unless(few.or(held_up)));
    report.put(figure("slowest_bare_us", seen.slowest_bare_ns as f64 / 1000.0, "us CPU"));
    report.put(figure("slow_records", seen.slow as f64, "calls"));
    report.put(figure("slow_bare", seen.slow_bare as f64, "times"));
    let waited = figure("slow_records_that_waited", seen.waited as f64, "calls");
    report.put(waited.promised(Promise::AtMost(0.0)));
    report.put(figure("entries", seen.entries as f64, "entries"));
}

/// Stops the parent until both children have said what they measured.
fn measure_stopped(
    parent: u32,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    seconds: u64,
) -> Result<Seen> {
    let mut line = || lines.next().context("the parent has ended")?.context("no line");
    ensure!(line()? == "ready", "the parent does not begin");
    signal(parent, libc::SIGSTOP);
    ensure!(until(|| state_of(parent) == Some('T')), "the parent does not stop");
    let watch = Stopwatch::start();
    let mut seen = Seen::default();
    for _ in 0..CHILDREN {
        seen.add(&serde_json::from_str(&line()?)?);
    }
    ensure!(watch.elapsed() >= Duration::from_secs(seconds), "the children did not record so long");
    ensure!(state_of(parent) == Some('T'), "the parent went on");
    Ok(seen)
}

/// `parent SECONDS`: starts the children, says `ready`, and lives until its standard input is closed.
pub(super) fn play_parent(words: &[String]) -> Result<()> {
    let seconds = words.first().context("how long?")?;
    let session = Session::builder().features(Features::NONE).memory_limit(ByteLimit::new(LIMIT)).start()?;
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
/// prints what its threads saw.
pub(super) fn play_recorder(words: &[String]) -> Result<()> {
    let time = Duration::from_secs(words.first().context("how long?")?.parse::<u64>()? + 1);
    ensure!(matches!(profiler_child::init(), profiler_child::Status::Recording), "it does not record");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let threads: Vec<_> = (0..THREADS)
        .map(|writer| std::thread::Builder::new().spawn(move || watch_calls(writer, time)))
        .collect::<std::io::Result<_>>()?;
    let mut seen = Seen::default();
    for thread in threads {
        seen.add(&thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?);
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&seen)?)?;
    Ok(())
}

/// What recording threads saw.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    entries: u64,
    slowest_ns: u64,
    /// Calls slower than [`SLOW_NS`].
    slow: u64,
    /// Those of them in which the thread slept, or touched a page that was not there.
    waited: u64,
    /// The same of bare clock reads.
    slowest_bare_ns: u64,
    slow_bare: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.slowest_ns = self.slowest_ns.max(other.slowest_ns);
        self.slow += other.slow;
        self.waited += other.waited;
        self.slowest_bare_ns = self.slowest_bare_ns.max(other.slowest_bare_ns);
        self.slow_bare += other.slow_bare;
    }

    fn call(&mut self, took: u64, waits: u64) {
        self.slowest_ns = self.slowest_ns.max(took);
        self.slow += u64::from(took > SLOW_NS);
        self.waited += u64::from(took > SLOW_NS && waits > 0);
    }

    fn bare(&mut self, took: u64) {
        self.slowest_bare_ns = self.slowest_bare_ns.max(took);
        self.slow_bare += u64::from(took > SLOW_NS);
    }
}

fn watch_calls(writer: u32, time: Duration) -> Seen {
    let (watch, mut seen) = (Stopwatch::start(), Seen::default());
    let mut waits = waits_so_far();
    while seen.entries % 1024 != 0 || watch.elapsed() < time {
        let before = thread_ns();
        entry::record(writer, seen.entries, true);
        let took = thread_ns().saturating_sub(before);
        let waits_before = std::mem::replace(&mut waits, waits_so_far());
        if seen.entries >= WARM_UP {
            seen.call(took, waits - waits_before);
            seen.bare(read_clocks_for(took.min(LONGEST_BARE_NS)));
        }
        seen.entries += 1;
    }
    seen
}

/// Reads the clock for so long; returns for how long it really was.
fn read_clocks_for(ns: u64) -> u64 {
    let began = thread_ns();
    loop {
        let took = thread_ns().saturating_sub(began);
        if took >= ns {
            return took;
        }
    }
}

/// Processor time of the calling thread.
fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// How often the calling thread has slept, or touched a page that was not there.
#[allow(unsafe_code)]
fn waits_so_far() -> u64 {
    // SAFETY: all of it are numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes a local.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw + usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}
