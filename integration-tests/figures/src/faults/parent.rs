//! The cost of a stopped parent for its children: the slowest of all recording calls, in the
//! thread's processor time.
//!
//! A parent in a separate process starts a session and two children. It is stopped while the
//! children record at full speed, with entries of all sizes and continuous evictions. The figure
//! takes 60 s. `FIGURES_STOPPED_S` makes it shorter, and the figure's name then states the seconds.
//!
//! A virtual machine charges a thread for time in which the host ran something else, milliseconds
//! at a time. Therefore the thread reads the clock after every call for as long as the call took,
//! and the delays of these bare reads are reported, too. Where bare reads are delayed for longer
//! than the promise, the slowest call is not a valid figure. In that case the relevant results are
//! whether calls are delayed more often than bare reads, and whether a slow call slept or faulted,
//! which bare reads never do.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::kills::entry;
use integration_tests::kills::wave::signal;
use integration_tests::own::state_of;
use integration_tests::patience::{Stopwatch, until};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::at_length;
use crate::roles::role;
use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::own::join_session;

const SECONDS: u64 = 60;
const CHILDREN: usize = 2;
const THREADS: u32 = 2;
const LIMIT: u64 = 32 << 20;
/// Entries before the measurement: the thread joins the session and its chunks grow.
const WARM_UP: u64 = 1000;
/// The promise for the slowest call.
const SLOW_NS: u64 = 1_000_000;
/// The longest series of clock reads after a call. A delayed call is not followed by reads of the
/// same length.
const LONGEST_BARE_NS: u64 = 20_000;
/// Entries per second and child that are necessary for a valid figure.
const LEAST_PER_SECOND: u64 = 10_000;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let seconds = at_length("FIGURES_STOPPED_S", SECONDS);
    let mut parent = role("parent")?
        .arg(seconds.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(parent.stdout.take().context("no output")?).lines();
    let measured = measure_stopped(parent.id(), &mut lines, seconds);
    signal(parent.id(), libc::SIGCONT);
    drop(parent.stdin.take()); // the parent ends
    parent.wait()?;
    report_on(report, seconds, measured?);
    Ok(())
}

fn report_on(report: &mut Report, seconds: u64, seen: Seen) {
    let name = if seconds == SECONDS {
        "parent_stopped".to_owned()
    } else {
        format!("parent_stopped_{seconds}s")
    };
    let few = (seen.entries < seconds * LEAST_PER_SECOND * CHILDREN as u64)
        .then(|| format!("{} entries", seen.entries));
    let held_up = (seen.slowest_bare_ns > SLOW_NS)
        .then(|| "bare clock reads are as slow, see below".to_owned());
    let figure = |what: &str, value: f64, unit| Figure::new(format!("{name}.{what}"), value, unit);
    let slowest = figure(
        "slowest_record_us",
        seen.slowest_ns as f64 / 1000.0,
        "us CPU",
    );
    report.put(
        slowest
            .promised(Promise::AtMost(SLOW_NS as f64 / 1000.0))
            .unless(few.or(held_up)),
    );
    report.put(figure(
        "slowest_bare_us",
        seen.slowest_bare_ns as f64 / 1000.0,
        "us CPU",
    ));
    report.put(figure("slow_records", seen.slow as f64, "calls"));
    report.put(figure("slow_bare", seen.slow_bare as f64, "times"));
    let waited = figure("slow_records_that_waited", seen.waited as f64, "calls");
    report.put(waited.promised(Promise::AtMost(0.0)));
    report.put(figure("entries", seen.entries as f64, "entries"));
}

/// Stops the parent until both children have printed their results.
fn measure_stopped(
    parent: u32,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    seconds: u64,
) -> Result<Seen> {
    let mut line = || {
        lines
            .next()
            .context("the parent has ended")?
            .context("no line")
    };
    ensure!(line()? == "ready", "the parent is not ready");
    signal(parent, libc::SIGSTOP);
    ensure!(
        until(|| state_of(parent) == Some('T')),
        "the parent does not stop"
    );
    let watch = Stopwatch::start();
    let mut seen = Seen::default();
    for _ in 0..CHILDREN {
        seen.add(&serde_json::from_str(&line()?)?);
    }
    ensure!(
        watch.elapsed() >= Duration::from_secs(seconds),
        "the children recorded for less than {seconds} s"
    );
    ensure!(state_of(parent) == Some('T'), "the parent was continued");
    Ok(seen)
}

/// `parent SECONDS`: starts the children, prints `ready`, and runs until its standard input is
/// closed.
pub(super) fn play_parent(words: &[String]) -> Result<()> {
    let seconds = words.first().context("how long?")?;
    let session = workers::quiet_session(LIMIT)?;
    let mut children = Vec::new();
    for number in 0..CHILDREN {
        let mut command = role("recorder")?;
        command.arg(seconds).stdin(Stdio::piped());
        children.push(session.spawn(&format!("recorder {number}"), command)?);
    }
    let connected = |report: &profiler_parent::ProcessReport| {
        report.state == profiler_parent::ProcessState::Connected
    };
    ensure!(until(|| session
        .processes()
        .iter()
        .filter(|report| connected(report))
        .count()
        == CHILDREN));
    children
        .iter_mut()
        .for_each(|child| drop(child.stdin.take())); // the children begin
    println!("ready"); // the parent is stopped from here on
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

/// `recorder SECONDS`: records for SECONDS + 1 seconds, because the parent is not stopped at once,
/// and prints the results of its threads.
pub(super) fn play_recorder(words: &[String]) -> Result<()> {
    let time = Duration::from_secs(words.first().context("how long?")?.parse::<u64>()? + 1);
    join_session()?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let threads: Vec<_> = (0..THREADS)
        .map(|writer| std::thread::Builder::new().spawn(move || watch_calls(writer, time)))
        .collect::<std::io::Result<_>>()?;
    let mut seen = Seen::default();
    for thread in threads {
        seen.add(
            &thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?,
        );
    }
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&seen)?)?;
    Ok(())
}

/// Results of recording threads.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    entries: u64,
    slowest_ns: u64,
    /// Calls slower than [`SLOW_NS`].
    slow: u64,
    /// Slow calls in which the thread slept or had a page fault.
    waited: u64,
    /// The slowest bare clock read.
    slowest_bare_ns: u64,
    /// Bare clock reads slower than [`SLOW_NS`].
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
    let watch = Stopwatch::start();
    let mut seen = Seen::default();
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

/// Reads the clock for `ns` nanoseconds. Returns how long it took in fact.
fn read_clocks_for(ns: u64) -> u64 {
    let began = thread_ns();
    loop {
        let took = thread_ns().saturating_sub(began);
        if took >= ns {
            return took;
        }
    }
}

/// Returns the processor time of the calling thread in nanoseconds.
fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Returns how often the calling thread has slept or had a page fault.
#[allow(unsafe_code)]
fn waits_so_far() -> u64 {
    // SAFETY: the struct consists of integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid local for the result.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw + usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}
