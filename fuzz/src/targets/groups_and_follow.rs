//! Fuzzes readers of pools that change while they are read repeatedly: the reader of groups, and
//! the follower for observers, including the decoding of markers.
//!
//! The input changes words of a valid pool before chosen reads; see
//! `profiler-core/tests/hostile/changing.rs`.

use profiler_parent::core::internal::reader::Followed;
use profiler_parent::observe::MarkerDecoder;

use crate::hostile::{
    changing,
    recorded::{self, Recorded},
    told,
};

thread_local! {
    static POOL: Recorded = recorded::recorded();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let mut decoder = MarkerDecoder::default();
    let each = |entry: &Followed<'_>| {
        told::check(&mut decoder, entry);
    };
    POOL.with(|pool| changing::check(pool, data, each));
}
