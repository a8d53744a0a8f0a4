//! What this process has at the moment: threads, descriptors, mappings.

use std::fs;

/// Counts of what a leak would make grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possessions {
    /// Threads of the profiler. A test harness starts and ends others.
    pub threads: usize,
    /// Open descriptors.
    pub descriptors: usize,
    /// Mappings of memory files. Others come and go with the allocator.
    pub pools: usize,
}

impl Possessions {
    /// Counts them.
    pub fn count() -> Self {
        let entries = |path| fs::read_dir(path).map_or(0, Iterator::count);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self {
            threads: thread_names().iter().filter(|name| name.starts_with("profiler-")).count(),
            descriptors: entries("/proc/self/fd"),
            pools: maps.lines().filter(|line| line.contains("profiler-pool")).count(),
        }
    }

    /// Whether nothing was added. There can be less: what an earlier test gave back late.
    pub fn within(&self, before: &Self) -> bool {
        self.threads <= before.threads && self.descriptors <= before.descriptors && self.pools <= before.pools
    }
}

/// Open descriptors of this process that are pools, its own and those of children.
pub fn pool_descriptors() -> usize {
    let all = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let is_pool = |path: &std::path::Path| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains("profiler-pool"))
    };
    all.filter(|entry| is_pool(&entry.path())).count()
}

/// Names of all threads of this process.
pub fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim().to_owned()).collect()
}

/// Bytes of memory that this process really has.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// State letter of a process as `/proc` shows it: `R`, `S`, `T` (stopped), `Z`, …
pub fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
