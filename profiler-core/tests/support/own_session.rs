//! The session of a test in its own process, and the contents of its pool.
//!
//! Used by the tests of this crate and by those of `profiler-gecko`. A session is global to its
//! process, so a test that starts one runs in a separate process.

use std::fs::File;

use profiler_core::ids::ByteLimit;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    pub(crate) fn start(params: SessionParams) -> Self {
        session::start(params, StartOptions::default()).unwrap();
        Self
    }

    /// Starts a session whose pool holds at most `bytes`.
    pub(crate) fn with_limit(bytes: u64) -> Self {
        Self::start(SessionParams {
            limit: ByteLimit::new(bytes),
            ..SessionParams::default()
        })
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Opens the pool of this process.
pub(crate) fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The present contents of this process's pool.
pub(crate) fn snapshot() -> Snapshot {
    pool().snapshot().unwrap()
}
