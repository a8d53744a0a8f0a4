//! Reads one pool as the flame graph reads the pools of a session, for tests and fuzz targets.
//!
//! The pool is a file that changes between two reads, as a malicious process can change it.
//! Invariant: nothing here is used while a session is shown.

use std::fs::File;
use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_sys::OwnFile;

use super::super::query::Query;
use super::answer;
use super::selection::Selection;
use super::store::{self, FlameStore, SampledPools};
use crate::process_table::{ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::session_time::SessionTime;

/// The samples of one pool.
#[derive(Debug)]
pub struct ForeignSamples {
    pools: SampledPools,
    store: FlameStore,
}

impl ForeignSamples {
    /// Begins to follow a pool, which may contain any bytes.
    pub fn of(pool: File) -> Self {
        let processes = Arc::<ProcessTable>::default();
        let remains = Remains::Pool(Arc::new(OwnFile::from(pool)));
        let process = TrackedProcess::new(
            "foreign",
            ProcessId::new(1),
            ProcessState::Connected,
            remains,
        );
        processes.add(PoolId::new(1), process);
        let time = SessionTime::start_now();
        let store = FlameStore::new();
        store.keep_recent(true);
        Self {
            pools: SampledPools { processes, time },
            store,
        }
    }

    /// Reads the new entries.
    pub fn advance(&self) {
        store::read_once(&self.pools, &self.store);
    }

    /// The answer to a request with these parameters, as JSON.
    pub fn answer(&self, query: &str) -> String {
        let selection = Selection::parse(&Query::parse(query));
        let answer = answer::answer(&self.store.lock(), &selection, None);
        serde_json::to_string(&answer).unwrap_or_default()
    }
}
