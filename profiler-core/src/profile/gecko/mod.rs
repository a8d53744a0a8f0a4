//! The Gecko format: one JSON object per process, children under `processes`.
//!
//! A [`ProcessPart`] writes the object of one process from its pool, whoever it belongs to: a
//! child writes its own, the parent writes its own and those of children that cannot. Version
//! [`GECKO_VERSION`] throughout: viewers refuse what is newer than they are and upgrade what is
//! older, so this is the oldest version that has what is used here.
//!
//! Invariants: memory does not grow with the number of entries (one chunk, the names, the
//! texts of one thread); all processes have the same `startTime`, so no viewer shifts any of
//! them; whatever the pool holds, the output is well-formed JSON that a viewer can load. The
//! order of keys is free in the format, hence `meta` comes last: the root's says which range
//! of time is shown, and that is known when all processes have been written.

mod allocations;
mod categories;
mod context;
mod counters;
mod foreign;
mod frames;
mod late;
mod libs;
mod losses;
mod machine;
mod markers;
mod meta;
mod overhead;
mod paused;
mod periodic;
mod plan;
mod process;
mod process_tables;
mod samples;
mod schema;
mod stacks;
mod thread;
mod threads;
mod value;

pub use categories::merge_categories;
pub use late::{IncompleteProcess, LateMarkers};
pub use process::ProcessPart;
pub use schema::write_schema;
pub use value::write_value;

/// What the writer of the processed format has in common with this one.
pub mod shared {
    pub use super::categories::{find as find_category, pair_of as category_pair, write as write_categories};
    pub use super::late::{
        MARKER_NAME as INCOMPLETE_PROCESS, schema as incomplete_process_schema,
        write_payload as write_incomplete_process,
    };
    pub use super::losses::{
        MARKER_NAME as ENTRIES_LOST, counts, schema as losses_schema, write_books,
        write_payload as write_losses,
    };
    pub use super::machine::resident_bytes;
    pub use super::meta::{MARGIN_NS, write_configuration, write_platform, write_units};
    pub use super::plan::{FieldPlan, MarkerPlans, Shape, SitePlan, TypePlan};
    pub use super::schema::write_processed_schema;
}

/// Version of the format: the first with flow identifiers and stack-based markers; no table
/// of script sources is needed yet.
pub const GECKO_VERSION: u32 = 31;

#[cfg(all(test, not(loom)))]
mod tests;
