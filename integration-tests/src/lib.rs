//! Real processes that really die, hang, flood and lie; the acceptance checks; the figures.
//!
//! This library is the harness of the tests, one idea per module: a session that no other test of the binary
//! shares, processes that are told what to do, numbered markers that both sides know, a saved profile as a
//! test looks at it, and scenes made of them. The helper process is `src/bin/child`.

pub mod acks;
pub mod counting;
pub mod family;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod interrupted;
pub mod kills;
pub mod marks;
pub mod own;
pub mod pairs;
pub mod patience;
pub mod peer;
pub mod profile;
pub mod puppet;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod reloads;
pub mod samples;
pub mod scene;
pub mod session;
pub mod tools;
pub mod vigil;
pub mod watch;
