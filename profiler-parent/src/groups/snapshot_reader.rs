//! From all pools to a snapshot.
//!
//! Called by whoever asks the session, on that thread. The list of processes is copied under its lock, pools are read without
//! it. Reading a pool in memory waits for nobody; one that is a file may wait for the disk, therefore no further pool is begun
//! after the time-out, and those left are named as missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use profiler_core::groups::GroupKind;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::reader::ReadError;
use profiler_core::reader::groups::{GroupReader, GroupReading, PoolGroups};
use profiler_core::sys::OwnFile;
use profiler_core::time::{Anchor, Timestamp};

use super::probe_registry::Reader;
use super::snapshot::{
    GroupId, GroupRow, GroupsSnapshot, MissingProcess, ProcessGroups, ProcessStanding, RowStatus,
};
use crate::supervisor::{Process, ProcessState, Remains, Shared};

/// Groups that are kept of a process when its pool goes, those with the most time first.
const MOST_FINAL: usize = 64;

/// What is to be read of a process.
enum Source {
    Pool(Arc<OwnFile>),
    Final(Arc<PoolGroups>),
    Missing(String),
}

struct Candidate {
    key: PoolId,
    order: u64,
    pid: ProcessId,
    name: String,
    has_ended: bool,
    source: Source,
}

impl Candidate {
    fn of(key: PoolId, process: &Process) -> Self {
        let source = match (&process.remains, &process.groups) {
            (_, Some(groups)) => Source::Final(Arc::clone(groups)),
            (Remains::Pool(file), None) => Source::Pool(Arc::clone(file)),
            (Remains::Expired(_), None) => Source::Missing("its memory is gone".to_owned()),
            (Remains::Unprofiled(why), None) => Source::Missing(why.clone()),
        };
        let has_ended = matches!(process.state, ProcessState::Exited(_));
        let (order, pid, name) = (process.order, process.pid, process.name.clone());
        Self { key, order, pid, name, has_ended, source }
    }

    fn standing(&self, is_stopped: impl Fn(&Self) -> bool) -> ProcessStanding {
        match self.has_ended {
            true => ProcessStanding::Gone,
            false if is_stopped(self) => ProcessStanding::Frozen,
            false => ProcessStanding::Live,
        }
    }
}

/// Reads the groups of all processes.
pub(crate) fn snapshot(shared: &Shared, timeout: Duration) -> GroupsSnapshot {
    read_all(shared, timeout, candidates(shared), |process| crate::sys::is_stopped(process.pid))
}

/// For those who look again and again: what another of them read if that is no older than `age` nanoseconds, else as
/// [`snapshot`], but for standings, of which those of many processes may be some looks old.
pub(crate) fn lately(shared: &Shared, timeout: Duration, age: i64) -> Arc<GroupsSnapshot> {
    let now = shared.clock.converter(Anchor::take()).since_start_ns(Timestamp::now());
    if let Some(recent) = shared.groups.recent().filter(|recent| now.saturating_sub(recent.at_ns) <= age) {
        return recent;
    }
    let candidates = candidates(shared);
    let pids: BTreeMap<PoolId, ProcessId> =
        candidates.iter().filter(|one| !one.has_ended).map(|one| (one.key, one.pid)).collect();
    let running: Vec<PoolId> = pids.keys().copied().collect();
    let is_stopped = |key: PoolId| pids.get(&key).is_some_and(|pid| crate::sys::is_stopped(*pid));
    let standings = shared.groups.standings(|standings| {
        standings.look(&running, is_stopped);
        running.iter().copied().filter(|key| standings.is_stopped(*key)).collect::<BTreeSet<PoolId>>()
    });
    let is_stopped = |process: &Candidate| standings.contains(&process.key);
    let snapshot = Arc::new(read_all(shared, timeout, candidates, is_stopped));
    shared.groups.note_recent(&snapshot);
    snapshot
}

fn read_all(
    shared: &Shared,
    timeout: Duration,
    candidates: Vec<Candidate>,
    is_stopped: impl Fn(&Candidate) -> bool,
) -> GroupsSnapshot {
    let converter = shared.clock.converter(Anchor::take());
    let start = Timestamp::now();
    let at_ns = converter.since_start_ns(start);
    let bound = converter.ticks_in(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    let mut snapshot = GroupsSnapshot {
        at_ns,
        date_unix_ns: shared.clock.start_unix.0.saturating_add_signed(at_ns),
        ..GroupsSnapshot::default()
    };
    for candidate in candidates {
        let is_late = Timestamp::now().since(start) > bound;
        let groups =
            if is_late { Err("the time-out had passed".to_owned()) } else { read(shared, &candidate) };
        match groups {
            Ok(groups) => snapshot.processes.push(shown(&candidate, &groups, &is_stopped)),
            Err(why) => {
                let Candidate { pid, name, .. } = candidate;
                snapshot.missing.push(MissingProcess { pid, name, why });
            }
        }
    }
    snapshot
}

/// All processes, in the order in which they came.
fn candidates(shared: &Shared) -> Vec<Candidate> {
    let all = shared.processes.lock();
    shared.groups.keep_only(|key| has_pool(&all, key));
    let mut candidates: Vec<Candidate> =
        all.iter().map(|(key, process)| Candidate::of(*key, process)).collect();
    drop(all);
    candidates.sort_by_key(|candidate| candidate.order);
    candidates
}

/// Whether its pool is there still.
fn has_pool(all: &BTreeMap<PoolId, Process>, key: PoolId) -> bool {
    all.get(&key).is_some_and(|process| matches!(process.remains, Remains::Pool(_)))
}

/// Keeps a reader for the next time unless its pool was given up meanwhile. That happens under the same lock, and
/// whoever does it has the reader forgotten afterwards: none stays.
fn keep(shared: &Shared, key: PoolId, reader: Reader) {
    let all = shared.processes.lock();
    if has_pool(&all, key) {
        shared.groups.keep_reader(key, reader);
    }
}

fn read(shared: &Shared, candidate: &Candidate) -> Result<Arc<PoolGroups>, String> {
    match &candidate.source {
        Source::Missing(why) => Err(why.clone()),
        Source::Final(groups) => Ok(Arc::clone(groups)),
        Source::Pool(file) => {
            let read = || -> Result<Arc<PoolGroups>, ReadError> {
                let known = shared.groups.take_reader(candidate.key);
                let mut reader = known.map_or_else(|| GroupReader::open(Arc::clone(file)), Ok)?;
                let groups = reader.read()?;
                keep(shared, candidate.key, reader);
                Ok(Arc::new(groups))
            };
            read().map_err(|error| error.to_string())
        }
    }
}

fn shown(
    candidate: &Candidate,
    found: &PoolGroups,
    is_stopped: impl Fn(&Candidate) -> bool,
) -> ProcessGroups {
    let row = |reading: &GroupReading| {
        let definition = &reading.definition;
        let is_process = definition.kind == GroupKind::Process;
        GroupRow {
            id: GroupId { pool: candidate.key, epoch: found.epoch, number: reading.index },
            kind: definition.kind,
            name: if is_process { candidate.name.clone() } else { definition.name.clone() },
            labels: definition.labels.clone(),
            is_fine: definition.is_fine,
            totals: reading.totals.clone(),
            status: RowStatus::Known,
            last: None,
        }
    };
    ProcessGroups {
        pool: candidate.key,
        pid: candidate.pid,
        name: candidate.name.clone(),
        standing: candidate.standing(is_stopped),
        probes: found.probes,
        left_out: found.left_out,
        groups: found.groups.iter().map(row).collect(),
    }
}

/// The final totals of a process whose pool is about to go.
pub(crate) fn final_groups(pool: &Arc<OwnFile>) -> Option<Arc<PoolGroups>> {
    let mut found = GroupReader::open(Arc::clone(pool)).and_then(|mut reader| reader.read()).ok()?;
    found.groups.retain(|group| !group.totals.is_idle());
    if found.groups.len() > MOST_FINAL {
        found.groups.sort_by_key(|group| std::cmp::Reverse((group.totals.wall_ns, group.totals.ticks)));
        found.left_out = found.left_out.saturating_add((found.groups.len() - MOST_FINAL) as u64);
        found.groups.truncate(MOST_FINAL);
        found.groups.sort_by_key(|group| group.index);
    }
    found.groups.shrink_to_fit();
    Some(Arc::new(found))
}
