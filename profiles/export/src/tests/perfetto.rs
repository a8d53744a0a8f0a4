//! Tests of Perfetto's format: whole traces as text. Perfetto's own engine and its descriptors read
//! traces in `integration-tests`.

use serde_json::json;

use super::perfetto_text::text;
use super::*;

/// A trace of a profile.
fn trace(profile: &Value) -> String {
    let (directory, _) = exported(profile, Target::Perfetto, TimeKind::Cpu);
    text(&std::fs::read(directory.path().join("out")).unwrap())
}

/// The profile of the other tests with few samples.
fn processed() -> Value {
    let mut profile = fixture::processed();
    profile["threads"][0]["samples"] = json!({
        "length": 4, "weight": null, "weightType": "samples", "timeDeltas": [1, 1, 1, 1],
        "stack": [1, 3, 4, null], "threadCPUDelta": [0, 1_000_000, 0, 250_000],
    });
    profile
}

/// The packets that contain a text.
fn with<'t>(trace: &'t str, part: &str) -> Vec<&'t str> {
    trace.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn x11_processes_threads_samples_and_markers_are_in_a_trace() {
    let mut profile = processed();
    profile["libs"] = json!([{"name": "app", "path": "/usr/bin/app", "codeId": "0aff"}]);
    insta::assert_snapshot!(trace(&profile));
}

#[test]
fn x11_counters_have_units_and_their_sums() {
    let mut profile = processed();
    profile["threads"] = json!([]);
    let counter = |name: &str, category: &str, count: Value, number: Value| {
        json!({"name": name, "category": category, "pid": "12", "description": "",
               "samples": {"timeDeltas": [1, 1.5], "count": count, "number": number}})
    };
    profile["counters"] = json!([
        counter("malloc", "Memory", json!([4096, -96]), json!([1, 7])),
        counter("tenant", "Group", json!([0.25, 0.000001]), json!([1, 1])),
        counter("processCPU", "CPU", json!([10, 20]), json!([1, 1])),
        counter("load", "", json!([0.5, 1e300]), json!([1, 1])),
    ]);
    insta::assert_snapshot!(trace(&profile));
}

#[test]
fn x11_the_log_gives_the_tree_of_processes_the_verdicts_and_the_losses() {
    let mut profile = processed();
    profile["threads"] = json!([]);
    let row = |name: &str, pid: u64, verdict: &str, lived: [Option<f64>; 2]| {
        json!({"name": name, "pid": pid, "parentPid": 12, "verdict": verdict,
               "present": !verdict.starts_with("missing"), "began_TSms": lived[0],
               "ended_TSms": lived[1], "threads": 1, "recorded": 9, "delivered": 5, "evicted": 1,
               "unfinished": 1, "dropped": {"full": 2}})
    };
    let mut root = row("app", 12, "complete", [None, None]);
    root["parentPid"] = json!(3);
    let rows = [
        root,
        row(
            "env",
            20,
            "missing: it recorded nothing",
            [Some(1.0), Some(2.0)],
        ),
        row("sh", 20, "complete", [Some(1.5), Some(4.0)]),
        row(
            "server",
            20,
            "recovered: crashed with signal 9",
            [Some(4.0), Some(6.0)],
        ),
    ];
    profile["meta"]["arguments"] = json!("app --fast");
    profile["profileGatheringLog"] = json!({"12": {"processes": rows}});
    let trace = trace(&profile);
    insta::assert_snapshot!(trace);
    let late = json!({"name": "late", "pid": 40, "parentPid": 20, "verdict": "complete", "present": true,
                      "began_TSms": 5, "threads": 0, "recorded": 0, "delivered": 0, "evicted": 0,
                      "unfinished": 0, "dropped": {}});
    profile["profileGatheringLog"]["12"]["processes"]
        .as_array_mut()
        .unwrap()
        .push(late);
    let trace = self::trace(&profile);
    let number = with(&trace, r#"cmdline: "server""#)[0];
    let number = number
        .split("pid: ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert_ne!(number, "20", "the second program has a number of its own");
    let late = with(&trace, r#"cmdline: "late""#)[0];
    assert!(
        late.contains(&format!("ppid: {number} ")),
        "its parent is the program that ran: {late}"
    );
}

#[test]
fn x11_the_threads_of_a_second_program_belong_to_the_process_of_the_log() {
    let mut profile = processed();
    let row = |began: f64| {
        json!({"name": "in the log", "pid": 12, "verdict": "complete", "present": true, "began_TSms": began,
               "threads": 1, "recorded": 0, "delivered": 0, "evicted": 0, "unfinished": 0, "dropped": {}})
    };
    profile["profileGatheringLog"] = json!({"12": {"processes": [row(0.0), row(1.0)]}});
    let trace = trace(&profile);
    assert_eq!(with(&trace, "process_tree").len(), 2, "no further process");
    assert_eq!(with(&trace, "thread_name").len(), 3);
}

#[test]
fn x11_processes_of_two_hosts_with_one_number_are_two_processes() {
    let mut profile = processed();
    let row = |host: &str, pid: u64, parent: u64, verdict: &str, began: f64| {
        json!({"name": format!("{verdict} ({host})"), "host": host, "pid": pid, "parentPid": parent,
               "present": verdict != "missing", "verdict": verdict, "began_TSms": began, "threads": 1,
               "recorded": 0, "delivered": 0, "evicted": 0, "unfinished": 0, "dropped": {}})
    };
    let [first, second] = ["web.example:12", "db:12"];
    profile["threads"][0]["pid"] = json!(first);
    profile["threads"][1]["pid"] = json!(second);
    profile["threads"][2]["pid"] = json!(second);
    profile["profileGatheringLog"] = json!({
        first: {"processes": [row("web.example", 12, 1, "complete", 0.0)]},
        second: {"processes": [row("db", 12, 1, "recovered", 1.0), row("db", 13, 12, "missing", 2.0)]},
    });
    let trace = trace(&profile);
    assert_eq!(with(&trace, "process_tree").len(), 3, "{trace}");
    let name = |name: &str| with(&trace, &format!("cmdline: \"{name}\""))[0].to_owned();
    let number = |line: &str| {
        let number = line.split(" pid: ").nth(1).unwrap();
        number.split(' ').next().unwrap().to_owned()
    };
    let [web, db] = ["complete (web.example)", "recovered (db)"].map(|of| number(&name(of)));
    assert_ne!(web, db);
    assert!(name("missing (db)").contains(&format!("ppid: {db} ")));
    let threads = with(&trace, "thread_name");
    let of = |pid: &str| {
        let pid = format!("pid: {pid} ");
        threads.iter().filter(|line| line.contains(&pid)).count()
    };
    assert!(of(&web) >= 1 && of(&db) >= 1 && of(&web) + of(&db) == threads.len());
}

#[test]
fn x11_overlapping_and_open_spans_have_tracks_of_their_own() {
    let mut profile = processed();
    let data = |span: u64| json!({"type": "Span", "span": span});
    profile["threads"] = json!([profile["threads"][0]]);
    profile["threads"][0]["samples"] = json!({"length": 0, "stack": [], "timeDeltas": []});
    profile["threads"][0]["markers"] = json!({
        "length": 9, "category": [0, 0, 0, 0, 0, 0, 0, 0, 0], "name": [5, 5, 5, 6, 5, 5, 5, 6, 6],
        "startTime": [0, 1, 5, 7, 2, 3, null, 8, null], "endTime": [4, 6, 9, 7, null, null, 20, null, 1],
        "phase": [1, 1, 1, 1, 2, 2, 3, 2, 3],
        "data": [null, null, null, null, data(1), data(2), data(1), null, null],
    });
    insta::assert_snapshot!(trace(&profile));
}

#[test]
fn x11_each_thread_with_tables_of_its_own_has_interned_data_of_its_own() {
    let mut profile = fixture::gecko();
    for thread in ["/threads/0", "/processes/0/threads/0"] {
        let thread = profile.pointer_mut(thread).unwrap();
        thread["samples"]["data"] = json!([[3, 1.0], [4, 2.0]]);
    }
    profile["processes"][0]["counters"] = json!([{"name": "malloc", "category": "Memory",
        "samples": {"schema": {"time": 0, "count": 1, "number": 2}, "data": [[1, 5, 1]]}}]);
    let trace = trace(&profile);
    let cleared = with(&trace, "sequence_flags: 1 ").len();
    assert_eq!(cleared, 2, "the beginning, and the second thread");
    insta::assert_snapshot!(trace);
}

#[test]
fn x11_fields_keep_their_types() {
    let mut profile = processed();
    profile["threads"] = json!([profile["threads"][0]]);
    profile["threads"][0]["samples"] = json!({"length": 0, "stack": [], "timeDeltas": []});
    profile["threads"][0]["markers"]["data"][0] = json!({
        "type": "Other", "whole": -3, "large": u64::MAX, "part": 0.5, "text": "7", "escaped": "a\"\u{e9}\\",
        "yes": true, "no": null, "list": [1, "x"], "object": {"in": 1.5},
    });
    insta::assert_snapshot!(with(&trace(&profile), "Other").join("\n"));
}
