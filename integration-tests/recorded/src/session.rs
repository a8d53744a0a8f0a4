//! The session of a test, and the counts in its pool.

use std::fs::File;

use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::patience::until;

/// The running session of a test. It stops when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct RunningSession(());

impl RunningSession {
    /// Starts a session with the default parameters.
    pub fn start() -> Self {
        Self::with(SessionParams::default())
    }

    /// Starts a session with these parameters.
    pub fn with(params: SessionParams) -> Self {
        session::start(params, StartOptions::default()).unwrap();
        Self(())
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Opens the pool of this process.
pub fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The number of entries that were dropped.
pub fn dropped() -> u64 {
    pool().snapshot().unwrap().counts().dropped.total()
}

/// The number of entries that were dropped for this reason.
pub fn dropped_for(reason: DropReason) -> u64 {
    pool().snapshot().unwrap().counts().dropped.of(reason)
}

/// The value of a counter.
pub fn counter(name: &str) -> Option<i64> {
    let snapshot = pool().snapshot().unwrap();
    let mut all = snapshot.counters.iter();
    let found = all.find(|counter| counter.definition.name == name)?;
    Some(found.value)
}

/// Waits until the recorder has free memory in advance, so that what comes next finds room.
pub fn wait_for_room() {
    assert!(until(|| is_maintenance_idle() == Some(true)));
}
