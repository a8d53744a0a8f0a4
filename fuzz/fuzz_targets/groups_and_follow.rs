//! Fuzzes readers of pools that change while they are read repeatedly: the reader of groups, and
//! the follower for observers, including the decoding of markers.
//!
//! The input changes words of a valid pool before chosen reads; see
//! `profiler-core/tests/hostile/changing.rs`.

#![no_main]

#[path = "../../profiler-core/tests/hostile/changing.rs"]
mod changing;
#[path = "../../profiler-core/tests/hostile/recorded.rs"]
mod recorded;
#[path = "../../profiler-parent/tests/hostile/told.rs"]
mod told;

use libfuzzer_sys::fuzz_target;
use profiler_parent::core::internal::reader::Followed;
use profiler_parent::observe::MarkerDecoder;
use recorded::Recorded;

thread_local! {
    static POOL: Recorded = recorded::recorded();
}

fuzz_target!(|data: &[u8]| {
    let mut decoder = MarkerDecoder::default();
    let each = |entry: &Followed<'_>| {
        told::check(&mut decoder, entry);
    };
    POOL.with(|pool| changing::check(pool, data, each));
});
