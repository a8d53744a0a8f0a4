//! The laws of merging, for generated recordings.

use proptest::prelude::*;
use serde_json::Value;

use super::content::{self, Content};
use super::generated::recording;
use super::{Desk, json};

/// What merging with others does to a thread of an input.
fn moved(content: Content, host: &str, offset_ns: i64) -> Content {
    let markers = content.markers.into_iter().map(|mut marker| {
        marker.start_ns += offset_ns;
        marker.payload = moved_payload(marker.payload, host, offset_ns);
        marker
    });
    let samples = content.samples.into_iter();
    let samples = samples.map(|(at, stack, cpu, weight)| (at + offset_ns, stack, cpu, weight));
    Content {
        pid: format!("{host}:{}", content.pid),
        process: format!("{} ({host})", content.process),
        thread: content.thread,
        samples: samples.collect(),
        markers: markers.collect(),
    }
}

fn moved_payload(mut payload: Value, host: &str, offset_ns: i64) -> Value {
    let later = |value: &Value| {
        let ns = (value.as_f64().unwrap() * 1e6).round() as i64 + offset_ns;
        Value::from(ns as f64 / 1e6)
    };
    let Some(fields) = payload.as_object_mut() else {
        return payload;
    };
    for (key, value) in fields {
        match key.as_str() {
            "at" => *value = later(value),
            "flow" if *value == "beef" => *value = format!("{host}:beef").into(),
            "detail" if *value == 2.5 => *value = later(value),
            "detail" if *value == "7" => *value = format!("{host}:7").into(),
            "cause" => value["time"] = later(&value["time"]),
            _ => {}
        }
    }
    payload
}

/// The payloads without their types, which are renamed if two inputs have other types of one name.
fn without_types(mut contents: Vec<Content>) -> Vec<Content> {
    for marker in contents.iter_mut().flat_map(|content| &mut content.markers) {
        if let Some(fields) = marker.payload.as_object_mut() {
            fields.remove("type");
        }
    }
    contents
}

/// Everything of a profile that is not in its threads or tables.
fn besides_threads(profile: &Value) -> Value {
    let mut rest = profile.clone();
    let rest_of = rest.as_object_mut().unwrap();
    for tables in ["threads", "shared", "libs"] {
        rest_of.remove(tables);
    }
    rest
}

const DAY: f64 = 86_400_000.0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn merging_one_profile_gives_its_contents(seed: u64) {
        let desk = Desk::new();
        let profile = recording(seed, "a", 1.7e12);
        let from = desk.put("a.json", &profile);
        let (to, _) = desk.merge(&[&from], "merged.json");
        prop_assert!(content::of(&to) == content::of(&from));
        let merged = json(&to);
        for same in ["threads", "counters", "profilingLog", "profileGatheringLog"] {
            if same == "threads" {
                let count = |profile: &Value| profile[same].as_array().unwrap().len();
                prop_assert_eq!(count(&merged), count(&profile));
            } else {
                prop_assert_eq!(&merged[same], &profile[same]);
            }
        }
        for (key, value) in profile["meta"].as_object().unwrap() {
            // Equal categories are one.
            let same = &merged["meta"][key];
            let is_same = same == value || same.is_number() && same.as_f64() == value.as_f64();
            prop_assert!(is_same || key == "hosts" || key == "categories", "{}: {}", key, same);
        }
    }

    #[test]
    fn each_thread_has_the_same_samples_and_markers_later(
        first: u64, second: u64, later_ms in 0_u32..2_000_000_000
    ) {
        let desk = Desk::new();
        let start = 1.7e12;
        let inputs = [
            desk.put("a.json", &recording(first, "a", start)),
            desk.put("b.json", &recording(second, "b", start + f64::from(later_ms))),
        ];
        let (to, _) = desk.merge(&[&inputs[0], &inputs[1]], "merged.json");
        let offsets = [0, i64::from(later_ms) * 1_000_000];
        let expected = inputs.iter().zip(["a", "b"]).zip(offsets).flat_map(|((from, host), ns)| {
            content::of(from).into_iter().map(move |content| moved(content, host, ns))
        });
        prop_assert!(without_types(content::of(&to)) == without_types(expected.collect()));
    }

    #[test]
    fn merging_in_steps_gives_the_contents_of_merging_at_once(
        seeds: [u64; 3], starts in prop::array::uniform3(0.0..DAY)
    ) {
        let desk = Desk::new();
        let [a, b, c] = [0, 1, 2].map(|at| {
            // Two hosts have the same name.
            let host = ["a", "b", "a"][at];
            desk.put(&format!("{at}.json"), &recording(seeds[at], host, 1.7e12 + starts[at].round()))
        });
        let (at_once, _) = desk.merge(&[&a, &b, &c], "abc.json");
        let (ab, _) = desk.merge(&[&a, &b], "ab.json");
        let (bc, _) = desk.merge(&[&b, &c], "bc.json");
        for (left, right) in [(&ab, &c), (&a, &bc)] {
            let (in_steps, _) = desk.merge(&[left, right], "steps.json");
            prop_assert!(content::of(&in_steps) == content::of(&at_once));
            let [in_steps, at_once] = [&in_steps, &at_once].map(|path| besides_threads(&json(path)));
            prop_assert_eq!(in_steps, at_once);
        }
    }
}
