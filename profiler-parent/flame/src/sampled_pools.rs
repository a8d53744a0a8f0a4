//! The pools that the reader follows: those of the session's processes, each until it is read to
//! its end.
//!
//! Owned by the store. Invariant: a process is added at most once, also when its pool has been
//! given up.

use std::collections::{BTreeMap, BTreeSet};

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

use crate::process::SampledProcess;
use crate::sources::FlameSources;

/// A process whose pool is followed.
#[derive(Debug)]
pub(crate) struct SampledPool {
    pub(crate) process: SampledProcess,
    /// The process has ended: the next read is the last one.
    pub(crate) is_over: bool,
    /// When the process died; `None` if it lives, or if that is not known.
    pub(crate) died: Option<Timestamp>,
}

/// The processes of a session, as the reader sees them.
#[derive(Debug, Default)]
pub(crate) struct SampledPools {
    open: BTreeMap<PoolId, SampledPool>,
    /// Processes that were read to their end, or that have no pool.
    done: BTreeSet<PoolId>,
}

impl SampledPools {
    /// Finds new processes and ended processes.
    pub(crate) fn update(&mut self, sources: &dyn FlameSources) {
        let Self { open, done } = self;
        let mut listed = BTreeSet::new();
        sources.for_each_process(&mut |process| {
            listed.insert(process.key);
            let is_over = process.is_over || process.pool.is_none();
            if let Some(known) = open.get_mut(&process.key) {
                (known.is_over, known.died) = (is_over, process.died);
            } else if !done.contains(&process.key) {
                match process.pool {
                    Some(pool) => {
                        let new = SampledPool {
                            process: SampledProcess::new(process, pool),
                            is_over,
                            died: process.died,
                        };
                        open.insert(process.key, new);
                    }
                    None => {
                        done.insert(process.key);
                    }
                }
            }
        });
        let gone = open.iter_mut().filter(|(key, _)| !listed.contains(key));
        gone.for_each(|(_, pool)| pool.is_over = true);
        done.retain(|key| listed.contains(key));
    }

    /// The followed processes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SampledProcess> {
        self.open.values().map(|pool| &pool.process)
    }

    /// The followed processes, to be read.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SampledPool> {
        self.open.values_mut()
    }

    /// A followed process, to be read.
    pub(crate) fn get_mut(&mut self, key: PoolId) -> Option<&mut SampledPool> {
        self.open.get_mut(&key)
    }

    /// Removes the ended processes that have been read to their end.
    pub(crate) fn take_ended(&mut self) -> Vec<SampledProcess> {
        let ended = self
            .open
            .extract_if(.., |_, pool| pool.is_over && !pool.process.is_behind());
        let ended: Vec<(PoolId, SampledPool)> = ended.collect();
        self.done.extend(ended.iter().map(|(key, _)| *key));
        ended.into_iter().map(|(_, pool)| pool.process).collect()
    }
}
