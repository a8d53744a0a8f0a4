//! Fuzzes the live flame graph with a pool that changes between two reads: following, the decoding
//! of samples, the trees of stacks and functions, and the answers to requests.
//!
//! The input changes words of a valid pool; see
//! `profiler-parent/flame/tests/hostile/sampled.rs`. The checks are shared with
//! `profiler-parent/flame/tests/foreign_samples.rs`.

use crate::hostile::{
    recorded::{self, Recorded},
    sampled,
};

thread_local! {
    static POOL: Recorded = recorded::recorded();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    POOL.with(|pool| sampled::check(pool, data));
}
