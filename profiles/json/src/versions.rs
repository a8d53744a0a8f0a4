//! The versions of the formats that are written here.
//!
//! Used by the writers of both formats, and by readers that refuse other versions. Viewers refuse
//! newer versions than their own and upgrade older ones, so each is the oldest version with all
//! features that are used.

/// Version of the Gecko format: the first with flow identifiers and stack-based markers; no table
/// of script sources is needed yet. The processed format names its units and formats after it.
pub const GECKO_VERSION: u32 = 31;

/// Version of the processed format: the first whose tables are shared by all threads.
pub const PROCESSED_VERSION: u32 = 60;
