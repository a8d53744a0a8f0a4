//! Events to a profile.

mod spec;

pub use spec::{CategoryRow, ProcessRole, ProcessSummary, ProfileSpec};
