//! Test tools that several crates share.
//!
//! [`mod@own_process`] runs a test in a separate process, [`watchdog`] ends a test that hangs,
//! [`patience`] waits for events without assumptions about the speed of the machine, [`counting`]
//! counts allocations, and [`mod@auto_traits`] asserts which types are `Send`.
//!
//! The crate depends on no other crate of the workspace, so every crate can use it.

pub mod auto_traits;
pub mod counting;
pub mod own_process;
pub mod patience;
pub mod watchdog;
