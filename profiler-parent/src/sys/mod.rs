//! What only the operating system can do, behind one set of names.
//!
//! Used by [`crate::spawn`]. `linux` is complete; `portable` is what every other system starts
//! from, and is compiled and tested on Linux with `--cfg profiler_portable`. Both have the same
//! names.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) use imp::*;

/// Sends a signal to a child that has no handle. Nobody may have waited for it: then its number is its own.
#[cfg(unix)]
pub(crate) fn signal_by_number(child: &std::process::Child, signal: i32) -> std::io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let invalid = std::io::ErrorKind::InvalidInput;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(invalid)?;
    Ok(kill_process(pid, Signal::from_named_raw(signal).ok_or(invalid)?)?)
}

/// There are no signals here.
#[cfg(not(unix))]
pub(crate) fn signal_by_number(_: &std::process::Child, _: i32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// What a process uses, as the system counts it.
#[cfg(feature = "live")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Processor time of all its threads, also those that have ended.
    pub(crate) cpu_ns: u64,
    /// Memory that it occupies, with what it shares.
    pub(crate) resident_bytes: u64,
}

/// What ended the wait of a bell.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    /// The bell was rung.
    pub(crate) rung: bool,
    /// Indexes of children that may have ended.
    pub(crate) children: Vec<usize>,
}

/// What became of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// It runs.
    Running,
    /// It ended like this, and is no zombie any more.
    Ended(std::process::ExitStatus),
    /// It ended, and somebody else took its exit status.
    Elsewhere,
}
