//! What the entries of a pool mean in a profile, and the writer of the Gecko format.
//!
//! Used by children for their own pools, and by the parent for all others and for the whole
//! profile. [`model`] determines the contents of a profile, and [`gecko`] writes it in the Gecko
//! format. The processed format is in `profiler-parent`; it is another sink of the same model. Not
//! an interface for applications.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod debug_id;
pub mod failure;
pub mod frame_names;
pub mod gecko;
pub mod model;
pub mod progress;

pub use failure::{CancelFlag, Failure, FailureLatch, LatchedWriter};
pub use profiler_core::internal::profile_spec::{
    CategoryRow, ProcessRole, ProcessSummary, ProfileSpec, ProfileSubject, RangeLimits, ShownRange,
};
pub use progress::{Progress, ProgressCell, ProgressLogger, Proportion};

#[cfg(test)]
mod tests {
    use profiler_core::marker::{ProfilerMarker, SpanMark};

    #[test]
    fn readers_know_span_types_by_the_names_that_are_recorded() {
        assert_eq!(SpanMark::TYPE_NAME, profiler_json::span_types::SPAN_TYPE);
        assert_eq!(
            SpanMark::TYPE_PREFIX,
            profiler_json::span_types::SPAN_TYPE_PREFIX
        );
    }
}
