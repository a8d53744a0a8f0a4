//! What every process embeds: the recorder, its memory, and the way back from bytes to a profile.
//!
//! # What it solves
//! - Recording costs about what reading the clock costs: no lock, no system call, no allocation.
//! - What is recorded survives the process: it lies in shared memory that the parent can read.
//! - Memory stays within an allowance that may change at any time; losses are counted exactly.
//!
//! # Your responsibilities
//! - Name your threads ([`thread::register`]) if their own names do not say enough.
//! - Marker names are constants; what varies belongs in a payload or a text.
//! - A forked child records nothing until it executes another program.
//!
//! Most programs use `profiler-parent` and `profiler-child`, which re-export this crate; a library
//! that only records depends on this crate alone. A map of the modules is in `ARCHITECTURE.md`.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]
#![cfg_attr(any(loom, profiler_portable), allow(dead_code, unused_imports))]

pub mod alloc;
mod backtrace;
pub mod category;
pub mod codec;
pub mod counter;
mod definition_cell;
pub mod durations;
pub mod entry;
pub mod grave;
pub mod groups;
pub mod ids;
mod kept;
pub mod label;
#[cfg(all(test, loom))]
mod loom_models;
pub mod losses;
pub mod manager;
pub mod marker;
mod params;
pub mod pool;
pub mod profile;
pub mod reader;
pub mod record;
pub mod safepoint;
pub mod sampler;
mod schema;
pub mod session;
mod sync;
pub mod sys;
mod template;
pub mod thread;
mod thread_filter;
pub mod time;
