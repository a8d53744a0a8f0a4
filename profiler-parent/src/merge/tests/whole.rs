//! Whole merged profiles: what they say about hosts, and members that no reader needs.

use serde_json::{Value, json};

use super::generated::recording;
use super::*;

fn two_hosts(desk: &Desk) -> [PathBuf; 2] {
    let mut first = recording(5, "a", 1.7e12);
    first["meta"]["hosts"] = json!([{"name": "a", "clockId": "boot 1", "startClockNs": 500_000_000,
        "wallClock": {"readMs": 0.0004, "changeMs": 0.1, "isSynchronized": true, "maxErrorMs": 7.5}}]);
    first["meta"]["extra"] =
        json!([{"label": "Host", "entries": []}, {"label": "App", "entries": []}]);
    let mut second = recording(5, "b", 1.7e12 + 20.0);
    second["meta"]["hosts"] = json!([{"name": "b", "clockId": "boot 2", "startClockNs": 900_000_000,
        "wallClock": {"readMs": 0.0004, "changeMs": 0, "isSynchronized": false}}]);
    for profile in [&mut first, &mut second] {
        profile["meta"]["profilingEndTime"] = json!(40);
    }
    second["later"] = json!({"of": ["another", "version"]});
    [desk.put("a.json", &first), desk.put("b.json", &second)]
}

#[test]
fn a_merged_profile_is_written_with_all_of_both_inputs() {
    let desk = Desk::new();
    let [a, b] = two_hosts(&desk);
    let (to, _) = desk.merge(&[&a, &b], "merged.json");
    insta::assert_json_snapshot!(json(&to));
}

#[test]
fn the_report_names_hosts_files_places_and_certainty() {
    let desk = Desk::new();
    let [a, b] = two_hosts(&desk);
    let (_, merged) = desk.merge(&[&a, &b], "merged.json");
    let hosts: Vec<_> = merged
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.begins_ms))
        .collect();
    assert_eq!(hosts, [("a", 0.0), ("b", 20.0)]);
    assert_eq!(merged.hosts[1].file, b);
    assert_eq!(
        merged.hosts[0].certainty,
        Certainty::WallClock { within_ms: 7.601 }
    );
    assert_eq!(merged.hosts[1].certainty, Certainty::Unsynchronized);
    assert!(merged.warnings.is_empty(), "{:?}", merged.warnings);
    let threads = json(&a)["threads"].as_array().unwrap().len() as u64;
    assert_eq!(merged.counts.threads, 2 * threads);
}

#[test]
fn recordings_at_different_times_and_of_one_session_are_warned_about() {
    let desk = Desk::new();
    let [a, _] = two_hosts(&desk);
    let mut again = json(&a);
    again["meta"]["profilingEndTime"] = json!(11);
    let again = desk.put("again.json", &again);
    let apart = desk.put("apart.json", &recording(1, "c", 1.8e12));
    let (_, merged) = desk.merge(&[&a, &again, &apart], "merged.json");
    let has = |part: &str| merged.warnings.iter().any(|warning| warning.contains(part));
    assert!(
        has("time of c") && has("same session as"),
        "{:?}",
        merged.warnings
    );
    assert!(!has("time of a"), "{:?}", merged.warnings);
}

#[test]
fn a_host_is_moved_by_hand_and_the_others_stay() {
    let desk = Desk::new();
    let [a, b] = two_hosts(&desk).map(MergeInput::new);
    let shift = HostShift {
        host: "b".to_owned(),
        ns: -15_000_000,
    };
    let to = desk.path("merged.json");
    let merged = merge(&[a, b], &[shift], &to).unwrap();
    let places: Vec<_> = merged
        .hosts
        .iter()
        .map(|host| (host.begins_ms, host.shifted_ms))
        .collect();
    assert_eq!(places, [(0.0, 0.0), (5.0, -15.0)]);
    let sections = json(&to)["meta"]["extra"].clone();
    let is_told = |section: &Value| section.to_string().contains("Moved by hand");
    let told: Vec<bool> = sections.as_array().unwrap().iter().map(is_told).collect();
    assert_eq!(told, [false, true, false]);
}

#[test]
fn flows_that_cross_hosts_stay_one_flow() {
    let desk = Desk::new();
    let [a, b] = ["a", "b"].map(|host| {
        let mut profile = recording(9, host, 1.7e12);
        profile["threads"][0]["markers"] = json!({"length": 2, "name": [0, 0], "category": [0, 0],
            "startTime": [1, 2], "endTime": [null, null], "phase": [0, 0],
            "data": [{"type": "Sent", "flow": 14}, {"type": "Sent", "flow": 15}]});
        desk.put(&format!("{host}.json"), &profile)
    });
    let (to, _) = desk.merge(&[&a, &b], "merged.json");
    let merged = json(&to);
    let threads = merged["threads"].as_array().unwrap().iter();
    let markers = threads.filter(|thread| thread["isMainThread"] == true);
    let flows: Vec<_> = markers
        .map(|main| {
            let text = |row: usize| {
                let flow = main["markers"]["data"][row]["flow"].as_u64().unwrap();
                merged["shared"]["stringArray"][flow as usize]
                    .as_str()
                    .unwrap()
            };
            [text(0), text(1)]
        })
        .collect();
    assert_eq!(
        flows,
        [
            ["a:beef", "00ab00000000cd12"],
            ["b:beef", "00ab00000000cd12"]
        ]
    );
}

#[test]
fn a_compressed_profile_is_read_and_written() {
    let desk = Desk::new();
    let [a, b] = two_hosts(&desk);
    let (first, _) = desk.merge(&[&a], "first.json.gz");
    let (to, merged) = desk.merge(&[&first, &b], "merged.json.gz");
    assert_eq!(std::fs::metadata(&to).unwrap().len(), merged.bytes);
    let (plain, _) = desk.merge(&[&a, &b], "plain.json");
    assert_eq!(super::content::of(&to), super::content::of(&plain));
}
