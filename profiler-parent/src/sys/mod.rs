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
