//! Resources of this process: threads, descriptors, mappings and memory.
//!
//! Used by tests that check for leaks, and by figures.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use profiler_core::session::{self, Features, SessionParams, StartOptions};

use crate::patience::until;

/// Counts of the resources that a leak would increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possessions {
    /// Threads of the profiler. The test harness starts and ends other threads.
    pub threads: usize,
    /// Open descriptors.
    pub descriptors: usize,
    /// Mappings of pools. The allocator adds and removes other mappings.
    pub pools: usize,
}

impl Possessions {
    /// Counts the resources of this process.
    pub fn count() -> Self {
        let entries = |path| fs::read_dir(path).map_or(0, Iterator::count);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self {
            threads: thread_names()
                .iter()
                .filter(|name| name.starts_with("profiler-"))
                .count(),
            descriptors: entries("/proc/self/fd"),
            pools: maps
                .lines()
                .filter(|line| line.contains("profiler-pool"))
                .count(),
        }
    }

    /// Counts the resources once [`all_threads_have_names`].
    pub fn count_named() -> anyhow::Result<Self> {
        all_threads_have_names()?;
        Ok(Self::count())
    }

    /// Returns whether no count is higher than `before`. A count can be lower, because resources of
    /// an earlier test may be released late.
    pub fn within(&self, before: &Self) -> bool {
        self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.pools <= before.pools
    }
}

/// Starts a session of this process that samples threads with their stacks and their processor time.
///
/// # Errors
/// If it cannot be started.
pub fn start_sampling() -> anyhow::Result<()> {
    let params = SessionParams {
        features: Features::STACK_WALK.with(Features::CPU),
        ..SessionParams::default()
    };
    Ok(session::start(params, StartOptions::default())?)
}

/// Connects this process, which a session has spawned, with that session.
///
/// # Errors
/// If it does not record then.
pub fn join_session() -> anyhow::Result<()> {
    let status = profiler_child::init();
    let is_recording = matches!(status, profiler_child::Status::Recording);
    ensure!(is_recording, "not recording: {status:?}");
    Ok(())
}

/// Returns the directory of the descriptors that the profiler of this process uses: those of its
/// I/O thread, if there is one, otherwise those of the program.
pub fn profiler_descriptors() -> PathBuf {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut tasks = tasks.flatten().map(|task| task.path());
    let is_io_thread = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "profiler-io")
    };
    tasks
        .find(is_io_thread)
        .map_or_else(|| "/proc/self/fd".into(), |task| task.join("fd"))
}

/// Opens the pool of this process for reading and writing.
///
/// # Errors
/// If there is none.
pub fn pool_file() -> anyhow::Result<File> {
    let is_pool = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("profiler-pool"))
    };
    let mut all = fs::read_dir(profiler_descriptors())?
        .flatten()
        .map(|entry| entry.path());
    let pool = all.find(is_pool);
    let path = pool.context("this process has no pool")?;
    Ok(File::options().read(true).write(true).open(path)?)
}

/// Returns the number of open descriptors of pools: the pool of this process and those of its
/// children.
pub fn pool_descriptors() -> usize {
    let all = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let is_pool = |path: &std::path::Path| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("profiler-pool"))
    };
    all.filter(|entry| is_pool(&entry.path())).count()
}

/// Waits until all threads that the calling thread has started have names of their own. Until a new
/// thread runs for the first time, it has the name of its creator, and does not count as a thread
/// of the profiler. The test itself must have started no thread without a name.
///
/// # Errors
/// When a thread keeps the name of the calling thread.
pub fn all_threads_have_names() -> anyhow::Result<()> {
    let own = fs::read_to_string("/proc/thread-self/comm")?;
    let has_own_name = |name: &&String| *name == own.trim();
    let are_named = || thread_names().iter().filter(has_own_name).count() <= 1;
    anyhow::ensure!(until(are_named), "without a name: {:?}", thread_names());
    Ok(())
}

/// Returns the names of all threads of this process.
pub fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks
        .filter_map(name)
        .map(|name| name.trim().to_owned())
        .collect()
}

/// Waits until this process has no thread of the profiler.
///
/// # Errors
/// When one remains.
pub fn no_profiler_thread_remains() -> anyhow::Result<()> {
    let none = || {
        !thread_names()
            .iter()
            .any(|name| name.starts_with("profiler-"))
    };
    anyhow::ensure!(until(none), "{:?}", thread_names());
    Ok(())
}

/// Returns the resident memory of this process, in bytes.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Returns the state letter of a process from `/proc`: `R`, `S`, `T` (stopped), `Z` and others.
pub fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
