//! Copies of the entries of the table, each for one kind of reader: captures, readings of groups
//! and the live page.
//!
//! Part of the [`ProcessTable`]. Invariant: the table is locked only while it is copied. (Readings
//! of metrics: `observed`. Readers that follow pools: `pool_list`.)

use std::collections::BTreeMap;
use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::reader::groups::PoolGroups;
use profiler_core::time::Timestamp;
use profiler_generated_code::ProcessFiles;
use profiler_sys::OwnFile;

#[cfg(feature = "live")]
use super::ProcessReport;
#[cfg(feature = "live")]
use super::observed_time::ObservedTime;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::gather::verdict::Why;
use crate::part_file::PartFile;

/// What a capture needs of a process.
#[derive(Debug)]
pub(crate) struct ProcessForCapture {
    pub(crate) key: PoolId,
    pub(crate) name: String,
    pub(crate) pid: ProcessId,
    /// The process that started it, if it is known.
    pub(crate) parent: Option<ProcessId>,
    /// It is the process of the session.
    pub(crate) is_parent: bool,
    pub(crate) remains: Remains,
    pub(crate) part_file: Option<Arc<PartFile>>,
    /// Its parent process, if it may have been forked and have executed no program since.
    pub(crate) forked_from: Option<ProcessId>,
    /// What is known of its files since it connected.
    pub(crate) files: Option<Arc<ProcessFiles>>,
    pub(crate) is_trusted: bool,
    /// The reason why it cannot be asked, if known.
    pub(crate) unable: Option<Why>,
    /// The reason why it has no data here, if another session records it.
    pub(crate) elsewhere: Option<Why>,
    /// When the session learned of it, if it is known.
    pub(crate) began: Option<Timestamp>,
}

/// What a reading of groups needs of a process.
#[derive(Debug)]
pub(crate) struct ProcessForGroups {
    pub(crate) key: PoolId,
    pub(crate) pid: ProcessId,
    pub(crate) name: String,
    pub(crate) has_ended: bool,
    pub(crate) source: GroupSource,
}

/// Where the groups of a process are.
#[derive(Debug)]
pub(crate) enum GroupSource {
    /// In its pool.
    Pool(Arc<OwnFile>),
    /// Its pool is gone, and these are its last groups.
    Final(Arc<PoolGroups>),
    /// Nowhere, for this reason.
    Missing(String),
}

/// What the live page needs of a process.
#[cfg(feature = "live")]
#[derive(Debug)]
pub(crate) struct ProcessForLivePage {
    pub(crate) key: PoolId,
    pub(crate) report: ProcessReport,
    pub(crate) remains: Remains,
    /// How its recording has ended, if it has.
    pub(crate) end: Option<String>,
    /// Its processor time, if it is observed.
    pub(crate) time: Option<ObservedTime>,
}

impl ProcessForCapture {
    fn of(key: PoolId, process: &TrackedProcess) -> Self {
        Self {
            key,
            name: process.name.clone(),
            pid: process.pid,
            parent: process.parent,
            is_parent: process.state == ProcessState::Parent,
            remains: process.remains.clone(),
            part_file: process.part_file.clone(),
            forked_from: process.parent.filter(|_| process.may_be_fork),
            files: process.files.clone(),
            is_trusted: process.is_trusted,
            unable: process.why_unable(),
            elsewhere: process.why_elsewhere(),
            began: process.began,
        }
    }
}

impl ProcessForGroups {
    fn of(key: PoolId, process: &TrackedProcess) -> Self {
        Self {
            key,
            pid: process.pid,
            name: process.name.clone(),
            has_ended: process.is_over(),
            source: GroupSource::of(process),
        }
    }
}

impl GroupSource {
    fn of(process: &TrackedProcess) -> Self {
        match (&process.remains, &process.groups) {
            (_, Some(groups)) => Self::Final(Arc::clone(groups)),
            (Remains::Pool(file), None) => Self::Pool(Arc::clone(file)),
            (Remains::Expired(_), None) => Self::Missing("its pool is closed".to_owned()),
            (Remains::Unprofiled(why), None) => Self::Missing(why.clone()),
        }
    }
}

#[cfg(feature = "live")]
impl ProcessForLivePage {
    fn of(key: PoolId, process: &TrackedProcess) -> Self {
        let end = process
            .why_unable()
            .filter(|_| process.is_over())
            .map(|why| why.to_string());
        Self {
            key,
            report: process.report(),
            remains: process.remains.clone(),
            end,
            time: process.time,
        }
    }

    /// Whether its recording goes on.
    pub(crate) const fn runs(&self) -> bool {
        !matches!(
            self.report.state,
            ProcessState::Exited(_) | ProcessState::Executed
        )
    }

    /// Its pool, if it has one.
    pub(crate) const fn pool(&self) -> Option<&Arc<OwnFile>> {
        match &self.remains {
            Remains::Pool(pool) => Some(pool),
            _ => None,
        }
    }
}

impl ProcessTable {
    /// All processes, for a capture, in the order in which they were added.
    pub(crate) fn for_capture(&self) -> Vec<ProcessForCapture> {
        self.copies(ProcessForCapture::of)
    }

    /// All processes, for the live page, in the order in which they were added.
    #[cfg(feature = "live")]
    pub(crate) fn for_live_page(&self) -> Vec<ProcessForLivePage> {
        self.copies(ProcessForLivePage::of)
    }

    /// All processes that have asked for memory, for a reading of groups, in the order in which
    /// they were added. Calls `forget_closed` with the table locked; its argument says which
    /// processes still have their pool.
    pub(crate) fn for_groups(
        &self,
        forget_closed: impl FnOnce(&dyn Fn(PoolId) -> bool),
    ) -> Vec<ProcessForGroups> {
        let all = self.lock();
        forget_closed(&|key| has_pool(&all, key));
        let all_groups = all.iter();
        let copied =
            all_groups.map(|(key, process)| (process.order, ProcessForGroups::of(*key, process)));
        let copied = copied.collect();
        drop(all);
        in_order(copied)
    }

    /// The numbers and names of the processes that run, in the order in which they were added.
    pub(crate) fn running_names(&self) -> Vec<(ProcessId, String)> {
        let running = self
            .copies(|_, process| (!process.is_over()).then(|| (process.pid, process.name.clone())));
        running.into_iter().flatten().collect()
    }

    /// Copies all processes, in the order in which they were added.
    fn copies<T>(&self, copy: impl Fn(PoolId, &TrackedProcess) -> T) -> Vec<T> {
        let all = self.lock();
        let copied = all.iter().filter(|(_, process)| !process.is_left_out);
        let copied = copied.map(|(key, process)| (process.order, copy(*key, process)));
        let copied = copied.collect();
        drop(all);
        in_order(copied)
    }

    /// Calls `then` if a process still has its pool. The table is locked meanwhile, so the pool is
    /// not closed before `then` returns.
    pub(crate) fn while_pool_is_kept(&self, key: PoolId, then: impl FnOnce()) {
        let all = self.lock();
        if has_pool(&all, key) {
            then();
        }
    }

    /// The reason why a process cannot be asked for its part now; `None` if it can.
    pub(crate) fn why_unable(&self, key: PoolId) -> Option<Why> {
        self.lock().get(&key).and_then(TrackedProcess::why_unable)
    }

    /// When a process ended; `None` if it runs.
    pub(crate) fn death_of(&self, key: PoolId) -> Option<Timestamp> {
        self.lock().get(&key).and_then(|process| process.died)
    }
}

/// Whether the process still has its pool.
fn has_pool(all: &BTreeMap<PoolId, TrackedProcess>, key: PoolId) -> bool {
    all.get(&key)
        .is_some_and(|process| matches!(process.remains, Remains::Pool(_)))
}

/// Sorts copies by the order of their processes. The table is not locked.
fn in_order<T>(mut copied: Vec<(u64, T)>) -> Vec<T> {
    copied.sort_by_key(|(order, _)| *order);
    copied.into_iter().map(|(_, copy)| copy).collect()
}
