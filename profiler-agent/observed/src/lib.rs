//! The library that `profiler record` loads into programs that do not call the profiler, and the
//! bytes that it shares with the session.
//!
//! Used by `profiler-cli`, which writes [`LIBRARY`] to a file and names it in `LD_PRELOAD`, and by
//! the reader of observed processes, which decodes [`layout`]. The sources of the library are in
//! `preload/`.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub mod file;
pub mod layout;

/// The shared library; empty if it could not be built for this target.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libprofiler_observed.so"));

/// The environment variable by which a session asks for recording.
pub const VARIABLE: &str = "MULTIPROCESS_PROFILER_OBSERVED";

/// The longest path of a directory, in bytes.
pub const MAX_DIRECTORY_BYTES: usize = 511;

/// What a session asks for.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The directory in which each process makes its file. Only the user of the session may have
    /// rights to it.
    pub directory: &'a Path,
    /// The signal of the timers: a real-time signal that the programs do not use, from 35 to 64.
    pub signal: u8,
    /// The processor time between two samples of a thread, in nanoseconds; at least 100,000.
    pub interval_ns: u64,
    /// Whether samples are stamped with the processor's cycle counter, and not with the monotonic
    /// clock.
    pub uses_cycle_counter: bool,
    /// Whether each process records its crash. The library then installs handlers for the crash
    /// signals whose action is the default.
    pub records_crashes: bool,
}

impl Observation<'_> {
    /// The value of [`VARIABLE`]. `None` if the path is too long for the library.
    #[must_use]
    pub fn value(&self) -> Option<std::ffi::OsString> {
        let path = self.directory.as_os_str();
        if path.as_bytes().len() > MAX_DIRECTORY_BYTES {
            return None;
        }
        let clock = if self.uses_cycle_counter { 't' } else { 'm' };
        let crashes = if self.records_crashes { 'c' } else { '-' };
        let Self {
            signal,
            interval_ns,
            ..
        } = self;
        let mut value = std::ffi::OsString::from(format!(
            "{} {signal} {interval_ns} {clock} {crashes} ",
            layout::VERSION
        ));
        value.push(path);
        Some(value)
    }
}
