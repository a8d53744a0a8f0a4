//! Tests of the answer to a request.

use profiler_core::ids::PoolId;
use profiler_http::Query;
use serde_json::Value;

use super::*;
use crate::process::test_process::{TestProcess, sample};
use crate::sample_bytes::TestSample;

const KEY: PoolId = PoolId::new(5);
const SECOND: i64 = 1_000_000_000;
const S: u64 = 1_000_000_000;

fn ask(samples: &Samples, query: &str, runs: Option<&RunRanges>) -> Value {
    let selection = Selection::parse(&Query::parse(query));
    serde_json::to_value(answer(samples, &selection, runs)).unwrap()
}

/// Two threads that run until the tenth second, and a third that waits from the ninth second on.
fn three_threads() -> TestProcess {
    let mut process = TestProcess::new(KEY);
    process.now_ns = 10 * SECOND;
    process.take(10 * S, sample(7, &[1, 2], S));
    process.take(10 * S, sample(8, &[1, 3], S / 2));
    let waits = TestSample {
        waits: true,
        ..sample(9, &[4], 0)
    };
    process.take(9 * S, waits);
    process.count_waits(10 * SECOND);
    process
}

#[test]
fn the_rows_with_the_largest_values_are_kept_in_their_order() {
    let rows = vec![5, 1, 9, 9, 2, 7];
    assert_eq!(largest(rows.clone(), 3, |row| *row), [9, 9, 7]);
    assert_eq!(largest(rows.clone(), 10, |row| *row), rows);
    assert_eq!(largest(vec![4, 4, 4], 2, |row| *row), [4, 4]);
    assert_eq!(largest(vec![4, 4, 9], 2, |row| *row), [4, 9]);
    let named = vec![("a", 4), ("b", 4), ("c", 9), ("d", 4)];
    assert_eq!(
        largest(named, 3, |row| row.1),
        [("a", 4), ("b", 4), ("c", 9)]
    );
}

#[test]
fn waits_that_last_are_in_the_graph_of_a_group() {
    let samples = three_threads().into_samples();
    let runs = RunRanges::of_one(KEY, (9 * SECOND, 10 * SECOND));
    let found = ask(&samples, "group=plugin:x&time=off-cpu", Some(&runs));
    assert_eq!(found["total_ns"], S);
    assert_eq!(found["functions"][0]["name"], "0x4");
    let both = ask(&samples, "group=plugin:x&time=all", Some(&runs));
    assert_eq!(both["total_ns"], 2 * S + S / 2);
}

#[test]
fn a_thread_can_be_selected_in_the_graph_of_a_group() {
    let samples = three_threads().into_samples();
    let runs = RunRanges::of_one(KEY, (9 * SECOND, 10 * SECOND));
    let key = format!("{:032x}", KEY.get());
    let query = format!("group=plugin:x&time=all&process={key}");
    let found = ask(&samples, &format!("{query}&thread=8"), Some(&runs));
    assert_eq!(
        (&found["total_ns"], &found["on_cpu_ns"]),
        (&(S / 2).into(), &(S / 2).into())
    );
    let names: Vec<_> = found["functions"].as_array().unwrap().iter().collect();
    assert!(
        names.iter().all(|function| function["name"] != "0x2"),
        "{names:?}"
    );
    let tids: Vec<_> = found["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["tid"])
        .collect();
    assert_eq!(tids, [7, 8, 9], "the other threads can be chosen next");
    assert_eq!(
        ask(&samples, &format!("{query}&thread=6"), Some(&runs))["total_ns"],
        0
    );
}

#[test]
fn functions_with_the_same_time_are_in_the_order_of_their_names() {
    let mut process = TestProcess::new(KEY);
    for number in [5, 3, 4] {
        process.take(0, sample(1, &[number], 10));
    }
    let samples = process.into_samples();
    for (order, expected) in [
        ("desc", ["0x3", "0x4", "0x5"]),
        ("asc", ["0x3", "0x4", "0x5"]),
    ] {
        let found = ask(
            &samples,
            &format!("window=start&sort=self&order={order}"),
            None,
        );
        let rows = found["table"]["rows"].as_array().unwrap().iter();
        let place = |row: &Value| row["function"].as_u64().unwrap() as usize;
        let names: Vec<_> = rows
            .map(|row| &found["functions"][place(row)]["name"])
            .collect();
        assert_eq!(names, expected, "{order}");
    }
}

#[test]
fn a_path_of_ids_leads_to_a_node_in_an_upright_and_in_an_inverted_tree() {
    let samples = three_threads().into_samples();
    let all = ask(&samples, "window=start", None);
    let id = |name: &str| {
        let functions = all["functions"].as_array().unwrap();
        let function = functions.iter().find(|one| one["name"] == name);
        function.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let (main, inner) = (id("0x1"), id("0x2"));
    let zoomed = ask(&samples, &format!("window=start&path={main}.{inner}"), None);
    assert_eq!(zoomed["nodes"]["total_ns"], Value::from(vec![S]));
    assert_eq!(
        (&zoomed["is_path_empty"], &zoomed["path"]),
        (&false.into(), &vec![0].into())
    );
    let query = format!("window=start&inverted=1&path={inner}.{main}");
    assert_eq!(
        ask(&samples, &query, None)["nodes"]["total_ns"],
        Value::from(vec![S])
    );
    let unknown = ask(&samples, "window=start&path=7", None);
    assert_eq!(unknown["is_path_empty"], true);
}

#[test]
fn a_window_is_read_before_the_time_since_the_start_is() {
    let mut samples = three_threads().into_samples();
    let is_read = |samples: &Samples, window: &str| {
        let answer = ask(samples, &format!("window={window}"), None);
        answer["is_window_read"] == true
    };
    assert!(is_read(&samples, "start"));
    // Of another process, older samples are still to be read.
    samples.is_behind = true;
    assert!(is_read(&samples, "10s") && is_read(&samples, "60s"));
    assert!(!is_read(&samples, "start"));
}

#[test]
fn an_answer_without_a_reader_has_its_reason_and_no_numbers() {
    let mut samples = three_threads().into_samples();
    samples.stopped.names = Some("no names".to_owned());
    let found = ask(&samples, "window=start", None);
    assert_eq!(found["trouble"], Value::from(vec!["no names"]));
    assert_eq!(
        found["total_ns"],
        S + S / 2,
        "names are not needed for numbers"
    );
    samples.stopped.reader = Some("the reader has stopped: x".to_owned());
    let found = ask(&samples, "window=start", None);
    assert_eq!(found["trouble"][0], "the reader has stopped: x");
    assert_eq!(
        (&found["total_ns"], &found["on_cpu_ns"]),
        (&0.into(), &0.into())
    );
    assert_eq!(found["table"]["rows"], Value::from(Vec::<u8>::new()));
}
