//! Functions of the operating system, with one interface for all systems.
//!
//! Used by [`crate::spawn`], and by all code that opens or reads files of others. `linux`
//! and `other_process` are complete; `portable` is the basis for all other systems, and is compiled
//! and tested on Linux with `--cfg profiler_portable`. Both sides export the same names.
//! `chosen_signal` is for all systems.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) mod chosen_signal;
mod signal_bell;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod other_process;

pub(crate) use imp::*;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use other_process::{facts_of, is_running, maps_file, name_of};
pub(crate) use signal_bell::SignalBell;
pub use signal_bell::SignalTaken;

use std::time::Instant;

use profiler_core::ids::{ProcessId, ProcessStart};

/// The system's time, for limits and deadlines.
#[allow(clippy::disallowed_methods)] // compared with itself only
pub(crate) fn now() -> Instant {
    Instant::now()
}

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
