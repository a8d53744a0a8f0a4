//! Threads on small stacks that record.
//!
//! Used by `tests/small_stacks.rs` through the program `small_stacks`, and by the figures. [`Kind`]
//! is what such a thread records, [`thread`] starts threads on stacks of a given size, and
//! [`fixture`] runs many of them in a session.

pub mod fixture;
mod kind;
pub mod thread;

pub use kind::{ALLOCATOR, Kind};
