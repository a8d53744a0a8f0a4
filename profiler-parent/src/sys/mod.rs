//! Functions of the operating system, with one interface for all systems.
//!
//! Used by [`crate::spawn`], and by all code that opens or reads files of others. `linux`,
//! `code_files`, `other_process` and `whereabouts` are complete; `portable` is the basis for all
//! other systems, and is compiled and tested on Linux with `--cfg profiler_portable`. Both sides
//! export the same names. `chosen_signal` is for all systems.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) mod chosen_signal;
mod signal_bell;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod code_files;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod other_process;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod whereabouts;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use code_files::*;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use whereabouts::*;

pub(crate) use imp::*;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use other_process::{facts_of, is_running, maps_file, name_of};
pub(crate) use signal_bell::SignalBell;
pub use signal_bell::SignalTaken;

use std::path::PathBuf;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::time::UnixNs;

/// Sends a signal to a child that has no handle. Its exit status must not have been taken, because
/// the system may reuse the process id afterwards.
#[cfg(unix)]
pub(crate) fn signal_by_number(child: ProcessId, signal: i32) -> std::io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let invalid = std::io::ErrorKind::InvalidInput;
    let pid = i32::try_from(child.get())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or(invalid)?;
    Ok(kill_process(
        pid,
        Signal::from_named_raw(signal).ok_or(invalid)?,
    )?)
}

/// Signals do not exist on this system.
#[cfg(not(unix))]
pub(crate) fn signal_by_number(_: ProcessId, _: i32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// The resource usage of a process, as the system counts it.
#[cfg_attr(not(feature = "live"), allow(dead_code))] // the processor time
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time of all its threads, including ended ones.
    pub(crate) cpu_ns: u64,
    /// Resident memory, including shared memory.
    pub(crate) resident_bytes: u64,
}

/// The number of a process in its own pid namespace. Other processes may know it by another number.
#[cfg_attr(profiler_portable, allow(dead_code))] // never known there
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePid(u32);

impl NamespacePid {
    /// Wraps the bare number.
    #[cfg_attr(profiler_portable, allow(dead_code))]
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The bare number.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// The number of a user.
#[cfg_attr(profiler_portable, allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserId(u32);

impl UserId {
    /// Wraps the bare number.
    #[cfg_attr(profiler_portable, allow(dead_code))]
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The bare number.
    #[cfg(test)]
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// What must be known of a process to find the files that it writes.
#[cfg_attr(profiler_portable, allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    /// Its number in its own pid namespace, which is part of the names of its files.
    pub(crate) own_pid: NamespacePid,
    /// Its effective user, to whom its files belong.
    pub(crate) user: UserId,
    /// When it started.
    pub(crate) start: ProcessStart,
    /// Whether a path leads to the same file in that process and in this one.
    pub(crate) shares_paths: bool,
    /// Its working directory, if the two share paths.
    pub(crate) directory: Option<PathBuf>,
}

/// What the system says about a file.
#[cfg_attr(profiler_portable, allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// Whether it is a regular file: no link, no directory, no device.
    pub(crate) is_regular: bool,
    /// Its owner.
    pub(crate) owner: UserId,
    /// Who may write to it.
    pub(crate) writers: FileWriters,
    /// How many names it has.
    pub(crate) links: u32,
    /// Its size.
    pub(crate) bytes: u64,
    /// When it was last written to.
    pub(crate) changed: UnixNs,
    /// When it was created, if the file system knows.
    pub(crate) born: Option<UnixNs>,
}

/// Who may write to a file.
#[cfg_attr(profiler_portable, allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileWriters {
    /// Its owner alone.
    Owner,
    /// Also a group that is not the owner's own.
    Group,
    /// Every user.
    All,
}

/// What the system says about a process that need not be a child of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(crate) struct ProcessFacts {
    /// When it started. The execution of another program does not change it.
    pub(crate) start: ProcessStart,
    /// Its parent process.
    pub(crate) parent: ProcessId,
    /// The program that it executes, if this process may inspect it.
    pub(crate) image: Option<ProgramImage>,
}

/// One execution of a program by a process: where the program and its stack are. The system chooses
/// new addresses whenever a process executes a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(crate) struct ProgramImage {
    /// When the process started.
    pub(crate) start: ProcessStart,
    /// The first address of its code.
    pub(crate) code: u64,
    /// The end of its code.
    pub(crate) code_end: u64,
    /// The bottom of its stack.
    pub(crate) stack: u64,
}

impl ProgramImage {
    /// Whether the same process executes another program `now`.
    pub(crate) fn is_replaced_by(&self, now: &Self) -> bool {
        self.start == now.start && self != now
    }
}

/// The result of waiting on a waker.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    /// The waker was rung.
    pub(crate) rung: bool,
    /// Indices of the children that may have ended.
    pub(crate) children: Vec<usize>,
}

/// The state of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// It runs.
    Running,
    /// It has ended with this status, and is no longer a zombie.
    Ended(std::process::ExitStatus),
    /// It has ended, and other code took its exit status.
    Elsewhere,
}
