//! Re-exports for the other crates of the workspace: engines, the `profiler` command, tests and
//! fuzz targets.
//!
//! Not for applications, and hidden in the documentation. Each item is named, so that this file
//! shows what the other crates use. Invariant: every item that applications need has a path outside
//! this module.

pub mod controller {
    //! See `controller` in the sources: the global controller.

    pub use crate::controller::{
        Command, Controller, DeadPoolMemory, Event, Policy, ProcessFigures, Refusal,
    };
}

pub mod gather {
    //! See `gather` in the sources: the capture in the Gecko format.

    pub use crate::gather::json_check;
}

pub mod pushers {
    //! What pushers need of a session.

    pub use crate::capture::series::{CaptureSeries, ProcessInSeries, SeriesContents};
    pub use crate::push_sums::{
        CaptureSum, DestinationNumbers, DestinationRow, DestinationSum, ListedPusher,
        MAX_DESTINATIONS, PushNumbers, PushOutcomes, PushReading, PushSource, PushSums,
    };
    pub use crate::session::EngineSources;
}

pub mod session_metrics {
    //! See `session_metrics` in the sources: the numbers of a session, for metrics.

    pub use crate::groups::SHOWN_PROBES;
    pub use crate::process_table::session_sums::{
        GroupKey, GroupSum, MAX_GROUPS, MAX_NAMES, OTHER, ProcessEnd, ProcessName, ProcessSum,
        SessionSums,
    };
    pub use crate::process_table::{PoolMemory, ProcessActivity};
    pub use crate::session_metrics::{
        Budget, MetricsReader, MetricsReading, PresentProcesses, ProcessMetricsRow, ScrapeCost,
    };
}
