//! The part of the profiler in every process: the recorder, its memory, and the reader that makes
//! a profile of it.
//!
//! # What it solves
//! - Recording costs about what reading the clock costs: no lock, no system call, no allocation.
//! - Recorded data survives the process: it is in shared memory that the parent can read.
//! - Memory stays within an allowance that may change at any time; losses are counted exactly.
//!
//! # Your responsibilities
//! - Name your threads ([`thread::register`]) if their own names are not clear enough.
//! - Use constant marker names; put variable parts into a payload or a text.
//! - A forked child records nothing until it executes another program, or calls
//!   `profiler_child::after_fork`.
//!
//! Most programs use `profiler-parent` and `profiler-child`, which re-export this crate; a library
//! that only records depends on this crate alone. `profiler-parent` starts a session, also in a
//! program of one process. The README lists the modules of this crate.
//!
//! # The feature `enabled`
//! Recording is a default feature. A library depends on this crate with `default-features = false`,
//! and the application decides: if any crate of the program enables the feature, the library
//! records. Otherwise the macros compile to nothing, and the names for recording exist without the
//! code behind them: [`marker`](mod@marker), [`flow`](mod@flow), [`future`], [`category`],
//! [`counter`], [`groups`], [`label`](mod@label), [`thread`], [`alloc`], [`safepoint`],
//! [`sampler`], the switches of [`session`], [`time::Timestamp`] and [`ids`]. The names that start
//! a session, read a pool or write a profile only exist with the feature. On Windows, and on every
//! other system that is not a Unix, all builds are without recording, so that a program for several
//! systems can depend on this crate.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
#![cfg_attr(
    any(loom, profiler_portable, not(target_os = "linux")),
    allow(dead_code, unused_imports)
)]

// Compiled with and without the engine.
#[doc(hidden)] // public as `marker::category`
pub mod category;
pub mod flow;
mod flow_ids;
mod group_kind;
mod macros;
mod marker_options;
mod marker_type;
mod marker_value;
mod sample_types;
mod schema;
mod thread_filter;
mod timestamp;

#[doc(inline)]
pub use profiler_ids as ids;

// The engine.
#[cfg(all(feature = "engine", unix))]
pub mod alloc;
#[cfg(all(feature = "engine", unix))]
mod available_features;
#[cfg(all(feature = "engine", unix))]
mod backtrace;
#[cfg(all(feature = "engine", unix))]
mod carried;
#[cfg(all(feature = "engine", unix))]
mod codec;
#[cfg(all(feature = "engine", unix))]
pub mod counter;
#[cfg(all(feature = "engine", unix))]
mod dead_pool;
#[cfg(all(feature = "engine", unix))]
mod definition_cell;
#[cfg(all(feature = "engine", unix))]
mod durations;
#[cfg(all(feature = "engine", unix))]
mod entry;
#[cfg(all(feature = "engine", unix))]
mod entry_counts;
#[cfg(all(feature = "engine", unix))]
mod exact_entries;
#[cfg(all(feature = "engine", unix))]
pub mod future;
#[cfg(all(feature = "engine", unix))]
pub mod groups;
#[cfg(all(feature = "engine", unix))]
pub mod label;
#[cfg(all(test, loom, feature = "engine", unix))]
mod loom_models;
#[cfg(all(feature = "engine", unix))]
mod manager;
#[cfg(all(feature = "engine", unix))]
pub mod marker;
#[cfg(all(feature = "engine", unix))]
mod panic_note;
#[cfg(all(feature = "engine", unix))]
mod params;
#[cfg(all(feature = "engine", unix))]
mod pending_sum;
#[cfg(all(feature = "engine", unix))]
mod pinned;
#[cfg(all(feature = "engine", unix))]
mod pool;
#[cfg(all(feature = "engine", unix))]
mod profile_spec;
#[cfg(all(feature = "engine", unix))]
mod reader;
#[cfg(all(feature = "engine", unix))]
mod record;
#[cfg(all(feature = "engine", unix))]
mod recorder_note;
#[cfg(all(feature = "engine", unix))]
pub mod safepoint;
#[cfg(all(feature = "engine", unix))]
pub mod sampler;
#[cfg(all(feature = "engine", unix))]
pub mod session;
#[cfg(all(feature = "engine", unix))]
mod sync;
#[cfg(all(feature = "engine", unix))]
mod sys;
#[cfg(all(feature = "engine", unix))]
mod template;
#[cfg(all(feature = "engine", unix))]
pub mod thread;
#[cfg(all(feature = "engine", unix))]
pub mod time;
#[cfg(all(feature = "engine", unix))]
pub mod trace;

/// The items for other crates of the profiler. Not part of the interface for applications; may
/// change in every version.
#[cfg(all(feature = "engine", unix))]
#[doc(hidden)]
pub mod internal;

// The recording API without the engine, or on a system that the engine does not support: the same
// names, which do nothing.
#[cfg(not(all(feature = "engine", unix)))]
#[path = "inert/definition_cell.rs"]
mod definition_cell;
#[cfg(not(all(feature = "engine", unix)))]
mod inert;
#[cfg(not(all(feature = "engine", unix)))]
#[doc(hidden)]
pub use inert::internal;
#[cfg(not(all(feature = "engine", unix)))]
pub use inert::{
    alloc, counter, future, groups, label, marker, safepoint, sampler, session, thread, time, trace,
};

/// `label` and `marker`, each a module and a macro. `profiler-child` and `profiler-parent`
/// re-export the macros from here, and define modules of the same names.
#[doc(hidden)]
pub mod recording_names {
    pub use crate::{label, marker};
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
