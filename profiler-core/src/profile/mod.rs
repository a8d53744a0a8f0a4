//! Events to a profile.

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
pub use spec::{CategoryRow, ProcessRole, ProcessSummary, ProfileSpec, ShownRange};
pub use strings::{StringId, StringTable};
