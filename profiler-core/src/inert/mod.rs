//! The recording API in builds without the engine: the same names, which do nothing.
//!
//! Called by libraries and applications that record, in programs that do not enable recording, and
//! in all programs on systems that the engine does not support, such as Windows. The packages under
//! `integrations/` find what they use of the engine in `internal`.
//! Every public item has the name and the signature of an item of the engine, where it is
//! documented. Invariants: nothing here reads a clock, stores, allocates or makes a system call, so
//! the compiler removes every call; the program `tests/recording_api.rs` compiles with the engine
//! and with this module. Guards implement `Drop`, so that the compiler and clippy report the same
//! warnings about their users in both builds.

pub mod alloc;
pub mod counter;
pub mod groups;
pub mod internal;
pub mod label;
pub mod marker;
pub mod safepoint;
pub mod sampler;
pub mod session;
pub mod thread;
pub mod time;
