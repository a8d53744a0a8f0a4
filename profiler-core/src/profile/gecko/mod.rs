//! The Gecko format: one JSON object per process, children under `processes`.
//!
//! Version [`GECKO_VERSION`] throughout: viewers refuse what is newer than they are and
//! upgrade what is older, so this is the oldest version that has what is used here.

mod schema;
mod value;

pub use schema::write_schema;
pub use value::write_value;

/// Version of the format: the first with flow identifiers and stack-based markers; no table
/// of script sources is needed yet.
pub const GECKO_VERSION: u32 = 31;
