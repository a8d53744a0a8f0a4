//! Numbered markers: each contains the number of its thread, its own number on that thread, and a
//! checksum of both.
//!
//! Recorded by the helper process and by tests, and read back by [`crate::profile`], so a test
//! detects a marker that is lost, doubled, out of order or torn.

use std::sync::{Mutex, PoisonError};

use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::Serialize;

use crate::patience::until;

/// The number of markers for which the ready chunks suffice while the maintenance thread is idle.
const PACE: usize = 50;

/// Held by the thread that records the next [`PACE`] markers.
static PACED: Mutex<()> = Mutex::new(());

/// Payload of a numbered marker.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Numbered {
    /// The number of the thread that recorded it, which the test assigns.
    pub thread: u32,
    /// The number of the marker on that thread, from 0.
    pub sequence: u64,
    /// The checksum of both: [`check_of`].
    pub check: u64,
}

impl ProfilerMarker for Numbered {
    const TYPE_NAME: &'static str = "Numbered";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_format("thread", Format::Integer)
            .key_format("sequence", Format::Integer)
            .key_format("check", Format::Integer)
    }
}

/// Records the marker with this number on this thread.
pub fn record(thread: u32, sequence: u64) {
    let payload = Numbered {
        thread,
        sequence,
        check: check_of(thread, sequence),
    };
    marker!(
        "numbered",
        &category::OTHER,
        MarkerOptions::default(),
        &payload
    );
}

/// Records the markers with these numbers on this thread, a few at a time, each time after the
/// maintenance thread has made the next chunks ready. Threads that record faster than it works drop
/// entries.
///
/// # Panics
/// If the maintenance thread does not become idle.
pub fn record_paced(thread: u32, mut sequences: std::ops::Range<u64>) {
    let is_idle = || is_maintenance_idle() != Some(false);
    while !sequences.is_empty() {
        let _paced = PACED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            until(is_idle),
            "the maintenance thread does not become idle"
        );
        let next = sequences.by_ref().take(PACE);
        next.for_each(|sequence| record(thread, sequence));
    }
}

/// Returns a checksum of at most 32 bits, which every JSON reader represents exactly.
pub const fn check_of(thread: u32, sequence: u64) -> u64 {
    let mixed = (sequence ^ ((thread as u64) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32
}
