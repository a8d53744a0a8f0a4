//! Numbered markers: each contains the number of its thread, its own number on that thread, and a
//! checksum of both.
//!
//! Recorded by the helper process and by tests, and read back by [`crate::profile`], so a test
//! detects a marker that is lost, doubled, out of order or torn.

use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::Serialize;

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

/// Returns a checksum of at most 32 bits, which every JSON reader represents exactly.
pub const fn check_of(thread: u32, sequence: u64) -> u64 {
    let mixed = (sequence ^ ((thread as u64) << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32
}
