//! More groups than a pool has room for. Alone in its process: groups stay registered for its whole life.

use profiler_core::groups::{self, Group, GroupKind, Probes};
use profiler_core::reader::groups::GroupReader;
use profiler_core::session::{self, SessionParams, StartOptions};

#[test]
fn groups_beyond_the_most_count_nothing_and_harm_nobody() -> anyhow::Result<()> {
    groups::set_probes(Probes::JANK);
    session::start(SessionParams::default(), StartOptions::default())?;
    let all: Vec<Group> =
        (0..4_200).map(|number| Group::register(GroupKind::Request, &format!("many {number}"))).collect();
    all.iter().for_each(|group| drop(group.enter()));
    let found = GroupReader::open(session::pool_file()?)?.read()?;
    let requests: Vec<_> =
        found.groups.iter().filter(|row| row.definition.kind == GroupKind::Request).collect();
    assert!(found.groups.len() <= 4_096 && requests.len() >= 4_090, "{}", requests.len());
    assert!(requests.iter().all(|row| row.totals.ticks == 1));
    assert!(found.left_out >= 104, "{}", found.left_out);
    session::stop();
    Ok(())
}
