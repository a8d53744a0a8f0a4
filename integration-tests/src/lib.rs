//! Tests with several processes: children that die, hang, flood the session or send false data, the
//! acceptance checks, and the figures.
//!
//! This library is the harness of the tests, with one subject per module: a session that belongs to
//! one test, helper processes that obey commands, numbered markers that a test can verify, a parsed
//! profile, and scenes made of these. The helper process is `src/bin/child`.

pub use test_support::{
    assert_matches, counting, forks, http, own_process, own_process_tests, patience,
};

pub mod acks;
pub mod clickhouse;
mod dialogue;
pub mod exits;
pub mod figure;
pub mod fixture;
pub mod foreign;
pub mod helper_process;
pub mod hostile_library;
pub mod installed;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod interrupted;
pub mod joined;
pub mod kills;
pub mod known_holders;
pub mod known_waits;
pub mod locks;
pub mod marks;
pub mod measure;
pub mod named_stacks;
pub mod own;
pub mod page;
pub mod pairs;
pub mod peer;
pub mod process_tree;
pub mod profile;
#[cfg(target_os = "linux")]
pub mod program_files;
pub mod programs;
#[cfg(target_os = "linux")]
pub mod pty;
pub mod relay;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod reloads;
pub mod reports;
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

/// The code in the document about embedding compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
mod embedding_document {}

/// The code in the document about captures on a sign compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/captures.md")]
mod captures_document {}

/// The code in the document about sessions by the environment compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/startup.md")]
mod startup_document {}

/// The code in the document about performance groups compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/groups.md")]
mod groups_document {}
