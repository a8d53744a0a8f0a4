//! What is left of a process's data: its pool, or why there is none.
//!
//! Part of an entry of the [`ProcessTable`](super::ProcessTable), and copied for its readers.
//! Reading a pool may take long, so it is read from a copy, without the lock of the table, except
//! where a rule of the table depends on it.

use std::sync::Arc;

use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::EntryCounts;
use profiler_sys::OwnFile;

/// What is left of a process's data.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// The pool.
    Pool(Arc<OwnFile>),
    /// No data: all of it was older than the data that fits into the limit. The final entry counts
    /// are kept.
    Expired(EntryCounts),
    /// No data, because the process never recorded, for this reason.
    Unprofiled(String),
}

impl Remains {
    /// Whether there is data, or was.
    pub(super) const fn has_or_had_data(&self) -> bool {
        matches!(self, Self::Pool(_) | Self::Expired(_))
    }

    /// The present entry counts.
    pub(super) fn present_counts(&self) -> EntryCounts {
        let Self::Pool(file) = self else {
            return self.counts();
        };
        let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
        snapshot.map_or_else(|_| EntryCounts::default(), |snapshot| snapshot.counts())
    }

    /// Whether a process has attached the pool, now or before.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            Self::Pool(_) => self.owner().is_some(),
            Self::Expired(counts) => counts.recorded() > 0,
            Self::Unprofiled(_) => false,
        }
    }

    /// Whether the process `pid` has attached the pool, as far as is known.
    pub(super) fn is_taken_by(&self, pid: ProcessId) -> bool {
        match self {
            Self::Pool(_) => self.owner() == Some(pid),
            Self::Expired(_) | Self::Unprofiled(_) => self.is_taken(),
        }
    }

    /// The process that has attached the pool, if there is a pool and one has. It is another
    /// process than the started one if that is a wrapper.
    pub(super) fn owner(&self) -> Option<ProcessId> {
        let Self::Pool(file) = self else { return None };
        PoolReader::open(&**file).ok()?.header().owner()
    }

    /// The final entry counts of data that is gone.
    pub(super) fn counts(&self) -> EntryCounts {
        match self {
            Self::Expired(counts) => *counts,
            Self::Pool(_) | Self::Unprofiled(_) => EntryCounts::default(),
        }
    }
}
