//! Converts the entries of pools to a profile.
//!
//! Used by children for their own pools, and by the parent for all others and for the whole
//! profile. [`model`] determines the contents of a profile, [`gecko`] writes it in the Gecko
//! format, and [`json`] is the output of all formats. The processed format is in
//! `profiler-parent`.

pub mod debug_id;
pub mod failure;
pub mod frame_names;
pub mod gecko;
pub mod interner;
pub mod json;
pub mod model;
pub mod progress;
mod spec;
pub mod strings;

pub use failure::{CancelFlag, Failure, FailureLatch, LatchedWriter};
pub use json::{JsonWriter, PreparedKey};
pub use progress::{Progress, ProgressCell, ProgressLogger, Proportion};
pub use spec::{
    CategoryRow, ProcessRole, ProcessSummary, ProfileSpec, ProfileSubject, RangeLimits, ShownRange,
};
pub use strings::{StringId, StringTable};
