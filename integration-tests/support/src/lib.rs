//! What the tests of several crates share.
//!
//! [`mod@own_process`] runs a test in a process of its own, [`watchdog`] ends a test that hangs,
//! [`patience`] waits for events without assumptions about the speed of the machine, and
//! [`counting`] counts allocations, [`mod@auto_traits`] asserts which types are `Send`.
//!
//! The crate depends on no other crate of the workspace, so every one of them can use it.

pub mod auto_traits;
pub mod counting;
pub mod own_process;
pub mod patience;
pub mod watchdog;
