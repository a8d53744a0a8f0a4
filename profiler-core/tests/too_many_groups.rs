//! Test of more groups than a pool has space for.

use profiler_core::groups::{self, Group, GroupKind, Probes};
use profiler_core::internal::reader::groups::{GroupReader, PoolGroups};
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::counting::allocations_of;
use test_support::own_process;

fn register_all() -> Vec<Group> {
    (0..4_200)
        .map(|number| Group::register(GroupKind::Request, &format!("many {number}")))
        .collect()
}

fn ticks_of(found: &PoolGroups, kind: GroupKind, name: &str) -> u64 {
    let is_it = |row: &&profiler_core::internal::reader::groups::GroupReading| {
        row.definition.kind == kind && row.definition.name == name
    };
    found
        .groups
        .iter()
        .find(is_it)
        .map_or(0, |row| row.totals.ticks)
}

#[test]
fn groups_beyond_the_maximum_count_nothing_and_do_no_harm() -> anyhow::Result<()> {
    own_process!();
    groups::set_probes(Probes::JANK);
    session::start(SessionParams::default(), StartOptions::default())?;
    let mut reader = GroupReader::open(session::pool_file()?)?;
    let all = register_all();
    all.iter().for_each(|group| drop(group.enter()));
    let found = reader.read()?;
    let requests: Vec<_> = found
        .groups
        .iter()
        .filter(|row| row.definition.kind == GroupKind::Request)
        .collect();
    assert!(
        found.groups.len() <= 4_096 && requests.len() >= 4_090,
        "{}",
        requests.len()
    );
    assert!(requests.iter().all(|row| row.totals.ticks == 1));

    let entries = requests.len() as u64;
    assert_eq!(
        ticks_of(&found, GroupKind::Process, "process"),
        entries,
        "the process has a row"
    );
    assert_eq!(
        ticks_of(&found, GroupKind::Thread, "(other threads)"),
        entries,
        "its threads have a row"
    );
    assert_eq!(
        found.left_out,
        4_200 - entries,
        "each group is counted once"
    );

    let enter = || {
        all.iter()
            .rev()
            .step_by(100)
            .for_each(|group| drop(group.enter()))
    };
    let allocations = allocations_of(|| (0..1000).for_each(|_| enter()));
    assert_eq!(allocations, 0, "an entry allocates");
    drop(register_all());
    assert_eq!(
        reader.read()?.left_out,
        found.left_out,
        "a group is counted once, also if it is registered again"
    );
    session::stop();
    Ok(())
}
