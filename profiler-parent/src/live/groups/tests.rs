//! Tests of the table of groups that a request gets (L1).

use profiler_core::groups::Probes;
use profiler_core::ids::{GroupIndex, PoolId, ProcessId};
use profiler_core::internal::reader::groups::Peak;
use serde_json::Value;

use super::*;
use crate::groups::{GroupId, GroupRow, ProcessGroups, RowStatus};

fn row(pool: u128, number: u32, name: &str, ticks: u64, wall_ns: u64) -> GroupRow {
    GroupRow {
        id: GroupId {
            pool: PoolId::new(pool),
            epoch: 1,
            number: GroupIndex::new(number),
        },
        kind: if name.starts_with('p') {
            GroupKind::Plugin
        } else {
            GroupKind::Tenant
        },
        name: name.to_owned(),
        labels: Vec::new(),
        is_fine: false,
        totals: GroupTotals {
            ticks,
            wall_ns,
            ..GroupTotals::nothing()
        },
        status: RowStatus::Known,
        last: None,
    }
}

fn process(pool: u128, groups: Vec<GroupRow>) -> ProcessGroups {
    ProcessGroups {
        pool: PoolId::new(pool),
        pid: ProcessId::new(u32::try_from(pool).unwrap()),
        name: format!("process {pool}"),
        standing: ProcessStanding::Live,
        probes: Probes::NONE,
        left_out: 1,
        groups,
    }
}

fn snapshot(at_ns: i64, factor: u64) -> GroupsSnapshot {
    let processes = vec![
        process(
            1,
            vec![
                row(1, 0, "plugin", 3 * factor, 30 * factor),
                row(1, 1, "acme", 9 * factor, 5),
            ],
        ),
        process(
            2,
            vec![
                row(2, 0, "plugin", factor, 70 * factor),
                row(2, 1, "pure", 1, 50),
            ],
        ),
    ];
    GroupsSnapshot {
        at_ns,
        processes,
        ..GroupsSnapshot::default()
    }
}

fn snapshot_of(processes: Vec<ProcessGroups>) -> GroupsSnapshot {
    GroupsSnapshot {
        processes,
        ..GroupsSnapshot::default()
    }
}

/// The table as it is sent to the page.
fn table(snapshot: &GroupsSnapshot, query: &str) -> Value {
    let merged = snapshot.merged();
    serde_json::to_value(Table::new(
        snapshot,
        snapshot.at_ns,
        &merged,
        &Query::parse(query),
    ))
    .unwrap()
}

fn names(table: &Value) -> Vec<&str> {
    table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

#[test]
fn l1_a_group_is_one_row_over_all_processes_and_opens_into_a_row_for_each() {
    let all = snapshot(1_000, 1);
    let closed = table(&all, "");
    assert_eq!(names(&closed), ["plugin", "pure", "acme"]);
    let first = &closed["rows"][0];
    assert_eq!(
        (first["wall_ns"].as_u64(), first["processes"].as_u64()),
        (Some(100), Some(2))
    );
    assert!(
        first.get("members").is_none(),
        "members are sent only on request"
    );
    assert_eq!(
        (closed["interval_ns"].as_u64(), closed["left_out"].as_u64()),
        (Some(1_000), Some(2))
    );
    let key = first["key"].as_str().unwrap();
    let open = table(&snapshot(2_000, 5), &format!("open={key}"));
    let members = open["rows"][0]["members"].as_array().unwrap();
    let of = |member: &Value| {
        (
            member["process"].as_str().unwrap().to_owned(),
            member["wall_ns"].as_u64(),
        )
    };
    assert_eq!(
        of(&members[0]),
        ("process 2".to_owned(), Some(350)),
        "the slowest is first, and the key does not change"
    );
    assert_eq!(of(&members[1]), ("process 1".to_owned(), Some(150)));
}

#[test]
fn l1_rows_are_sorted_by_any_column_in_either_order_and_cut_to_the_top() {
    let all = snapshot(1_000, 1);
    for (query, expected) in [
        ("sort=ticks", ["acme", "plugin", "pure"]),
        ("sort=ticks&order=asc", ["pure", "plugin", "acme"]),
        ("sort=name", ["acme", "plugin", "pure"]),
        ("sort=name&order=desc", ["pure", "plugin", "acme"]),
        ("sort=kind", ["plugin", "pure", "acme"]),
        ("sort=processes", ["plugin", "acme", "pure"]),
        ("sort=nonsense", ["plugin", "pure", "acme"]),
    ] {
        assert_eq!(names(&table(&all, query)), expected, "{query}");
    }
    let top = table(&all, "top=1");
    assert_eq!(
        (names(&top), top["total"].as_u64()),
        (vec!["plugin"], Some(3))
    );
    assert_eq!(names(&table(&all, "top=all&find=PU")), ["pure"]);
    assert_eq!(names(&table(&all, "kind=tenant")), ["acme"]);
}

#[test]
fn l1_the_top_rows_are_the_first_rows_of_the_whole_table() {
    let of = |number: u32| {
        row(
            1,
            number,
            &format!("p{}", number * 7 % 40),
            u64::from(number * 13 % 7),
            5,
        )
    };
    let all = snapshot_of(vec![process(1, (0..40).map(of).collect())]);
    for (sort, order) in [
        ("ticks", "asc"),
        ("ticks", "desc"),
        ("wall", "asc"),
        ("name", "desc"),
        ("p99", "desc"),
    ] {
        let whole = table(&all, &format!("sort={sort}&order={order}&top=all"));
        for top in [0, 1, 5, 17, 39, 40, 41] {
            let part = table(&all, &format!("sort={sort}&order={order}&top={top}"));
            assert_eq!(
                names(&part),
                names(&whole)[..top.min(40)],
                "{sort} {order} {top}"
            );
            assert_eq!(part["total"], 40);
        }
    }
}

#[test]
fn l1_many_groups_of_one_name_are_merged_without_quadratic_work() {
    const ROWS: u32 = 40_000;
    let peak = |place| Peak {
        ended_ns: place,
        duration_ns: 1,
    };
    let of = |number: u32| {
        let mut row = row(1, number, "same", 1, 5);
        row.totals.peaks = (0..10)
            .map(|place| peak(u64::from(number) * 7919 % 10_007 * 10 + place))
            .collect();
        row
    };
    let all = snapshot_of(vec![process(1, (0..ROWS).map(of).collect())]);
    let (done, merged) = crossbeam_channel::bounded(1);
    let merge = move || drop(done.send(merged_since(&all, &GroupsSnapshot::default())));
    let thread = profiler_sys::spawn_quiet("test-merge", merge).unwrap();
    // Quadratic work takes minutes.
    let merged = merged
        .recv_timeout(std::time::Duration::from_secs(120))
        .expect("the merge did not finish in time");
    thread.join().unwrap();
    assert_eq!((merged.len(), merged[0].totals.ticks), (1, u64::from(ROWS)));
}

#[test]
fn l1_rows_can_be_sorted_by_every_column_of_the_page() {
    let page = include_str!("../page/index.html");
    let columns = page
        .split("data-sort=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let unknown: Vec<&str> = columns
        .filter(|name| !Column::NAMES.iter().any(|(known, _)| known == name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(page.contains("data-sort=\"wall\""));
}

#[test]
fn l1_recent_totals_are_the_increase() {
    let earlier = snapshot(1_000, 1);
    let now = snapshot(11_000, 4);
    let merged = merged_since(&now, &earlier);
    assert_eq!(merged, now.since(&earlier).merged());
    let query = Query::parse("window=10s&sort=ticks");
    let table = serde_json::to_value(Table::new(&now, 10_000, &merged, &query)).unwrap();
    assert_eq!(
        (table["interval_ns"].as_u64(), table["window"].as_str()),
        (Some(10_000), Some("10s"))
    );
    let rows = table["rows"].as_array().unwrap();
    let ticks: Vec<_> = rows
        .iter()
        .map(|row| row["ticks"].as_u64().unwrap())
        .collect();
    assert_eq!(
        (names(&table), ticks),
        (vec!["acme", "plugin", "pure"], vec![27, 12, 0])
    );
}

#[test]
fn l1_a_false_number_of_left_out_groups_does_not_overflow() {
    let mut liar = process(1, vec![]);
    let honest = process(2, vec![]);
    liar.left_out = u64::MAX;
    assert_eq!(
        table(&snapshot_of(vec![liar, honest]), "")["left_out"].as_u64(),
        Some(u64::MAX)
    );
}
