//! Real processes that really die, hang, flood and lie; the acceptance checks; the figures.
//!
//! This library is the harness of the tests, one idea per module: a session that no other test of the binary
//! shares, processes that are told what to do, numbered markers that both sides know, a saved profile as a
//! test looks at it, and scenes made of them. The helper process is `src/bin/child`.

pub use test_support::{counting, own_process, patience};

pub mod acks;
pub mod exits;
pub mod fixture;
pub mod helper_process;
pub mod hostile_library;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod interrupted;
pub mod kills;
pub mod locks;
pub mod marks;
pub mod own;
pub mod page;
pub mod pairs;
pub mod peer;
pub mod process_tree;
pub mod profile;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod reloads;
pub mod samples;
pub mod session;
pub mod slow_clients;
pub mod small_stacks;
pub mod tools;
pub mod watch;

/// The code in the README of the workspace compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
