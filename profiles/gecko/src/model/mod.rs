//! The contents of a profile, independent of its format.
//!
//! The model is between the reader and the formats: [`gecko`](super::gecko) and the processed
//! format of `profiler-parent` are its sinks. The model determines the thread of each entry, the
//! contents of each marker row, the categories, the points of counters, the losses, and the
//! contents of `meta`. A sink knows the tables of its format and the order of their keys.
//!
//! Invariants: both formats show the same contents; memory does not grow with the number of
//! entries.

mod categories;
mod contexts;
mod counter_steps;
mod counters;
mod crash;
mod host;
mod incomplete;
mod level;
mod losses;
mod machine;
mod marker_plans;
mod marker_rows;
mod meta;
mod open_spans;
mod owners;
mod process;
mod schema;
mod slow_run;
mod threads;
mod value;

pub use categories::{find_category, label_category, merge_categories};
pub use contexts::{ContextMarker, ContextRuns};
pub use counters::{
    CounterKind, CounterPoint, CounterPoints, MEMORY, is_counter_shown, resident_memory,
};
pub use crash::CrashInfo;
pub use host::write_host;
pub use incomplete::IncompleteProcess;
pub use level::LevelUnit;
pub use losses::{Delivery, LostEntries, OwnMarker, entry_counts, write_log};
pub use marker_plans::MarkerPlans;
pub use marker_rows::{MarkerSites, MarkerTimes, ResolvedMarker, TextTable, write_marker_time};
pub use meta::{MetaSection, SchemaFormat, write_session, write_shown_range, write_start};
pub use open_spans::{OpenSpans, SpanKey};
pub use owners::{Place, ThreadOwners};
pub use process::ProcessModel;
pub use schema::write_schema;
pub use slow_run::SlowRunMarker;
pub use threads::{ThreadHead, write_pauses};
pub use value::write_value;
