//! What a profile says: which processes wait for which, what the awaited processes do meanwhile,
//! and the critical path.
//!
//! Called by `profiler waits`. A profile is read once into a [`Timeline`], which contains what each
//! thread did at each time. The analyses read it. Invariant: the rows of a thread and the segments
//! of a path sum to the time that they describe, within rounding.
//!
//! ```text
//! file ──▶ profiler-reader ──▶ Timeline ──▶ wait_table, meanwhile ──▶ WaitReport
//!                                       └─▶ critical_path         ──▶ CriticalPath
//! ```

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod critical_path;
mod meanwhile;
mod places;
mod reading;
mod timeline;
mod wait_table;

pub use critical_path::{CriticalPath, PathEnd, PathPart, PathSegment, PathState, critical_path};
pub use meanwhile::{Activity, Meanwhile};
pub use reading::read_timeline;
pub use timeline::{
    Interval, MarkerInterval, Piece, ProcessIndex, ThreadIndex, TimedProcess, TimedThread, Timeline,
};
pub use wait_table::{PROCESSOR, ThreadWaits, WaitReport, WaitRow, wait_report};
