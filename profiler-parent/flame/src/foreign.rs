//! Reads one pool as the flame graph reads the pools of a session, for tests and fuzz targets.
//!
//! The pool is a file that changes between two reads, as a malicious process can change it.
//! Invariant: nothing here is used while a session is shown.

use std::fs::File;
use std::sync::Arc;

use profiler_core::groups::GroupKind;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::reader::groups::Peak;
use profiler_core::time::SessionClock;
use profiler_http::Query;
use profiler_sys::OwnFile;

use crate::answer;
use crate::selection::Selection;
use crate::sources::{FlameSources, ProcessToSample};
use crate::store::{self, FlameStore};

/// A session of one process, which has no groups.
#[derive(Debug)]
struct ForeignPool {
    clock: SessionClock,
    file: Arc<OwnFile>,
}

impl FlameSources for ForeignPool {
    fn clock(&self) -> SessionClock {
        self.clock
    }

    fn for_each_process(&self, each: &mut dyn FnMut(ProcessToSample<'_>)) {
        each(ProcessToSample {
            key: PoolId::new(1),
            order: 0,
            pid: ProcessId::new(1),
            name: "foreign",
            is_over: false,
            died: None,
            pool: Some(&self.file),
        });
    }

    fn longest_runs(&self, _kind: GroupKind, _name: &str) -> Vec<(PoolId, Peak)> {
        Vec::new()
    }
}

/// The samples of one pool, read as those of a session. For tests and fuzz targets.
#[derive(Debug)]
pub struct ForeignSamples {
    pool: ForeignPool,
    store: FlameStore,
}

impl ForeignSamples {
    /// Begins to follow a pool, which may contain any bytes.
    pub fn new(pool: File) -> Self {
        let store = FlameStore::new();
        store.keep_recent(true);
        Self {
            pool: ForeignPool {
                clock: SessionClock::start_now(),
                file: Arc::new(OwnFile::from(pool)),
            },
            store,
        }
    }

    /// Reads the new entries.
    pub fn advance(&self) {
        store::read_once(&self.pool, &self.store);
    }

    /// The answer to a request with these parameters, as JSON.
    pub fn answer(&self, query: &str) -> String {
        let selection = Selection::parse(&Query::parse(query));
        let answer = answer::answer(&self.store.lock(), &selection, None);
        serde_json::to_string(&answer).unwrap_or_default()
    }
}
