//! Tests of what a reading makes of the processes of a session: which count as unread, which names
//! get series, and when entries count as unfinished.

use std::sync::Arc;

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::session::EntryCounts;
use profiler_sys::OwnFile;

use super::super::{MetricsReading, ProcessMetricsRow};
use super::ReadPools;
use crate::groups::{GroupsSnapshot, MissingProcess};
use crate::process_table::session_sums::{MAX_NAMES, OTHER};
use crate::process_table::{
    PresentCounts, ProcessActivity, ProcessState, ProcessTable, Remains, TrackedProcess,
};

fn pool() -> Remains {
    let file = OwnFile::from(tempfile::tempfile().unwrap());
    Remains::Pool(Arc::new(file))
}

/// Adds a process to the table. Its number is that of its pool, too.
fn add(table: &ProcessTable, number: u32, name: &str, state: ProcessState, remains: Remains) {
    let pid = ProcessId::new(number);
    let is_connected = state == ProcessState::Connected;
    let process = TrackedProcess::new(name, pid, state, remains).with_hello(is_connected);
    table.add(PoolId::new(u128::from(number)), process);
}

fn read(
    table: &ProcessTable,
    snapshot: &GroupsSnapshot,
    counts: &[(PoolId, PresentCounts)],
) -> MetricsReading {
    let pools = ReadPools::new(snapshot, counts.iter().copied());
    table.observe(|observed, sums| pools.add_up(&observed, sums))
}

/// The row of this name, which is the only one.
fn row<'a>(reading: &'a MetricsReading, name: &str) -> &'a ProcessMetricsRow {
    let mut rows = reading.processes.iter().filter(|row| &*row.name == name);
    let row = rows.next().unwrap();
    assert!(rows.next().is_none());
    row
}

fn number_of(row: &ProcessMetricsRow, activity: ProcessActivity) -> u64 {
    let all = ProcessActivity::ALL.iter().zip(row.present.by_activity);
    all.filter(|((one, _), _)| *one == activity)
        .map(|(_, number)| number)
        .sum()
}

#[test]
fn only_recording_processes_whose_groups_could_not_be_read_count_as_unread() {
    let table = ProcessTable::default();
    let static_program = Remains::Unprofiled("it is statically linked".to_owned());
    let empty = Remains::Expired(EntryCounts::default());
    add(&table, 1, "cc1", ProcessState::Exited(None), static_program);
    add(&table, 2, "closed", ProcessState::Exited(None), empty);
    add(&table, 3, "worker", ProcessState::Connected, pool());
    add(&table, 4, "started", ProcessState::Starting, pool());
    let missing = |number: u32| MissingProcess {
        pool: PoolId::new(u128::from(number)),
        pid: ProcessId::new(number),
        name: "p".to_owned(),
        why: "why".to_owned(),
    };
    let mut snapshot = GroupsSnapshot::default();
    snapshot.missing.extend((1..5).map(missing));
    assert_eq!(read(&table, &snapshot, &[]).unread, 1);
    // One that has joined after the snapshot is not unread.
    add(&table, 5, "new", ProcessState::Connected, pool());
    assert_eq!(read(&table, &snapshot, &[]).unread, 1);
    snapshot.missing.clear();
    assert_eq!(read(&table, &snapshot, &[]).unread, 0);
}

#[test]
fn processes_that_do_not_record_take_no_series_of_their_own() {
    let table = ProcessTable::default();
    let snapshot = GroupsSnapshot::default();
    for number in 0..u32::try_from(MAX_NAMES).unwrap() {
        let name = format!("tool {number}");
        let why = Remains::Unprofiled("it is statically linked".to_owned());
        add(&table, 10 + number, &name, ProcessState::Exited(None), why);
    }
    add(&table, 1, "first name", ProcessState::Starting, pool());
    let reading = read(&table, &snapshot, &[]);
    assert_eq!(reading.processes.len(), 1);
    let other = row(&reading, OTHER);
    let unprofiled = number_of(other, ProcessActivity::Unprofiled);
    assert_eq!((unprofiled, other.sum.starts), (MAX_NAMES as u64, 0));
    assert_eq!(number_of(other, ProcessActivity::Starting), 1);

    table.connect_as(PoolId::new(1), "worker");
    let reading = read(&table, &snapshot, &[]);
    let worker = row(&reading, "worker");
    assert_eq!(number_of(worker, ProcessActivity::Recording), 1);
    assert_eq!(worker.sum.starts, 1);
    assert_eq!(
        number_of(row(&reading, OTHER), ProcessActivity::Starting),
        0
    );
    // A process that starts is shown with those of its name.
    add(&table, 2, "worker", ProcessState::Starting, pool());
    let reading = read(&table, &snapshot, &[]);
    assert_eq!(
        number_of(row(&reading, "worker"), ProcessActivity::Starting),
        1
    );
}

#[test]
fn the_series_of_all_further_names_stays_once_it_is_there() {
    let table = ProcessTable::default();
    let snapshot = GroupsSnapshot::default();
    add(&table, 1, "p", ProcessState::Starting, pool());
    assert_eq!(read(&table, &snapshot, &[]).processes.len(), 1);
    table.remove(PoolId::new(1));
    let reading = read(&table, &snapshot, &[]);
    assert_eq!(
        number_of(row(&reading, OTHER), ProcessActivity::Starting),
        0
    );
}

#[test]
fn entries_are_unfinished_when_their_process_has_ended_although_its_data_is_kept() {
    let table = ProcessTable::default();
    let snapshot = GroupsSnapshot::default();
    let key = PoolId::new(1);
    let counts = EntryCounts {
        delivered: 5,
        unfinished: 1,
        ..EntryCounts::default()
    };
    let read_with = |has_ended| {
        let reading = read(
            &table,
            &snapshot,
            &[(key, PresentCounts { counts, has_ended })],
        );
        let sum = &row(&reading, "p").sum;
        (sum.recorded, sum.unfinished)
    };
    add(&table, 1, "p", ProcessState::Connected, pool());
    assert_eq!(read_with(false), (6, 0));
    table.set_state(key, ProcessState::Exited(None));
    assert_eq!(read_with(false), (6, 0), "its counts were read before");
    let has_ended = table
        .present_counts(u64::MAX)
        .iter()
        .all(|(_, read)| read.has_ended);
    assert!(has_ended);
    assert_eq!(read_with(true), (6, 1));
}
