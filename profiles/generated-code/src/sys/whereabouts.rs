//! The implementation for Linux of where another process runs, and when it started.
//!
//! Invariant: only `/proc` is read, so no process can make a
//! caller wait.

use std::path::Path;

use profiler_core::ids::{ProcessId, ProcessStart, UserId};
use profiler_core::time::UnixNs;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{NamespacePid, Whereabouts};

const NS_PER_S: u64 = 1_000_000_000;

/// What `/proc` says about a process; `None` if it does not exist, or if `/proc` is not available.
pub(crate) fn whereabouts(pid: ProcessId) -> Option<Whereabouts> {
    let read = |name: &str| {
        let text = std::fs::read(format!("/proc/{pid}/{name}")).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).ok();
    let status = read("status")?;
    let own_mounts = std::fs::read_link("/proc/self/ns/mnt").ok();
    // The kernel shows the paths of links relative to the root directory of this process.
    let shares_paths = own_mounts.is_some()
        && link("ns/mnt") == own_mounts
        && link("root").as_deref() == Some(Path::new("/"));
    let directory = link("cwd").filter(|path| shares_paths && path.is_absolute());
    Some(Whereabouts {
        own_pid: own_pid_in(&status, pid)?,
        user: user_in(&status)?,
        start: start_in(&read("stat")?)?,
        shares_paths,
        directory,
    })
}

/// The number of a process in its own pid namespace, the last in the line `NSpid`. Kernels without
/// pid namespaces have no such line.
fn own_pid_in(status: &str, pid: ProcessId) -> Option<NamespacePid> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let Some(line) = line else {
        return Some(NamespacePid::new(pid.get()));
    };
    let own = line.split_ascii_whitespace().next_back()?.parse().ok()?;
    Some(NamespacePid::new(own))
}

/// The effective user, the second number in the line `Uid`.
fn user_in(status: &str) -> Option<UserId> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let user = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(UserId::new(user))
}

/// When a process started. The name, in brackets, may be any bytes.
fn start_in(stat: &str) -> Option<ProcessStart> {
    let (_, fields) = stat.rsplit_once(')')?;
    let start = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    Some(ProcessStart::new(start))
}

/// The wall time now, which is the clock of the times of files.
pub fn unix_now() -> UnixNs {
    UnixNs(nanoseconds(clock_gettime(ClockId::Realtime)))
}

/// The wall time at which a process started, as the clocks of this machine show it now.
pub(crate) fn unix_start(start: ProcessStart) -> UnixNs {
    let ticks_per_s = rustix::param::clock_ticks_per_second().max(1);
    let since_boot = start.get().saturating_mul(NS_PER_S / ticks_per_s);
    let age = nanoseconds(clock_gettime(ClockId::Boottime)).saturating_sub(since_boot);
    UnixNs(unix_now().0.saturating_sub(age))
}

fn nanoseconds(time: Timespec) -> u64 {
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    let part = u64::try_from(time.tv_nsec).unwrap_or(0);
    whole.saturating_mul(NS_PER_S).saturating_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_the_innermost_namespace_and_the_effective_user_are_taken() {
        let status = "Name:\tnode\nUid:\t1000\t33\t1000\t1000\nNSpid:\t4242\t77\t5\n";
        let pid = ProcessId::new(4242);
        assert_eq!(own_pid_in(status, pid), Some(NamespacePid::new(5)));
        assert_eq!(user_in(status), Some(UserId::new(33)));
        let old = "Name:\tnode\nUid:\t1\t2\n";
        assert_eq!(own_pid_in(old, pid), Some(NamespacePid::new(4242)));
        assert_eq!(own_pid_in("NSpid:\t\n", pid), None);
        assert_eq!(user_in("Uid:\t1\n"), None);
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let fields = (3..=40).map(|field| field.to_string());
        let fields: Vec<String> = fields.collect();
        let stat = format!("1 (a) b) 9 9) S {}", fields[1..].join(" "));
        assert_eq!(start_in(&stat), Some(ProcessStart::new(22)));
        assert_eq!(start_in("1 (a) S 1"), None);
    }

    #[test]
    fn this_process_shares_its_paths_with_itself_and_has_started() {
        let own = whereabouts(profiler_core::internal::sys::process_id()).unwrap();
        assert_eq!(own.user.get(), rustix::process::geteuid().as_raw());
        assert!(own.shares_paths);
        assert_eq!(own.directory, std::env::current_dir().ok());
        assert!(unix_start(own.start) <= unix_now());
        let whole_day = 24 * 60 * 60 * NS_PER_S;
        assert!(unix_now().0 - unix_start(own.start).0 < whole_day);
        assert_eq!(whereabouts(ProcessId::new(u32::MAX)), None);
    }
}
