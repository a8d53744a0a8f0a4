//! Real processes that really die, hang, flood and lie; the acceptance checks; the figures.
//!
//! This library is the harness of the tests, one idea per module: a session that no other test of the binary
//! shares, processes that are told what to do, numbered markers that both sides know, a saved profile as a
//! test looks at it, and scenes made of them. The helper process is `src/bin/child`.

pub mod acks;
pub mod counting;
pub mod family;
pub mod hostile_library;
pub mod kills;
pub mod marks;
pub mod own;
pub mod page;
pub mod pairs;
pub mod patience;
pub mod peer;
pub mod profile;
pub mod puppet;
pub mod samples;
pub mod scene;
pub mod session;
pub mod slow_clients;
pub mod tools;
pub mod vigil;
pub mod watch;
