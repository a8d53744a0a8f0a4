//! Test tools that several crates share.
//!
//! [`mod@own_process`] runs a test in a separate process, [`watchdog`] ends a test that hangs,
//! [`patience`] waits for events without assumptions about the speed of the machine, [`counting`]
//! counts allocations, [`threads`] and `forks` run a part of a test elsewhere, [`http`] asks
//! servers, [`protobuf`] reads messages, [`changes`] has random changes of files, and
//! [`mod@auto_traits`] and [`matching`] contain assertions.
//!
//! The crate depends on no other crate of the workspace, so every crate can use it.

pub mod auto_traits;
pub mod changes;
pub mod counting;
#[cfg(unix)]
pub mod forks;
pub mod http;
pub mod matching;
pub mod own_process;
pub mod patience;
pub mod protobuf;
pub mod threads;
pub mod watchdog;
