//! One line for the parent process: session, spawn, one memory limit, one merged profile.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod capture;
pub mod controller;
pub mod gather;
mod hub;
pub mod outbox;
pub mod output;
mod pools;
pub mod processed;
pub mod recover;
pub mod session;
pub mod spawn;
pub mod symbols;
mod sys;
#[cfg(feature = "cli")]
pub mod view;

pub use capture::{Capture, CaptureError, CaptureEvent, CaptureReport, CapturedProcess, Format};
pub use gather::verdict::{Verdict, Why};
pub use hub::{ChildSignals, ProcessReport, ProcessState, ProfiledChild, SpawnedError};
pub use pools::{PoolDirectoryError, Unsuitable};
pub use profiler_core as core;
pub use profiler_core::{label, marker, scope, text_marker};
pub use session::{LimitError, Session, SessionBuilder, SessionError};

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
