//! The items for other crates of the profiler: `profiler-parent`, `profiler-child`, `ipc-protocol`,
//! the packages under `integrations/`, and the tests, benchmarks and fuzz targets of the workspace.
//!
//! Not for applications; hidden in the documentation. Invariant: an item that applications need has
//! a path outside of this module.

pub mod codec {
    //! See `codec` in the sources: encoding and decoding.

    pub use crate::codec::*;
}

pub mod durations {
    //! See `durations` in the sources: histograms of durations.

    pub use crate::durations::*;
}

pub mod entry {
    //! See `entry` in the sources: entries.

    pub use crate::entry::*;
}

pub mod exact_entries {
    //! See `exact_entries` in the sources: entries with exact times, for tests.

    pub use crate::exact_entries::*;
}

pub mod dead_pool {
    //! See `dead_pool` in the sources: the pool of a dead process.

    pub use crate::dead_pool::*;
}

pub mod entry_counts {
    //! See `entry_counts` in the sources: entry counts.

    pub use crate::entry_counts::*;
}

pub mod manager {
    //! See `manager` in the sources: the chunk manager.

    pub use crate::manager::*;
    pub use crate::record::local::is_maintenance_idle;
}

pub mod panic_note {
    //! See `panic_note` in the sources: the latest panics, in the pool.

    pub use crate::panic_note::*;
}

pub mod pool {
    //! See `pool` in the sources: the shared bytes.

    pub use crate::pool::*;
}

pub mod profile_spec {
    //! See `profile_spec` in the sources: what a profile is to contain.

    pub use crate::profile_spec::*;
}

pub mod reader {
    //! See `reader` in the sources: decoding of pools.

    pub use crate::reader::*;
}

pub mod recorder_note {
    //! See `recorder_note` in the sources: which files of a process contain the recorder.

    pub use crate::recorder_note::*;
}

pub mod runtime_site {
    //! See `marker::runtime_site` in the sources: call sites that are made at run time.

    pub use crate::category::by_target::category_of_target;
    pub use crate::marker::payload::FieldWriter;
    pub use crate::marker::runtime_site::*;
}

pub mod span_number {
    //! See `marker::span_number` in the sources: the numbers of spans.

    pub use crate::marker::span_number::*;
}

pub mod sys {
    //! See `sys` in the sources: the operating system.

    pub use crate::sys::*;
}

pub mod payload {
    //! See `marker::payload` in the sources: the bytes of payloads.

    pub use crate::marker::payload::*;
}
