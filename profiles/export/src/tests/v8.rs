//! Tests of `.cpuprofile`: the rules that viewers rely on, and the times.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::json;

use super::fixture::{self, NAMES, SAMPLES, cpu, stack};
use super::*;

/// A file that satisfies all rules, with the self time of each node as viewers compute it: a sample
/// lasts until the next one.
struct Checked {
    profile: Value,
    /// By the path of functions with their files.
    self_us: BTreeMap<String, i64>,
}

fn int(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("not a whole number: {value}"))
}

fn array(value: &Value) -> &Vec<Value> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("not a list: {value}"))
}

fn check(path: &Path) -> Checked {
    assert_eq!(path.extension().unwrap(), "cpuprofile");
    let profile = json(path);
    let nodes = array(&profile["nodes"]);
    let by_id: HashMap<i64, &Value> = nodes.iter().map(|node| (int(&node["id"]), node)).collect();
    assert_eq!(by_id.len(), nodes.len(), "ids are unique");
    assert_eq!(nodes[0]["callFrame"]["functionName"], "(root)");
    let mut callers = HashMap::new();
    for node in nodes {
        for child in array(&node["children"]) {
            assert!(by_id.contains_key(&int(child)), "every child exists");
            assert_eq!(
                callers.insert(int(child), int(&node["id"])),
                None,
                "every node has at most one caller"
            );
        }
        assert!(node["callFrame"]["scriptId"].is_string() && node["callFrame"]["url"].is_string());
        assert!(int(&node["callFrame"]["lineNumber"]) >= -1);
        let ticks = node["positionTicks"].as_array().into_iter().flatten();
        assert!(
            ticks.map(|ticks| int(&ticks["line"])).all(|line| line >= 1),
            "lines start at 1"
        );
    }
    let path_of = |id: i64| {
        let ids = std::iter::successors(Some(id), |id| callers.get(id).copied());
        let mut names: Vec<String> = ids
            .map(|id| {
                format!(
                    "{}@{}",
                    by_id[&id]["callFrame"]["functionName"].as_str().unwrap(),
                    by_id[&id]["callFrame"]["url"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(names.pop().unwrap(), "(root)@", "reachable from the root");
        names.reverse();
        names.join("/")
    };
    let paths: HashMap<i64, String> = by_id.keys().map(|id| (*id, path_of(*id))).collect();
    assert_eq!(
        paths.values().collect::<HashSet<_>>().len(),
        paths.len(),
        "every path has one node"
    );
    let samples = array(&profile["samples"]);
    let deltas = array(&profile["timeDeltas"]);
    assert_eq!(samples.len(), deltas.len());
    assert!(
        deltas.iter().all(|delta| int(delta) >= 0),
        "times never decrease"
    );
    let start = int(&profile["startTime"]);
    let end = int(&profile["endTime"]);
    let sum: i64 = deltas.iter().map(int).sum();
    assert!(end >= start + sum);
    let mut hits: HashMap<i64, i64> = HashMap::new();
    let mut self_us = BTreeMap::new();
    let ends = deltas.iter().skip(1).map(int).chain([end - start - sum]);
    for (sample, length) in samples.iter().zip(ends) {
        *hits.entry(int(sample)).or_default() += 1;
        *self_us.entry(paths[&int(sample)].clone()).or_default() += length;
    }
    for (id, node) in &by_id {
        assert_eq!(
            int(&node["hitCount"]),
            hits.get(id).copied().unwrap_or(0),
            "hitCount is the number of samples"
        );
    }
    Checked { profile, self_us }
}

#[test]
fn x1_every_rule_of_the_format_holds_for_every_thread() {
    for text in [fixture::processed(), fixture::gecko()] {
        for time in [TimeKind::Cpu, TimeKind::Wall] {
            let (directory, done) = exported(&text, Target::CpuProfile, time);
            let index = json(&directory.path().join("out/index.json"));
            let listed = array(&index["profiles"]);
            assert_eq!(listed.len() + 1, done.files.len());
            for (row, file) in listed.iter().zip(&done.files[1..]) {
                assert_eq!(row["file"], file.file_name().unwrap().to_str().unwrap());
                let checked = check(file);
                assert_eq!(
                    (&row["startTime"], &row["endTime"]),
                    (&checked.profile["startTime"], &checked.profile["endTime"])
                );
                assert_eq!(row["samples"], array(&checked.profile["samples"]).len());
                let idle = checked.self_us.get("(idle)@").copied().unwrap_or(0);
                assert!((int(&row["idleTime"]) - idle).abs() <= 1);
            }
            assert!(
                listed
                    .iter()
                    .any(|row| row["process"] == "app" && row["thread"] == "main")
            );
        }
    }
}

#[test]
fn x2_recursion_is_kept_and_a_tree_of_100_000_nodes_is_written() {
    let (_directory, done) = exported(&fixture::processed(), Target::CpuProfile, TimeKind::Cpu);
    let recursion = "app::main@app/new@src/b.rs/new@src/b.rs";
    assert!(check(&done.files[1]).self_us.contains_key(recursion));
    let mut large = fixture::processed();
    let frames = deep_and_wide(&mut large);
    let (_directory, done) = exported(&large, Target::CpuProfile, TimeKind::Wall);
    let written = json(&done.files[1]);
    let nodes = array(&written["nodes"]);
    assert_eq!(
        nodes.len(),
        1 + frames,
        "the root, and a node for each path"
    );
    let called = nodes
        .iter()
        .map(|node| node["children"].as_array().map_or(0, Vec::len))
        .sum::<usize>();
    assert_eq!(called, frames, "every node except the root has one caller");
}

/// Replaces the stacks by 200 stacks of 500 functions, each with a different outermost function.
/// Returns the number of nodes.
fn deep_and_wide(text: &mut Value) -> usize {
    let depth = 500;
    let stacks = 200;
    let shared = &mut text["shared"];
    let rows = depth * stacks;
    let all = |of: &dyn Fn(usize) -> Value| (0..stacks).map(of).collect::<Vec<Value>>();
    shared["funcTable"] = json!({
        "length": stacks, "name": all(&|n| json!(n)), "resource": all(&|_| json!(-1)), "source": all(&|_| Value::Null),
        "lineNumber": all(&|_| Value::Null), "columnNumber": all(&|_| Value::Null),
    });
    shared["frameTable"] = json!({
        "length": stacks, "func": all(&|n| json!(n)), "line": all(&|_| Value::Null), "address": all(&|_| json!(-1)),
    });
    shared["stringArray"] = all(&|n| json!(format!("f{n}"))).into();
    shared["stackTable"] = json!({
        "length": rows,
        "frame": (0..rows).map(|n| if n % depth == 0 { n / depth } else { n % 4 }).collect::<Vec<_>>(),
        "prefix": (0..rows).map(|n| n.checked_sub(1).filter(|_| n % depth > 0)).collect::<Vec<_>>(),
    });
    let samples = &mut text["threads"][0]["samples"];
    for (number, stack) in samples["stack"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        *stack = json!((number % stacks + 1) * depth - 1);
    }
    rows
}

#[test]
fn x3_self_and_idle_times_equal_those_of_the_recording() {
    let text = fixture::processed();
    for time in [TimeKind::Cpu, TimeKind::Wall] {
        let (_directory, done) = exported(&text, Target::CpuProfile, time);
        let checked = check(&done.files[1]);
        let length = int(&checked.profile["endTime"]) - int(&checked.profile["startTime"]);
        assert_eq!(
            (checked.self_us.values().sum::<i64>(), length),
            (length, SAMPLES as i64 * 1000)
        );
        // The totals by function, as in `profiler info`.
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in 0..SAMPLES {
            let ns = if time == TimeKind::Cpu {
                cpu(sample)
            } else {
                1_000_000
            };
            *expected.entry(NAMES[stack(sample)]).or_default() += ns;
        }
        for (name, ns) in expected {
            let is_of = |path: &str| last(path).split('@').next() == Some(name);
            let own: i64 = checked
                .self_us
                .iter()
                .filter(|(path, _)| is_of(path))
                .map(|(_, us)| us)
                .sum();
            let expected_us = ns as f64 / 1e3;
            assert!(
                (own as f64 - expected_us).abs() <= expected_us.max(1e5) / 100.0,
                "{time:?} {name}: {own} {expected_us}"
            );
        }
        let idle = checked.self_us.get("(idle)@").copied().unwrap_or(0);
        assert_eq!(
            idle > 0,
            time == TimeKind::Cpu,
            "only with processor time the waits are idle"
        );
    }
}

/// The last function of a path; file names contain slashes too.
fn last(path: &str) -> String {
    let at = path
        .rfind('@')
        .and_then(|at| path[..at].rfind('/'))
        .map_or(0, |slash| slash + 1);
    path[at..].to_owned()
}

#[test]
fn x4_scripts_are_files_lines_begin_with_0_and_hits_are_samples() {
    let (_directory, done) = exported(&fixture::processed(), Target::CpuProfile, TimeKind::Wall);
    let profile = check(&done.files[1]).profile;
    let frames: HashSet<(String, String, i64, i64)> = array(&profile["nodes"])
        .iter()
        .map(|node| &node["callFrame"])
        .filter(|frame| frame["functionName"] == "new")
        .map(|frame| {
            let text = |key: &str| frame[key].as_str().unwrap().to_owned();
            (
                text("url"),
                text("scriptId"),
                int(&frame["lineNumber"]),
                int(&frame["columnNumber"]),
            )
        })
        .collect();
    let scripts: HashSet<&str> = frames
        .iter()
        .map(|(_, script, ..)| script.as_str())
        .collect();
    assert_eq!(
        (frames.len(), scripts.len()),
        (2, 2),
        "`new` of a.rs and `new` of b.rs are different functions"
    );
    assert!(
        frames
            .iter()
            .all(|(_, _, line, column)| (*line, *column) == (4, 2)),
        "{frames:?}"
    );
    let node = |id: i64| {
        array(&profile["nodes"])
            .iter()
            .find(|node| int(&node["id"]) == id)
            .unwrap()
            .clone()
    };
    let new_a = (1..20)
        .map(node)
        .find(|node| node["callFrame"]["url"] == "src/a.rs")
        .unwrap();
    assert_eq!(
        new_a["positionTicks"],
        json!([{"line": 7, "ticks": SAMPLES * 4 / 10}])
    );
    let main = (1..20)
        .map(node)
        .find(|node| node["callFrame"]["functionName"] == "app::main")
        .unwrap();
    assert_eq!(
        (&main["callFrame"]["url"], &main["callFrame"]["lineNumber"]),
        (&json!("app"), &json!(-1))
    );
}

#[test]
fn x3_fractions_of_microseconds_are_carried_and_not_lost() {
    let (_directory, done) = exported(&fixture::processed(), Target::CpuProfile, TimeKind::Wall);
    let profile = check(&done.files[2]).profile;
    // From 499.25 ms, 2.0005 ms and 1 ms: rounding each duration would lose 1 µs.
    assert_eq!(int(&profile["endTime"]) - int(&profile["startTime"]), 3001);
    assert_eq!(int(&profile["startTime"]), 5_000_000 + 499_250);
}
