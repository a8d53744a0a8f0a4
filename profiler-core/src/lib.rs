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
//! code behind them: [`marker`](mod@marker), [`category`], [`counter`], [`groups`],
//! [`label`](mod@label), [`thread`], [`alloc`], [`safepoint`], [`sampler`], the switches of
//! [`session`], [`time::Timestamp`] and [`ids`]. The names that start a session, read a pool or
//! write a profile only exist with the feature.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
#![cfg_attr(any(loom, profiler_portable), allow(dead_code, unused_imports))]

// Compiled with and without the engine.
#[doc(hidden)] // public as `marker::category`
pub mod category;
mod group_kind;
pub mod ids;
mod macros;
mod marker_options;
mod marker_type;
mod sample_types;
mod schema;
mod thread_filter;
mod timestamp;

// The engine.
#[cfg(feature = "engine")]
pub mod alloc;
#[cfg(feature = "engine")]
mod backtrace;
#[cfg(feature = "engine")]
mod codec;
#[cfg(feature = "engine")]
pub mod counter;
#[cfg(feature = "engine")]
mod dead_pool;
#[cfg(feature = "engine")]
mod definition_cell;
#[cfg(feature = "engine")]
mod durations;
#[cfg(feature = "engine")]
mod entry;
#[cfg(feature = "engine")]
mod entry_counts;
#[cfg(feature = "engine")]
mod exact_entries;
#[cfg(feature = "engine")]
pub mod groups;
#[cfg(feature = "engine")]
pub mod label;
#[cfg(all(test, loom, feature = "engine"))]
mod loom_models;
#[cfg(feature = "engine")]
mod manager;
#[cfg(feature = "engine")]
pub mod marker;
#[cfg(feature = "engine")]
mod panic_note;
#[cfg(feature = "engine")]
mod params;
#[cfg(feature = "engine")]
mod pending_sum;
#[cfg(feature = "engine")]
mod pool;
#[cfg(feature = "engine")]
mod profile_spec;
#[cfg(feature = "engine")]
mod reader;
#[cfg(feature = "engine")]
mod record;
#[cfg(feature = "engine")]
mod recorder_note;
#[cfg(feature = "engine")]
pub mod safepoint;
#[cfg(feature = "engine")]
pub mod sampler;
#[cfg(feature = "engine")]
pub mod session;
#[cfg(feature = "engine")]
mod sync;
#[cfg(feature = "engine")]
mod sys;
#[cfg(feature = "engine")]
mod template;
#[cfg(feature = "engine")]
pub mod thread;
#[cfg(feature = "engine")]
pub mod time;

/// The items for other crates of the profiler. Not part of the interface for applications; may
/// change in every version.
#[cfg(feature = "engine")]
#[doc(hidden)]
pub mod internal;

// The recording API without the engine: the same names, which do nothing.
#[cfg(not(feature = "engine"))]
#[path = "inert/definition_cell.rs"]
mod definition_cell;
#[cfg(not(feature = "engine"))]
mod inert;
#[cfg(not(feature = "engine"))]
pub use inert::{alloc, counter, groups, label, marker, safepoint, sampler, session, thread, time};

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
