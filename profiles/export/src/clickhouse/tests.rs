//! Encodes small recordings, and compares the rows with what is known of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::FleetLabels;
use crate::bodies::EncodedBody;
use crate::tests::fixture;
use crate::{ExportOptions, Target};
use profiler_files::WorkListener;

/// The bodies that an encoder has passed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bodies(Vec<(FleetTable, Vec<u8>)>);

impl BodySink for Bodies {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        let table = body.kind.table().unwrap();
        self.0.push((table, body.bytes.to_vec()));
        Ok(())
    }
}

impl Bodies {
    fn of(profile: &Value, labels: &FleetLabels, most_bytes: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.json");
        std::fs::write(&path, profile.to_string()).unwrap();
        let options = ExportOptions::to(Target::ClickHouse).names(false);
        let recording = Recording::open(&path, &options, labels, WorkListener::default()).unwrap();
        let identity = BatchIdentity::of(recording.survey(), labels);
        let mut bodies = Self::default();
        encode(&recording, &identity, most_bytes, &mut bodies).unwrap();
        bodies
    }

    fn rows(&self, of: FleetTable) -> Vec<Value> {
        let bodies = self.0.iter().filter(|(table, _)| *table == of);
        let texts = bodies.map(|(_, bytes)| std::str::from_utf8(bytes).unwrap());
        let lines = texts.flat_map(str::lines);
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn text(&self) -> String {
        let all = self.0.iter().flat_map(|(_, bytes)| bytes.clone());
        String::from_utf8(all.collect()).unwrap()
    }
}

fn labels() -> FleetLabels {
    FleetLabels {
        service: Some("shop".to_owned()),
        version: Some("1.2".to_owned()),
        host: Some("node 7".to_owned()),
        batch: Some(3),
    }
}

/// The fixture with a log, counters and a group, and only a few samples.
fn recording() -> Value {
    let mut profile = fixture::processed();
    let samples = &mut profile["threads"][0]["samples"];
    for column in ["timeDeltas", "stack", "threadCPUDelta"] {
        samples[column].as_array_mut().unwrap().truncate(12);
    }
    samples["length"] = json!(12);
    profile["meta"]["profilingEndTime"] = json!(2000);
    profile["meta"]["startUnixNs"] = json!(1_700_000_000_000_000_123_u64);
    let series = |name: &str, category: &str, counts: Value, numbers: Value| {
        json!({"name": name, "category": category, "pid": "12", "display": {"unit": "bytes"},
               "samples": {"timeDeltas": [1, 2, 10_000], "count": counts, "number": numbers, "length": 3}})
    };
    profile["counters"] = json!([
        series(
            "Resident memory",
            "Memory",
            json!([0, 4096, -96]),
            json!([0, 1, 1])
        ),
        series("tenant 1", "Group", json!([0, 1.5, 0.25]), json!([0, 2, 1])),
    ]);
    let process = |name: &str, pid: u64, ended: Option<f64>| {
        json!({"name": name, "pid": pid, "parentPid": 1, "began_TSms": 0.5, "ended_TSms": ended,
               "verdict": "complete", "threads": 1, "recorded": 10, "delivered": 7, "outside": 0,
               "evicted": 1, "unfinished": 0, "dropped": {"too long": 2, "no room": 0}, "present": true})
    };
    profile["profileGatheringLog"] = json!({"app": {"processes": [
        process("app", 12, None), process("child", 14, Some(1500.0)),
    ]}});
    profile
}

#[test]
fn the_rows_of_a_recording_are_as_documented() {
    let text = Bodies::of(&recording(), &labels(), usize::MAX).text();
    insta::assert_snapshot!(text);
}

#[test]
fn the_same_profile_gives_the_same_rows_in_bodies_of_any_size() {
    let whole = Bodies::of(&fixture::processed(), &labels(), usize::MAX);
    assert_eq!(
        whole,
        Bodies::of(&fixture::processed(), &labels(), usize::MAX)
    );
    let parts = Bodies::of(&fixture::processed(), &labels(), 600);
    assert!(parts.0.len() > whole.0.len());
    for table in FleetTable::ALL {
        assert_eq!(parts.rows(table), whole.rows(table));
    }
    let is_short = |(_, bytes): &(FleetTable, Vec<u8>)| {
        bytes.len() <= 600 || bytes.iter().filter(|byte| **byte == b'\n').count() == 1
    };
    assert!(
        parts.0.iter().all(is_short),
        "only a body of one row is longer"
    );
    assert_eq!(
        whole.0.last().map(|(table, _)| *table),
        Some(FleetTable::Processes)
    );
}

#[test]
fn both_formats_have_rows() {
    for profile in [fixture::processed(), fixture::gecko()] {
        let bodies = Bodies::of(&profile, &FleetLabels::default(), usize::MAX);
        let rows = FleetTable::ALL.map(|table| bodies.rows(table).len());
        let [stacks, samples, spans, _, _, processes] = rows;
        assert!(
            stacks >= 3 && samples >= 2 && spans >= 2 && processes >= 2,
            "{rows:?}"
        );
        assert_eq!(bodies.rows(FleetTable::Samples)[0]["service"], "app");
    }
}

#[test]
fn a_host_in_the_profile_is_the_host_of_its_rows() {
    let mut profile = recording();
    profile["meta"]["hosts"] = json!([{"name": "box"}]);
    let host = |profile: &Value| {
        let bodies = Bodies::of(profile, &FleetLabels::default(), usize::MAX);
        bodies.rows(FleetTable::Samples)[0]["host"].clone()
    };
    assert_eq!(host(&profile), "box");
    profile["meta"]["hosts"] = json!([{"name": "box"}, {"name": "other"}]);
    assert_eq!(host(&profile), "", "a merged profile has no single host");
}

#[test]
fn the_columns_of_rows_are_those_of_the_tables() {
    let bodies = Bodies::of(&recording(), &labels(), usize::MAX);
    let schema = FleetSchema::new("fleet").unwrap();
    for table in FleetTable::ALL {
        let created = schema.statements().into_iter();
        let created = created.filter(|text| text.contains(&format!("fleet.{}\n", table.name())));
        let created: Vec<String> = created.collect();
        assert_eq!(created.len(), 1, "{table:?}: {created:?}");
        let row = &bodies.rows(table)[0];
        let written: BTreeSet<String> = row.as_object().unwrap().keys().cloned().collect();
        assert_eq!(written, columns(&created[0]), "{table:?}");
    }
}

/// The columns in a statement that creates a table.
fn columns(statement: &str) -> BTreeSet<String> {
    let lines = statement.lines().filter(|line| line.starts_with("    "));
    let columns = lines.flat_map(|line| {
        let (name, kind) = line.trim().split_once(' ').unwrap();
        match kind.strip_prefix("Nested(") {
            Some(inner) => {
                let inner = inner.trim_end_matches([')', ',']).split(", ");
                let name_of = |field: &str| field.split(' ').next().unwrap().to_owned();
                inner
                    .map(|field| format!("{name}.{}", name_of(field)))
                    .collect::<Vec<_>>()
            }
            None => vec![name.to_owned()],
        }
    });
    columns.collect()
}

#[test]
fn a_counter_has_one_value_per_second_and_its_highest() {
    let mut profile = recording();
    profile["counters"] = json!([{
        "name": "jobs", "category": "Other", "pid": "12",
        "samples": {"timeDeltas": [100, 100, 100, 900, 20_000], "count": [5, 7, -10, 1, 1],
                    "number": [1, 1, 1, 1, 1], "length": 5},
    }]);
    let rows = Bodies::of(&profile, &labels(), usize::MAX).rows(FleetTable::Counters);
    let columns = |row: &Value| {
        let keys = [
            "point.after_ns",
            "point.value",
            "last_value",
            "highest_value",
        ];
        keys.map(|key| row[key].clone())
    };
    assert_eq!(
        rows.iter().map(columns).collect::<Vec<_>>(),
        [
            [json!([0, 900_000_000]), json!([2, 3]), json!(3), json!(12)],
            [json!([0]), json!([4]), json!(4), json!(4)],
        ]
    );
}

#[test]
fn a_schema_has_only_identifiers_and_what_the_server_can_do() {
    for name in ["", "a b", "x;DROP TABLE y", "1a", "a-b", "ä"] {
        assert!(FleetSchema::new(name).is_err(), "{name}");
        assert!(
            FleetSchema::new("a").unwrap().cluster(name).is_err(),
            "{name}"
        );
    }
    let one = FleetSchema::new("fleet").unwrap();
    let current = one.clone().keep_days(7, Engine::Current);
    let old = one
        .clone()
        .keep_days(7, Engine::WithoutTtl)
        .cluster("c")
        .unwrap();
    assert_eq!(
        current
            .to_string()
            .matches("TTL day + INTERVAL 7 DAY")
            .count(),
        6
    );
    assert!(!old.to_string().contains("TTL") && !one.to_string().contains("Distributed"));
    assert_eq!((one.statements().len(), old.statements().len()), (7, 13));
    assert_eq!(old.to_string().matches("Distributed(c, fleet, ").count(), 6);
    assert!(!old.to_string().contains(['{', '}']) && !current.to_string().contains(['{', '}']));
}

/// A thread with these times, stacks and processor times of samples.
fn one_thread(samples: &[(u32, usize, u32)]) -> Value {
    let mut profile = fixture::processed();
    let column =
        |of: &dyn Fn(&(u32, usize, u32)) -> Value| samples.iter().map(of).collect::<Vec<_>>();
    profile["threads"] = json!([{
        "name": "t", "processName": "p", "pid": "7", "tid": 7,
        "samples": {
            "length": samples.len(), "weightType": "samples",
            "timeDeltas": column(&|sample| json!(f64::from(sample.0) / 1e6)),
            "stack": column(&|sample| json!(sample.1)),
            "threadCPUDelta": column(&|sample| json!(sample.2)),
        },
    }]);
    profile
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_u64().unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_sample_and_no_microsecond_is_lost(
        samples in prop::collection::vec((0..30_000_000_u32, 0..5_usize, 0..9_000_000_u32), 1..200)
    ) {
        let bodies = Bodies::of(&one_thread(&samples), &labels(), 2000);
        let rows = bodies.rows(FleetTable::Samples);
        let mut by_stack: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut wall, mut cpu, mut seq) = (0, 0, 0);
        let mut end = None;
        for row in &rows {
            let stacks = numbers(&row["sample.stack"]);
            let walls = numbers(&row["sample.wall_us"]);
            let cpus = numbers(&row["sample.cpu_us"]);
            prop_assert!(stacks.len() == walls.len() && stacks.len() == cpus.len());
            let start = row["start_us"].as_u64().unwrap();
            prop_assert_eq!(end.unwrap_or(start), start, "a row begins where the last one ended");
            end = row["end_us"].as_u64();
            prop_assert_eq!(Some(start + walls.iter().sum::<u64>()), end);
            prop_assert_eq!(row["seq"].as_u64(), Some(seq));
            seq += 1;
            wall += walls.iter().sum::<u64>();
            cpu += cpus.iter().sum::<u64>();
            stacks.into_iter().for_each(|stack| *by_stack.entry(stack).or_default() += 1);
        }
        // The first sample lasts one interval, and its processor time has an unknown start.
        let rest = || samples.iter().skip(1);
        let wall_ns = 1_000_000 + rest().map(|sample| u64::from(sample.0)).sum::<u64>();
        prop_assert!((wall_ns / 1000).abs_diff(wall) <= 1, "{wall_ns} ns, {wall} µs");
        let cpu_ns: u64 = rest().map(|sample| u64::from(sample.2)).sum();
        prop_assert_eq!(cpu_ns / 1000, cpu);
        let known: BTreeSet<u64> = bodies
            .rows(FleetTable::Stacks)
            .iter()
            .map(|row| row["stack"].as_u64().unwrap())
            .collect();
        prop_assert!(by_stack.keys().all(|stack| known.contains(stack)), "a stack has no names");
        prop_assert_eq!(by_stack.values().sum::<usize>(), samples.len());
        // Two of the five stacks have the same names, in files of the same name.
        prop_assert_eq!(known.len(), bodies.rows(FleetTable::Stacks).len(), "a stack is written twice");
    }
}
