//! Merges groups of the same kind, name and labels in several processes into one row.
//!
//! Called by applications and the live page.

use std::collections::HashMap;

use profiler_core::groups::GroupKind;
use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::groups::GroupTotals;
use serde::Serialize;

use super::snapshot::{GroupId, GroupRow, GroupsSnapshot, ProcessGroups, ProcessStanding};

/// A group in one process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Member {
    /// Identity of the group in that process.
    pub id: GroupId,
    /// The process.
    pub pid: ProcessId,
    /// Its shown name.
    pub process: String,
    /// The state of the process.
    pub standing: ProcessStanding,
    /// The group's totals in that process.
    pub totals: GroupTotals,
}

/// A group in all processes that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MergedGroup {
    /// Its kind.
    pub kind: GroupKind,
    /// Shown name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its totals over all processes.
    pub totals: GroupTotals,
    /// The group in each of these processes, in the order of the snapshot.
    pub members: Vec<Member>,
}

impl GroupsSnapshot {
    /// The groups, merged over processes, in the order of first appearance. Works for snapshots and
    /// for differences.
    pub fn merged(&self) -> Vec<MergedGroup> {
        let mut merged: Vec<MergedGroup> = Vec::new();
        let mut places = HashMap::new();
        for (process, row) in self.rows() {
            let place = *places
                .entry((row.kind, &row.name, &row.labels))
                .or_insert(merged.len());
            match merged.get_mut(place) {
                Some(group) => group.members.push(member(process, row)),
                None => merged.push(MergedGroup::of(process, row)),
            }
        }
        for group in &mut merged {
            group.totals = GroupTotals::sum(group.members.iter().map(|member| &member.totals));
        }
        merged
    }
}

impl MergedGroup {
    /// Begins with the first member; the totals follow when all members are known.
    fn of(process: &ProcessGroups, row: &GroupRow) -> Self {
        let kind = row.kind;
        let name = row.name.clone();
        let labels = row.labels.clone();
        Self {
            kind,
            name,
            labels,
            totals: GroupTotals::nothing(),
            members: vec![member(process, row)],
        }
    }
}

fn member(process: &ProcessGroups, row: &GroupRow) -> Member {
    let id = row.id;
    let totals = row.totals.clone();
    Member {
        id,
        pid: process.pid,
        process: process.name.clone(),
        standing: process.standing,
        totals,
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::groups::Probes;
    use profiler_core::ids::{GroupIndex, PoolId};
    use profiler_core::internal::reader::groups::Peak;
    use profiler_sys::spawn_quiet;

    use super::super::snapshot::RowStatus;
    use super::*;

    fn row(pool: u128, number: u32, name: &str, ticks: u64) -> GroupRow {
        GroupRow {
            id: GroupId {
                pool: PoolId::new(pool),
                epoch: 1,
                number: GroupIndex::new(number),
            },
            kind: GroupKind::Plugin,
            name: name.to_owned(),
            labels: Vec::new(),
            is_fine: false,
            totals: GroupTotals {
                ticks,
                ..GroupTotals::nothing()
            },
            status: RowStatus::Known,
            last: None,
        }
    }

    fn process(pool: u128, groups: Vec<GroupRow>) -> ProcessGroups {
        let pid = ProcessId::new(1);
        let name = format!("process {pool}");
        let standing = ProcessStanding::Live;
        ProcessGroups {
            pool: PoolId::new(pool),
            pid,
            name,
            standing,
            probes: Probes::NONE,
            left_out: 0,
            groups,
        }
    }

    fn snapshot(at_ns: i64, processes: Vec<ProcessGroups>) -> GroupsSnapshot {
        GroupsSnapshot {
            at_ns,
            processes,
            ..GroupsSnapshot::default()
        }
    }

    #[test]
    fn equal_groups_of_several_processes_are_one_row() {
        let all = snapshot(
            0,
            vec![
                process(1, vec![row(1, 0, "a", 3), row(1, 1, "b", 1)]),
                process(2, vec![row(2, 0, "b", 5)]),
            ],
        );
        let merged = all.merged();
        let rows: Vec<_> = merged
            .iter()
            .map(|it| (it.name.as_str(), it.totals.ticks, it.members.len()))
            .collect();
        assert_eq!(rows, [("a", 3, 1), ("b", 6, 2)]);
        assert_eq!(merged[1].members[1].process, "process 2");
    }

    #[test]
    fn many_groups_of_one_name_are_merged_without_quadratic_work() {
        const ROWS: u32 = 40_000;
        let peak = |place| Peak {
            ended_ns: place,
            duration_ns: 1,
        };
        let shown = |number: u32| {
            let mut row = row(1, number, "same", 1);
            row.totals.peaks = (0..10)
                .map(|place| peak(u64::from(number) * 7919 % 10_007 * 10 + place))
                .collect();
            row
        };
        let all = snapshot(0, vec![process(1, (0..ROWS).map(shown).collect())]);
        let (done, merged) = crossbeam_channel::bounded(1);
        let thread = spawn_quiet("test-merge", move || drop(done.send(all.merged()))).unwrap();
        // Quadratic work would take minutes.
        let merged = merged
            .recv_timeout(std::time::Duration::from_secs(120))
            .expect("the merge did not finish in time");
        thread.join().unwrap();
        let [same] = &merged[..] else {
            panic!("{} rows", merged.len())
        };
        assert_eq!(
            (same.totals.ticks, same.totals.peaks.len()),
            (u64::from(ROWS), 10 * ROWS as usize)
        );
        assert!(same.totals.peaks.is_sorted());
    }

    #[test]
    fn p12_a_difference_has_new_groups_against_zero_and_gone_ones_with_their_final_totals() {
        let before = snapshot(
            1_000,
            vec![
                process(1, vec![row(1, 0, "stays", 3)]),
                process(2, vec![row(2, 0, "goes", 7)]),
            ],
        );
        let after = snapshot(
            5_000,
            vec![process(
                1,
                vec![row(1, 0, "stays", 4), row(1, 1, "comes", 2)],
            )],
        );
        let difference = after.since(&before);
        assert_eq!(difference.interval_ns, Some(4_000));
        let rows: Vec<_> = difference
            .rows()
            .map(|(_, row)| {
                (
                    row.name.as_str(),
                    row.totals.ticks,
                    row.status,
                    row.last.as_ref().unwrap().ticks,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("stays", 1, RowStatus::Known, 4),
                ("comes", 2, RowStatus::New, 2),
                ("goes", 0, RowStatus::Gone, 7),
            ]
        );
        assert!(
            difference
                .rows()
                .zip(after.rows())
                .all(|((_, a), (_, b))| a.id == b.id),
            "identity never changes"
        );
    }

    #[test]
    fn everything_serialises() {
        let all = snapshot(1, vec![process(1, vec![row(1, 0, "a", 3)])]);
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!(json["processes"][0]["groups"][0]["totals"]["ticks"], 3);
        assert_eq!(json["processes"][0]["standing"], "live");
        assert_eq!(
            serde_json::to_value(all.merged()).unwrap()[0]["kind"],
            "plugin"
        );
    }
}
