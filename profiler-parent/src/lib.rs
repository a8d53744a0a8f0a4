//! The profiler for parent processes: sessions, child processes, one memory limit for all of them,
//! and one merged profile for the Firefox Profiler.
//!
#![doc = include_str!("lib.md")]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]
// What only Linux calls.
#![cfg_attr(any(profiler_portable, not(target_os = "linux")), allow(dead_code))]

pub mod alerts;
mod awaited;
pub mod capture;
pub mod capture_on;
mod controller;
mod env_session;
mod gather;
pub mod groups;
#[doc(hidden)]
pub mod internal;
mod kept_files;
#[cfg(feature = "live")]
pub mod live;
pub mod observe;
mod part_file;
mod pools;
mod process_table;
mod processed;
mod push_sums;
pub mod recover;
mod session;
mod session_metrics;
mod session_time;
mod spawn;
mod supervisor;
mod sys;

pub use alerts::{Alert, AlertRules, AlertTarget, Alerts, AlertsError, EvidenceOptions, SlowRun};
pub use capture::{
    Capture, CaptureError, CaptureEvent, CaptureEvents, CaptureReport, CapturedProcess, Format,
    SavingCapture,
};
pub use capture_on::{
    CaptureCause, CaptureCounts, CaptureFlag, CaptureNotice, CaptureOnError, CapturePolicy,
    CaptureTrigger, Deaths, TriggeredCaptures,
};
pub use env_session::{EnvSession, EnvSessionError};
pub use gather::crash_text::CrashText;
pub use gather::panic_text::PanicText;
pub use gather::verdict::{Verdict, Why};
pub use groups::{GroupsSnapshot, Monitor};
#[doc(inline)]
pub use ipc_protocol::environment::{StartupError, WriteAt};
#[cfg(feature = "live")]
pub use live::{LiveError, LiveOptions, LiveServer, MetricsPage, MetricsText};
pub use observe::{Filter, ObserveError, Observer};
pub use pools::{PoolDirectoryError, Unsuitable};
pub use process_table::{
    Deadlock, DeadlockedWait, ProcessDeath, ProcessReport, ProcessState, SessionSummary,
    UnprofiledProcess,
};
pub use profiler_core as core;
#[doc(inline)]
pub use profiler_core::ids::{ByteLimit, ProcessId};
#[doc(no_inline)]
pub use profiler_core::recording_names::*;
#[doc(inline)]
pub use profiler_core::session::{DropReason, Drops, EntryCounts};
#[doc(inline)]
pub use profiler_core::session::{FeatureUnavailable, Features, SampleSource};
#[doc(no_inline)]
pub use profiler_core::{blocking, flow, group, scope, span, text_marker};
#[doc(inline)]
pub use profiler_symbols::SymbolOptions;
pub use session::{Confirmation, LimitError, NotRecorded, Session, SessionBuilder, SessionError};
pub use session_time::SessionNs;
pub use supervisor::{ChildSignals, HostCommand, ProfiledChild, SessionAddressError, SpawnError};
pub use sys::SignalTaken;

pub mod label {
    //! Labels: see [`profiler_core::label`](mod@profiler_core::label). The attribute is for
    //! crates that depend on this one.

    #[doc(inline)]
    pub use profiler_core::label::function_of_parent as function;
    #[doc(no_inline)]
    pub use profiler_core::label::*;
}

pub mod marker {
    //! Markers: see [`profiler_core::marker`](mod@profiler_core::marker). The derive macro is
    //! for crates that depend on this one.

    #[doc(inline)]
    pub use profiler_core::marker::ProfilerMarkerOfParent as ProfilerMarker;
    #[doc(no_inline)]
    pub use profiler_core::marker::*;
}

/// Compiles the code in the README, as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
