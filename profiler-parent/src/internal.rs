//! Re-exports for the other crates of the workspace: the `profiler` command, tests and fuzz
//! targets.
//!
//! Not for applications, and hidden in the documentation. Invariant: every item that applications
//! need has a path outside this module.

pub mod controller {
    //! See `controller` in the sources: the global controller.

    pub use crate::controller::*;
}

pub mod gather {
    //! See `gather` in the sources: the capture in the Gecko format.

    pub use crate::gather::*;
}

pub mod part_file {
    //! See `part_file` in the sources: files of parts.

    pub use crate::part_file::*;
}

pub mod processed {
    //! See `processed` in the sources: the writer of the processed format.

    pub use crate::processed::*;
}

pub mod spawn {
    //! See `spawn` in the sources: the start of a child.

    pub use crate::spawn::*;
}

pub mod pushers {
    //! What pushers need of a session.

    pub use crate::capture::series::{CaptureSeries, ProcessInSeries, SeriesContents};
    pub use crate::push_sums::*;
    pub use crate::session::EngineSources;
}

pub mod session_metrics {
    //! See `session_metrics` in the sources: the numbers of a session, for metrics.

    pub use crate::groups::SHOWN_PROBES;
    pub use crate::process_table::session_sums::{
        BoundedSums, GroupKey, GroupSum, MAX_GROUPS, MAX_NAMES, OTHER, ProcessEnd, ProcessName,
        ProcessSum, SessionSums, ShownSums, Sum, SumKey,
    };
    pub use crate::process_table::{PoolMemory, ProcessActivity};
    pub use crate::push_sums::*;
    pub use crate::session_metrics::*;
}
