//! One line for the parent process: session, spawn, one memory limit, one merged profile.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod controller;
pub mod gather;
pub mod outbox;
pub mod output;
pub mod spawn;
mod sys;
