//! Real processes that really die, hang and flood; the acceptance checks; the figures.
//!
//! This library is the harness of the tests: a session that no other test of the binary shares
//! ([`session`]), the helper process and how it is told what to do ([`puppet`]), the numbered
//! markers that both sides know ([`marks`]), a saved profile as a test looks at it ([`profile`]), what
//! this process itself has open ([`own`]), what all pools occupy ([`watch`]), and waiting ([`patience`]).
//! The helper is `src/bin/child`.

pub mod marks;
pub mod own;
pub mod pairs;
pub mod patience;
pub mod profile;
pub mod puppet;
pub mod session;
pub mod watch;
