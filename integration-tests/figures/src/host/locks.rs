//! Counts POSIX locks of the host that are lost while children start and end, and measures how long
//! a spawn takes when there are many children.
//!
//! The children are processes that call `init` and live until the end of the figure: the times at
//! 1,000 are taken while about 1,000 children live. Each measurement waits until its child has
//! connected, so that no time includes another child's start. For comparison, the same program is
//! started by `Command` alone, before the first child and beside the 1,000.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration_tests::locks::{Extent, holder, take};
use integration_tests::patience::{Stopwatch, until};
use profiler_parent::core::session::Features;
use profiler_parent::{Format, ProcessState, ProfiledChild, Session};

use crate::roles::role;
use crate::workers;
use integration_tests::figure::{Figure, Promise, Report};

/// The number of children that live while the later times are taken.
const CROWD: usize = 1000;
/// The number of times for a median.
const SAMPLES: usize = 50;
/// More than all children need; each has a small share.
const LIMIT: u64 = 4 << 30;
/// Descriptors of the parent for each child, at most.
const DESCRIPTORS: u64 = 10;

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let lost = locks_lost()?;
    report.put(Figure::new("host.locks_lost", lost, "locks").promised(Promise::AtMost(0.0)));
    let missing = allow_descriptors(CROWD as u64 * DESCRIPTORS);
    let times = if missing.is_none() {
        SpawnTimes::measure()?
    } else {
        SpawnTimes::UNKNOWN
    };
    let put = |name: &str, value: f64, unit| Figure::new(name, value, unit).unless(missing.clone());
    let ratio = times.at_1000 / times.first;
    report.put(put("host.spawn_ms.first", times.first, "ms"));
    report.put(put("host.spawn_ms.at_1000", times.at_1000, "ms"));
    report.put(put("host.spawn_ms.ratio", ratio, "x").promised(Promise::AtMost(1.5)));
    report.put(put("host.spawn_ms.plain_first", times.plain_first, "ms"));
    report.put(put(
        "host.spawn_ms.plain_at_1000",
        times.plain_at_1000,
        "ms",
    ));
    Ok(())
}

/// Median times of starting a process, in milliseconds.
struct SpawnTimes {
    first: f64,
    at_1000: f64,
    /// Without the profiler, before the first child.
    plain_first: f64,
    /// Without the profiler, while 1,000 children live.
    plain_at_1000: f64,
}

/// Takes a lock, lets children connect, be captured and end, and counts how often another process
/// no longer sees the lock.
fn locks_lost() -> Result<f64> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("lock");
    let file = File::create_new(&path)?;
    let mut lost = 0_u32;
    take(&file)?;
    let count_lost = || -> Result<u32> {
        let mut witness = role("lock-holder")?;
        let output = witness.arg(&path).output()?;
        let is_held = String::from_utf8(output.stdout)?.trim() == std::process::id().to_string();
        if !is_held {
            take(&file)?;
        }
        Ok(u32::from(!is_held))
    };
    let session = Session::builder().features(Features::NONE).start()?;
    for untrusted in [false, true] {
        let mut child = spawn(&session, untrusted)?;
        lost += count_lost()?;
        for format in [Format::Gecko, Format::Processed] {
            session
                .capture()
                .format(format)
                .save(directory.path().join("profile.json"))?;
            lost += count_lost()?;
        }
        child.kill()?;
        child.wait()?;
        lost += count_lost()?;
    }
    drop(session);
    Ok(f64::from(lost + count_lost()?))
}

impl SpawnTimes {
    const UNKNOWN: Self = Self {
        first: f64::NAN,
        at_1000: f64::NAN,
        plain_first: f64::NAN,
        plain_at_1000: f64::NAN,
    };

    fn measure() -> Result<Self> {
        let session = workers::quiet_session(LIMIT)?;
        let plain_first = plain_spawn_time()?;
        let mut times = Vec::new();
        let mut children = Vec::new();
        for _ in 0..CROWD + SAMPLES {
            let watch = Stopwatch::start();
            children.push(start(&session, false)?);
            times.push(watch.elapsed().as_secs_f64() * 1e3);
            connected(&session, children.len())?;
        }
        let plain_at_1000 = plain_spawn_time()?;
        for child in &mut children {
            child.kill()?;
        }
        for child in &mut children {
            child.wait()?;
        }
        Ok(Self {
            first: median(times.iter().take(SAMPLES)),
            at_1000: median(times.iter().skip(CROWD)),
            plain_first,
            plain_at_1000,
        })
    }
}

/// Returns the median time of starting the same program without the profiler. With a user id,
/// `Command` forks, as it does for a profiled child, which inherits descriptors.
fn plain_spawn_time() -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let mut command = idle_child()?;
        command.uid(rustix::process::getuid().as_raw());
        let watch = Stopwatch::start();
        let mut child = command.spawn()?;
        times.push(watch.elapsed().as_secs_f64() * 1e3);
        child.kill()?;
        child.wait()?;
    }
    Ok(median(times.iter()))
}

fn median<'a>(times: impl Iterator<Item = &'a f64>) -> f64 {
    let mut times: Vec<f64> = times.copied().collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spawn(session: &Session, untrusted: bool) -> Result<ProfiledChild> {
    let child = start(session, untrusted)?;
    let pid = child.id();
    let is_there = || {
        session
            .processes()
            .iter()
            .any(|process| process.pid == pid && process.state == ProcessState::Connected)
    };
    ensure!(until(is_there), "a child does not connect");
    Ok(child)
}

fn idle_child() -> Result<Command> {
    let mut command = role("idle-child")?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

fn start(session: &Session, untrusted: bool) -> Result<ProfiledChild> {
    let command = idle_child()?;
    let child = if untrusted {
        session.spawn_untrusted("idle", command)
    } else {
        session.spawn("idle", command)
    }?;
    ensure!(child.is_profiled(), "a child is not profiled");
    Ok(child)
}

/// Waits until `count` children are connected.
fn connected(session: &Session, count: usize) -> Result<()> {
    let are_connected = || {
        let all = session.processes();
        all.iter()
            .filter(|process| process.state == ProcessState::Connected)
            .count()
            >= count
    };
    ensure!(until(are_connected), "a child does not connect");
    Ok(())
}

/// Raises this process's limit on descriptors; returns why that is not possible.
fn allow_descriptors(count: u64) -> Option<String> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = rustix::process::Rlimit {
        current: Some(count.max(limit.current.unwrap_or(u64::MAX))),
        ..limit
    };
    let set = || rustix::process::setrlimit(rustix::process::Resource::Nofile, raised);
    (most < count || set().is_err())
        .then(|| format!("{count} descriptors are needed, {most} are allowed"))
}

/// `idle-child`: records for its parent until it is killed.
pub(super) fn play_idle(_: &[String]) -> Result<()> {
    profiler_child::init();
    loop {
        std::thread::park();
    }
}

/// `lock-holder PATH`: prints which other process holds a lock on the file.
pub(super) fn play_holder(words: &[String]) -> Result<()> {
    let path = words.first().context("which file?")?;
    println!("{}", holder(path.as_ref(), Extent::File)?.unwrap_or(0));
    Ok(())
}
