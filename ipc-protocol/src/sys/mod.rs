//! Operations that need the operating system, behind one set of functions.
//!
//! Used by [`crate::environment`] and [`crate::transport`]. `linux` is complete; `portable` is the
//! starting point for every other system, and is compiled and tested on Linux with
//! `--cfg profiler_portable`. Both have the same functions.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

pub(crate) use imp::*;

pub(crate) mod joining;
pub(crate) mod listening;
pub(crate) mod packets;

/// Whether a call blocks until data can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(crate) enum ReceiveMode {
    /// The call blocks.
    Wait,
    /// The call returns at once. Linux only.
    Try,
}
