//! Periodic samples of what every thread does.
//!
//! Stacks are copied in the signal handler and unwound on the sampler's thread. Walking them in the handler
//! holds a thread for longer, takes three times as much of the handler's stack, and could not catch a panic: measured, and
//! argued, in `docs/where-to-unwind.md`.
//!
//! Invariant: what samples refer to is in the pool's definitions before they are committed.

pub(crate) mod control;
#[cfg_attr(profiler_portable, allow(dead_code))] // nothing ticks there
pub(crate) mod counters;
mod define;
mod schedule;
mod writer;

#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "absent.rs"]
pub(crate) mod self_unwind;
#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
use self_unwind::run;

/// What only the systems have that are sampled on.
macro_rules! native {
    ($($item:item)*) => {
        $(#[cfg(all(
            target_os = "linux",
            not(profiler_portable),
            any(target_arch = "x86_64", target_arch = "aarch64")
        ))]
        $item)*
    };
}

native! {
    mod event_count;
    mod capture;
    mod elf;
    mod sample_recorder;
    pub(crate) mod self_unwind;
    mod maps;
    mod modules;
    mod notices;
    mod rest;
    mod step;
    mod storage;
    mod targets;
    mod thread;
    mod unwind;
    use thread::run;
}

#[doc(hidden)]
pub use control::SamplingStats;
pub use define::{define_label, define_module};
pub use writer::{Sample, SampleWriter};

pub use crate::entry::stack::{Frame, MAX_FRAMES};
pub use crate::pool::definitions::ModuleDefinition;

/// A frame, and the stack pointer in it: its part of the stack reaches from there up to that of the frame outside it.
pub(crate) type PlacedFrame = (Frame, u64);

/// What a capture of the own stack gave, see [`self_unwind::capture`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    /// So many frames from the start of the room on, outermost first.
    pub(crate) len: usize,
    /// Frames further out are missing.
    pub(crate) cut: bool,
}
