//! Events to a profile.

pub mod json;
mod spec;

pub use json::{JsonWriter, PreparedKey};
pub use spec::{CategoryRow, ProcessRole, ProcessSummary, ProfileSpec};
