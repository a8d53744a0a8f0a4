//! One line for the parent process: session, spawn, one memory limit, one merged profile.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod alerts;
pub mod capture;
pub mod controller;
pub mod export;
pub mod gather;
pub mod groups;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "live")]
pub mod live;
pub mod observe;
pub mod outbox;
pub mod output;
mod pools;
mod process_table;
pub mod processed;
pub mod reading;
pub mod recover;
pub mod session;
mod session_time;
pub mod spawn;
mod supervisor;
pub mod symbols;
mod sys;
#[cfg(feature = "view")]
pub mod view;

pub use alerts::{Alert, AlertRules, Alerts, EvidenceOptions, Target};
pub use capture::{Capture, CaptureError, CaptureEvent, CaptureReport, CapturedProcess, Format};
pub use gather::verdict::{Verdict, Why};
pub use groups::{GroupsSnapshot, Monitor};
#[cfg(feature = "live")]
pub use live::{LiveError, LiveOptions, LiveServer};
pub use observe::{Filter, Observer};
pub use pools::{PoolDirectoryError, Unsuitable};
pub use process_table::{ProcessReport, ProcessState};
pub use profiler_core as core;
pub use profiler_core::{blocking, group, label, marker, scope, span, text_marker};
pub use session::{LimitError, Session, SessionBuilder, SessionError};
pub use supervisor::{ChildSignals, ProfiledChild, SpawnedError};

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
