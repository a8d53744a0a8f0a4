//! What only the operating system can do, behind one set of functions.
//!
//! Used by [`crate::environment`] and [`crate::transport`]. `linux` is complete; `portable` is
//! what every other system starts from, and is compiled and tested on Linux with
//! `--cfg profiler_portable`. Both have the same functions.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) use imp::*;

pub(crate) mod listening;
pub(crate) mod packets;

/// Whether a call blocks until there is something to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(target_os = "linux", not(profiler_portable))), allow(dead_code))]
pub(crate) enum ReceiveMode {
    /// It blocks.
    Wait,
    /// It returns at once. Linux only.
    Try,
}
