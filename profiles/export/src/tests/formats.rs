//! Tests of the formats speedscope, trace events, folded stacks and pprof.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde_json::json;
use test_support::protobuf::{self, Field};

use super::fixture::{self, SAMPLES};
use super::*;

#[test]
fn x10_speedscope_has_a_profile_per_thread_named_process_and_thread() {
    let (directory, _) = exported(&fixture::processed(), Target::Speedscope, TimeKind::Cpu);
    let file = json(&directory.path().join("out"));
    let profiles = file["profiles"].as_array().unwrap();
    let names: Vec<&str> = profiles
        .iter()
        .map(|profile| profile["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["app / main", "child / main", "child / io"]);
    let frames = file["shared"]["frames"].as_array().unwrap();
    assert!(
        frames.contains(&json!({"name": "new", "file": "src/b.rs", "line": 5})),
        "{frames:?}"
    );
    for profile in profiles {
        let samples = profile["samples"].as_array().unwrap();
        let weights = profile["weights"].as_array().unwrap();
        assert_eq!(samples.len(), weights.len());
        let known = |n: &Value| (n.as_u64().unwrap() as usize) < frames.len();
        assert!(
            samples
                .iter()
                .all(|stack| stack.as_array().unwrap().iter().all(known))
        );
        let sum: u64 = weights.iter().map(|weight| weight.as_u64().unwrap()).sum();
        let length =
            profile["endValue"].as_i64().unwrap() - profile["startValue"].as_i64().unwrap();
        assert_eq!(sum as i64, length, "the weights add up to the time");
    }
    let idle = |(stack, _): &(&Value, &Value)| stack.as_array().unwrap().is_empty();
    let main = profiles[0]["samples"]
        .as_array()
        .unwrap()
        .iter()
        .zip(profiles[0]["weights"].as_array().unwrap());
    let idle_ns: u64 = main
        .filter(idle)
        .map(|(_, weight)| weight.as_u64().unwrap())
        .sum();
    // The processor time of the first sample has no known start.
    assert_eq!(
        idle_ns,
        (SAMPLES as u64 / 5 + 1) * 1_000_000,
        "the waits are gaps"
    );
}

fn events(text: &Value) -> Vec<Value> {
    let (directory, _) = exported(text, Target::ChromeTrace, TimeKind::Wall);
    json(&directory.path().join("out"))["traceEvents"]
        .as_array()
        .unwrap()
        .clone()
}

/// Fails as a file on a full disk does.
struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_reported_as_such() {
    let mut profile = fixture::processed();
    // More than the writer holds back, so that it fails while threads are written.
    profile["threads"][0]["name"] = "n".repeat(1 << 17).into();
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("profile.json");
    std::fs::write(&from, profile.to_string()).unwrap();
    let options = ExportOptions::to(Target::ChromeTrace);
    let recording = Recording::open(
        &from,
        &options,
        &FleetLabels::default(),
        WorkListener::default(),
    )
    .unwrap();
    let error = chrome_trace::write(&recording, FullDisk).unwrap_err();
    let is_storage_full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
    assert!(
        matches!(&error, ExportError::Write(error) if is_storage_full(error)),
        "{error}"
    );
}

#[test]
fn x1_trace_events_have_all_processes_threads_samples_markers_and_flows() {
    let events = events(&fixture::processed());
    let of = |phase: &str| {
        events
            .iter()
            .filter(|event| event["ph"] == phase)
            .collect::<Vec<_>>()
    };
    let names: Vec<_> = of("M")
        .iter()
        .map(|e| {
            (
                e["name"].clone(),
                e["pid"].clone(),
                e["args"]["name"].clone(),
            )
        })
        .collect();
    let second = 12 + (1 << 24);
    for row in [
        ("process_name", 12, "app"),
        ("thread_name", 12, "main"),
        ("process_name", second, "child"),
        ("thread_name", second, "io"),
    ] {
        assert!(
            names.contains(&(json!(row.0), json!(row.1), json!(row.2))),
            "{row:?}"
        );
    }
    let chunks: Vec<_> = of("P")
        .into_iter()
        .filter(|event| event["name"] == "ProfileChunk")
        .collect();
    let samples = |event: &&Value| {
        event["args"]["data"]["cpuProfile"]["samples"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(chunks.iter().map(samples).sum::<usize>(), SAMPLES + 6);
    let spans = [of("X"), of("b"), of("e"), of("i")].map(|events| events.len());
    assert_eq!(
        spans,
        [1, 1, 1, 1],
        "of two overlapping spans the second is a pair; one marker is an instant"
    );
    let span = of("X")[0];
    let point = of("i")[0];
    assert_eq!(
        (&span["ts"], &span["dur"]),
        (&json!(5_001_500), &json!(2000))
    );
    assert_eq!(
        span["args"]["data"],
        json!({"type": "Req", "url": "/index", "flow": "ab"})
    );
    assert_eq!(
        (&span["bind_id"], &span["flow_out"]),
        (&json!("0xab"), &json!(true))
    );
    assert_eq!(
        (&point["bind_id"], &point["flow_in"], &point["flow_out"]),
        (&json!("0xab"), &json!(true), &json!(false))
    );
    assert_eq!(
        point["args"]["data"]["cause"],
        Value::Null,
        "a stack without its tables is left out"
    );
}

#[test]
fn x1_overlapping_spans_of_one_name_are_paired_by_span_number() {
    let mut text = fixture::processed();
    let data = |kind: &str, number: u64| json!({"type": kind, "span": number});
    text["threads"][0]["markers"] = json!({
        "length": 8, "name": [5, 5, 5, 5, 6, 6, 6, 6], "category": [0, 0, 0, 0, 0, 0, 0, 0],
        "startTime": [0, 5, null, null, 0, 5, null, null], "endTime": [null, null, 10, 20, null, null, 10, 20],
        "phase": [2, 2, 3, 3, 2, 2, 3, 3],
        "data": [data("Span", 1), data("Span", 2), data("Span", 1), data("Span", 2),
                 null, data("Other", 1), data("Other", 2), null],
    });
    let all = events(&text);
    let ids = |name: &str| -> Vec<Value> {
        all.iter()
            .filter(|event| event["name"] == name)
            .map(|event| event["id"].clone())
            .collect()
    };
    let spans = ids("request");
    let others = ids("done");
    assert_eq!(spans.len(), 4);
    assert_eq!(spans[..2], spans[2..], "equal span numbers are one pair");
    assert_ne!(spans[0], spans[1]);
    assert!(
        others.len() == 4
            && others
                .iter()
                .all(|id| *id == others[0] && !spans.contains(id)),
        "{others:?}"
    );
}

#[test]
fn times_of_a_child_are_on_the_parents_clock() {
    let events = events(&fixture::gecko());
    let starts: Vec<f64> = events
        .iter()
        .filter(|e| e["ph"] == "X")
        .map(|e| e["ts"].as_f64().unwrap())
        .collect();
    assert_eq!(
        starts,
        [102_000.0, 1500.0],
        "the child began 100.5 ms later"
    );
}

fn folded(text: &Value, time: TimeKind) -> BTreeMap<String, u64> {
    let (directory, _) = exported(text, Target::Folded, time);
    let lines = std::fs::read_to_string(directory.path().join("out")).unwrap();
    let row = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), count.parse().unwrap())
    };
    lines.lines().map(row).collect()
}

#[test]
fn folded_stacks_have_the_times_of_both_forms() {
    let us = SAMPLES as u64 * 100;
    let mut text = fixture::gecko();
    text["threads"][0]["stringTable"][3] = json!("wa;it\n");
    let expected = [
        ("app;main;app::main", us),
        ("app;main;app::main;new a", 4 * us),
        ("app;main;app::main;new b;new b", 3 * us),
        ("app;main;app::main;wa:it ", 2 * us),
    ];
    let mut lines = folded(&text, TimeKind::Wall);
    lines.retain(|stack, _| stack.starts_with("app"));
    assert_eq!(
        lines,
        expected.map(|(stack, us)| (stack.to_owned(), us)).into()
    );
    let idle = folded(&fixture::processed(), TimeKind::Cpu)["app;main;(idle)"];
    // The processor time of the first sample has no known start.
    assert_eq!(idle, 2 * us + 1000);
}

/// Parses the fields of a message: number, and varint or bytes.
pub(super) fn fields(bytes: &[u8]) -> Vec<(u64, Result<u64, Vec<u8>>)> {
    let field = |field| match field {
        Field::Number(number, value) => (number, Ok(value)),
        Field::Bytes(number, bytes) => (number, Err(bytes.to_vec())),
    };
    protobuf::fields(bytes).into_iter().map(field).collect()
}

#[test]
fn x1_pprof_has_samples_times_and_labels() {
    let (directory, _) = exported(&fixture::processed(), Target::Pprof, TimeKind::Cpu);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(directory.path().join("out")).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    let all = fields(&bytes);
    let texts: Vec<String> = all
        .iter()
        .filter(|(field, _)| *field == 6)
        .map(|(_, text)| String::from_utf8(text.clone().unwrap_err()).unwrap())
        .collect();
    assert_eq!(texts[0], "");
    let text_at = |n: u64| texts[n as usize].as_str();
    let mut sums: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for (_, sample) in all.iter().filter(|(field, _)| *field == 2) {
        let mut values = Vec::new();
        let mut labels = BTreeMap::new();
        for (field, value) in fields(sample.as_ref().unwrap_err()) {
            match (field, value) {
                (2, Err(bytes)) => values = protobuf::packed(&bytes),
                (3, Err(label)) => {
                    let label: BTreeMap<u64, u64> = fields(&label)
                        .into_iter()
                        .map(|(f, v)| (f, v.unwrap()))
                        .collect();
                    let shown = label
                        .get(&2)
                        .map_or_else(|| label[&3].to_string(), |text| text_at(*text).to_owned());
                    labels.insert(text_at(label[&1]).to_owned(), shown);
                }
                _ => {}
            }
        }
        let key = format!(
            "{} {} {} {}",
            labels["process"], labels["pid"], labels["thread"], labels["tid"]
        );
        let sum = sums.entry(key).or_default();
        sum.iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
    }
    let samples = SAMPLES as u64;
    assert_eq!(
        sums["app 12 main 12"],
        [
            samples,
            samples * 1_000_000,
            (samples * 8 / 10 - 1) * 1_000_000
        ]
    );
    assert_eq!(sums["child 12.1 io 13"], [3, 3_001_000, 0]);
    assert!(texts.iter().any(|text| text == "src/b.rs"));
}
