//! Tests of the critical path: hand-made time lines with known paths, and the sum of any path.

use profiler_json::{Awaited, Numbered, WaitLabel};
use proptest::prelude::*;

use super::*;
use crate::timeline::{TimedThread, Timeline};

/// What a thread does: until when, whether it runs, its function, and the process that it awaits.
type Row = (i64, bool, &'static str, Option<u32>);

/// A unit of time in which a wait is known to last: longer than the time between two looks.
const UNIT: i64 = 2 * MAX_SHORT_NS;

/// A timeline of processes 1, 2, … with one thread each. Times are in units.
fn timeline(processes: &[&[Row]]) -> Timeline {
    in_units(UNIT, processes)
}

fn in_units(unit: i64, processes: &[&[Row]]) -> Timeline {
    let mut timeline = Timeline::default();
    for (index, rows) in processes.iter().enumerate() {
        let number = index as u64 + 1;
        let mut start_ns = 0;
        let mut pieces = Vec::new();
        for (end_ns, runs, function, awaited) in *rows {
            let time = Interval {
                start_ns,
                end_ns: *end_ns * unit,
            };
            start_ns = time.end_ns;
            let name = timeline.places.name_id(function);
            let label = awaited.map(|number| {
                let name = format!("p{number}");
                timeline.places.label_id(WaitLabel {
                    whom: Awaited::Processes(vec![Numbered { name, number }]),
                    kind: "pipe".to_owned(),
                })
            });
            let place = StackPlace {
                innermost: name,
                of_program: name,
                label,
            };
            let running_ns = if *runs { time.length_ns() } else { 0 };
            pieces.push(Piece {
                time,
                weight_ns: time.length_ns(),
                running_ns,
                place,
            });
        }
        timeline.processes.push(TimedProcess {
            name: format!("p{number}"),
            pid: number.to_string(),
            system_pid: Some(number),
            parent: (number > 1).then_some(1),
            threads: vec![TimedThread {
                name: "main".to_owned(),
                number,
                is_main: true,
                pieces,
            }],
        });
    }
    timeline
}

fn path(timeline: &Timeline, start_ns: i64, end_ns: i64) -> CriticalPath {
    let end = PathEnd {
        process: ProcessIndex(0),
        thread: ThreadIndex(0),
        time: Interval { start_ns, end_ns },
    };
    critical_path(timeline, end)
}

/// The path of the first process in this range of units.
fn path_in(timeline: &Timeline, start: i64, end: i64) -> CriticalPath {
    path(timeline, start * UNIT, end * UNIT)
}

fn told(path: &CriticalPath) -> Vec<(String, String, i64)> {
    let segments = path.segments.iter();
    segments
        .map(|one| {
            (
                one.process.clone(),
                one.function.clone(),
                one.time.length_ns() / UNIT,
            )
        })
        .collect()
}

fn part(process: &str, function: &str, ns: i64) -> (String, String, i64) {
    (process.to_owned(), function.to_owned(), ns)
}

#[test]
fn the_path_leads_through_the_process_that_is_waited_for() {
    let timeline = timeline(&[
        &[
            (10, true, "prepare", None),
            (70, false, "collect", Some(2)),
            (80, true, "print", None),
        ],
        &[(10, false, "serve", Some(1)), (70, true, "compute", None)],
    ]);
    let found = path_in(&timeline, 0, 80);
    let expected = [
        part("p1", "prepare", 10),
        part("p2", "compute", 60),
        part("p1", "print", 10),
    ];
    assert_eq!(told(&found), expected);
    let longest = found.parts.first().unwrap();
    assert_eq!(
        (longest.function.as_str(), longest.percent),
        ("compute", 75.0)
    );
}

#[test]
fn work_beside_the_path_is_not_on_it() {
    // Process 2 computes from the beginning; the work of process 1 until 30 delays nothing.
    let timeline = timeline(&[
        &[(30, true, "other", None), (60, false, "collect", Some(2))],
        &[(60, true, "compute", None)],
    ]);
    assert_eq!(
        told(&path_in(&timeline, 0, 60)),
        [part("p2", "compute", 60)]
    );
}

#[test]
fn a_wait_for_time_is_on_the_path() {
    let timeline = timeline(&[
        &[(5, true, "send", None), (50, false, "collect", Some(2))],
        &[(5, false, "serve", Some(1)), (50, false, "pause", None)],
    ]);
    let found = path_in(&timeline, 0, 50);
    assert_eq!(
        told(&found),
        [part("p1", "send", 5), part("p2", "pause", 45)]
    );
    assert_eq!(found.segments[1].state, PathState::Waits);
}

#[test]
fn processes_that_wait_for_each_other_end_the_search() {
    let timeline = timeline(&[
        &[(40, false, "lock", Some(2))],
        &[(40, false, "read", Some(1))],
    ]);
    let found = path_in(&timeline, 0, 40);
    assert_eq!(told(&found), [part("p2", "read", 40)]);
    assert_eq!(found.segments[0].state, PathState::WaitsMutually);
}

#[test]
fn before_a_process_begins_its_parent_is_on_the_path() {
    let mut timeline = timeline(&[
        &[(20, true, "prepare", None), (60, false, "wait", Some(2))],
        &[(60, true, "compute", None)],
    ]);
    let child = &mut timeline.processes[1].threads[0].pieces[0];
    child.time.start_ns = 25 * UNIT;
    let ran = child.time.length_ns();
    (child.weight_ns, child.running_ns) = (ran, ran);
    let found = path_in(&timeline, 0, 60);
    let expected = [
        part("p1", "prepare", 20),
        part("p1", "wait", 5),
        part("p2", "compute", 35),
    ];
    let all: Vec<_> = told(&found);
    assert_eq!(all.last(), expected.last());
    assert_eq!(all.first(), expected.first());
    assert_eq!(all.iter().map(|(_, _, ns)| ns).sum::<i64>(), 60);
}

#[test]
fn of_several_children_the_one_that_has_ended_at_the_end_of_the_wait_is_on_the_path() {
    // Process 1 waits for any child: for 3 and then for 4, while 2 sleeps in the background.
    let mut timeline = timeline(&[
        &[(10, false, "wait", None), (20, false, "wait", None)],
        &[(40, false, "sleep", None)],
        &[(10, true, "first", None)],
        &[(20, true, "second", None)],
    ]);
    timeline.processes[3].threads[0].pieces[0].time.start_ns = 10 * UNIT;
    for (piece, children) in [(0, vec![2, 3]), (1, vec![2, 4])] {
        let child = |number| Numbered {
            name: format!("p{number}"),
            number,
        };
        let label = timeline.places.label_id(WaitLabel {
            whom: Awaited::Processes(children.into_iter().map(child).collect()),
            kind: "process".to_owned(),
        });
        timeline.processes[0].threads[0].pieces[piece].place.label = Some(label);
    }
    let path = path_in(&timeline, 0, 20);
    let segment = |process: &str, function: &str| (process.to_owned(), function.to_owned(), 10);
    assert_eq!(
        told(&path),
        [segment("p3", "first"), segment("p4", "second")]
    );
}

fn rows() -> impl Strategy<Value = Vec<(i64, bool, usize, Option<u32>)>> {
    let row = (
        1..30_i64,
        any::<bool>(),
        0..3_usize,
        prop::option::of(1..5_u32),
    );
    prop::collection::vec(row, 0..12)
}

proptest! {
    #[test]
    fn segments_follow_each_other_and_sum_to_the_wall_time(
        processes in prop::collection::vec(rows(), 1..4),
        start in 0..50_i64,
        length in 1..200_i64,
    ) {
        let functions = ["a", "b", "c"];
        let all: Vec<Vec<Row>> = processes
            .iter()
            .map(|rows| {
                let mut end = 0;
                rows.iter()
                    .map(|(length, runs, function, awaited)| {
                        end += length;
                        (end, *runs, functions[*function], *awaited)
                    })
                    .collect()
            })
            .collect();
        let slices: Vec<&[Row]> = all.iter().map(Vec::as_slice).collect();
        let found = path(&in_units(1, &slices), start, start + length);
        let mut at = start;
        for segment in &found.segments {
            prop_assert_eq!(segment.time.start_ns, at);
            prop_assert!(segment.time.end_ns > at);
            at = segment.time.end_ns;
        }
        prop_assert_eq!(at, start + length);
        let sum: f64 = found.parts.iter().map(|part| part.ms).sum();
        prop_assert!((sum - length as f64 / 1e6).abs() < 1e-9);
    }
}
