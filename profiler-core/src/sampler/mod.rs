//! Periodic samples of every thread's stack.
//!
//! The signal handler copies a stack, and the sampler's thread unwinds it. Unwinding in the handler
//! would hold a thread for longer, take three times as much of the handler's stack, and could not
//! catch a panic. `docs/where-to-unwind.md` has the measurements and the reasons.
//!
//! Invariant: everything that a sample refers to is in the pool's definitions before the sample is
//! committed.

pub(crate) mod asked_waits;
pub(crate) mod control;
#[cfg_attr(profiler_portable, allow(dead_code))] // no ticks on these systems
pub(crate) mod counters;
mod define;
mod schedule;
mod writer;

#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "unsupported.rs"]
pub(crate) mod self_unwind;
#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub(crate) use self_unwind::{effective_interval, forget_parent};
#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
use self_unwind::{run, suspend, wake};

/// Items that only exist on systems with stack sampling.
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
    mod activity;
    mod alternation;
    mod armed;
    mod armed_places;
    mod arming;
    mod asking;
    mod cadence;
    mod covered_time;
    mod callers;
    pub(crate) mod crash_stack;
    mod sample_handler;
    mod sample_recorder;
    pub(crate) mod self_unwind;
    mod kept_process;
    mod known_stacks;
    mod look_pace;
    mod looking;
    mod modules;
    mod near_looks;
mod notices;
    pub(crate) mod observed;
    pub(crate) mod observed_clock;
    mod observed_counters;
    pub(crate) mod observed_look;
    pub(crate) mod observed_place;
    mod observed_threads;
    pub(crate) mod observed_waits;
    mod overhead_budget;
    mod own_waits;
    mod process_code;
    mod quiet_period;
    mod run_delay;
    mod slots;
    mod source;
    mod stack_copy;
    mod targets;
    mod thread;
    mod timer_rights;
    mod trigger;
    mod unwound;
    mod wait_key;
    mod wait_labels;
    mod wait_period;
    use thread::run;
    use armed::suspend;
    use sample_handler::ring as wake;
    pub(crate) use source::effective_interval;

    /// In a forked child that begins anew, whose only thread is the calling one: forgets the
    /// sampler of the parent.
    pub(crate) fn forget_parent() {
        armed::forget_parent();
        sample_handler::forget_parent();
        self_unwind::forget_parent();
    }
}

/// Whether this system has samples.
pub(crate) const IS_SUPPORTED: bool = cfg!(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
));

#[doc(hidden)]
pub use control::SamplingStats;
pub use define::{define_label, define_module};
pub use writer::SampleWriter;

pub use crate::sample_types::{Frame, MAX_FRAMES, ModuleDefinition, Sample};

/// A frame and its stack pointer. The frame occupies the stack from this address up to the stack
/// pointer of its caller's frame.
pub(crate) type PlacedFrame = (Frame, u64);

/// The result of capturing the calling thread's stack, see [`self_unwind::capture`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    /// The number of frames, which begin at the start of the buffer, outermost first.
    pub(crate) len: usize,
    /// Whether outer frames are missing.
    pub(crate) cut: bool,
}
