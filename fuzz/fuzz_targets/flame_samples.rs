//! Fuzzes the live flame graph with a pool that changes between two reads: following, the decoding
//! of samples, the trees of stacks and functions, and the answers to requests.
//!
//! The input changes words of a valid pool; see `profiler-parent/tests/hostile/sampled.rs`. The
//! checks are shared with `profiler-parent/tests/foreign_samples.rs`.

#![no_main]

#[path = "../../profiler-core/tests/hostile/recorded.rs"]
mod recorded;
#[path = "../../profiler-parent/tests/hostile/sampled.rs"]
mod sampled;

use libfuzzer_sys::fuzz_target;
use recorded::Recorded;

thread_local! {
    static POOL: Recorded = recorded::recorded();
}

fuzz_target!(|data: &[u8]| {
    POOL.with(|pool| sampled::check(pool, data));
});
