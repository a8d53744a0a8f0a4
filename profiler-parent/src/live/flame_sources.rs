//! What the flame graph (`profiler_flame`) needs of the session: its processes, its clock and the
//! runs of its groups.

use std::sync::Arc;
use std::time::Duration;

use profiler_core::groups::GroupKind;
use profiler_core::ids::PoolId;
use profiler_core::time::SessionClock;
use profiler_flame::{FlameSources, ProcessToSample};

use crate::groups::{Peak, SnapshotReader};
use crate::process_table::ProcessTable;

/// The age of groups that are read again for a request, in nanoseconds.
const FRESH: i64 = 900_000_000;
/// Time after which reading groups skips the remaining pools.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The session whose samples are read.
#[derive(Debug)]
pub(super) struct SampledSession {
    pub(super) processes: Arc<ProcessTable>,
    pub(super) groups: Arc<SnapshotReader>,
}

impl FlameSources for SampledSession {
    fn clock(&self) -> SessionClock {
        self.groups.time().clock()
    }

    fn for_each_process(&self, each: &mut dyn FnMut(ProcessToSample<'_>)) {
        self.processes.for_each_to_sample(each);
    }

    fn longest_runs(&self, kind: GroupKind, name: &str) -> Vec<(PoolId, Peak)> {
        let snapshot = self.groups.recent_snapshot(TIMEOUT, FRESH);
        let wanted = snapshot
            .rows()
            .filter(|(_, row)| row.kind == kind && row.name == name);
        wanted
            .flat_map(|(process, row)| row.totals.peaks.iter().map(|peak| (process.pool, *peak)))
            .collect()
    }
}
