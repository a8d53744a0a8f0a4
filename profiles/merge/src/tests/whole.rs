//! Whole merged profiles: what they say about hosts, and members that no reader needs.

use serde_json::{Value, json};

use super::generated::recording;
use super::*;

fn two_hosts(desk: &Desk) -> [PathBuf; 2] {
    let mut first = recording(5, "a", 1.7e12);
    first["meta"]["hosts"] = json!([{"name": "a", "clockId": "boot 1", "startClockNs": 500_000_000,
        "wallClock": {"readMs": 0.0004, "changeMs": 0.1, "isSynchronized": true,
        "maxErrorMs": 7.5}}]);
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
fn the_report_names_hosts_files_places_and_uncertainty() {
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
        merged.hosts[0].uncertainty,
        Uncertainty::WallClock { within_ms: 7.601 }
    );
    assert_eq!(merged.hosts[1].uncertainty, Uncertainty::Unsynchronized);
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
    // Profiles of earlier versions read this clock again at each capture.
    again["meta"]["hosts"][0]["startClockNs"] = json!(500_000_037);
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
fn a_session_is_known_by_its_start_also_if_a_profile_of_it_has_no_clock() {
    let desk = Desk::new();
    let [a, b] = two_hosts(&desk);
    let is_same_session = |profile: &Value| {
        let other = desk.put("other.json", profile);
        let (_, merged) = desk.merge(&[&a, &other], "merged.json");
        let mut warnings = merged.warnings.iter();
        warnings.any(|warning| warning.contains("same session as"))
    };
    let mut other = json(&a);
    other["meta"]["hosts"] = json!([{}]);
    assert!(is_same_session(&other), "it was recovered after a restart");
    other["meta"]["hosts"] = json(&b)["meta"]["hosts"].clone();
    assert!(!is_same_session(&other), "it is of another boot");
    other["meta"] = json(&a)["meta"].clone();
    other["meta"]["startUnixNs"] = json!(1_700_000_000_000_000_001_u64);
    assert!(!is_same_session(&other), "it began later");
}

/// A recording with a host that has this clock.
fn with_clock(host: &str, start_ms: f64, clock: &str, start_clock_ms: u64) -> Value {
    let mut profile = recording(5, host, start_ms);
    profile["meta"]["hosts"] = json!([{"name": host, "clockId": clock,
        "startClockNs": start_clock_ms * 1_000_000, "wallClock": {"readMs": 0.0004, "changeMs": 0,
        "isSynchronized": true, "maxErrorMs": 5}}]);
    profile
}

#[test]
fn a_host_is_within_the_error_of_a_clock_only_if_that_clock_has_placed_it() {
    let desk = Desk::new();
    let put = |name: &str, profile| desk.put(&format!("{name}.json"), &profile);
    let x = put("x", with_clock("x", 1.7e12, "A", 1_000));
    let z = put("z", with_clock("z", 1.7e12 + 1.0, "B", 2_000));
    // The wall clock of `x` was set by 3 ms since, and that of `z` by 4 ms.
    let y = put("y", with_clock("y", 1.7e12 + 13.0, "A", 1_010));
    let late = put("late", with_clock("late", 1.7e12 + 25.0, "B", 2_020));
    let (merged, _) = desk.merge(&[&y, &late], "both.json");
    let (_, report) = desk.merge(&[&x, &z, &merged], "merged.json");
    let told: Vec<_> = report
        .hosts
        .iter()
        .map(|host| (host.begins_ms, host.uncertainty.clone()))
        .collect();
    let wall = |within_ms| Uncertainty::WallClock { within_ms };
    let same = Uncertainty::SameClock {
        host: "x".to_owned(),
        within_ms: 0.001,
    };
    // The clock A has placed `late` with `y`, 3 ms before the place of its own wall clock. By the
    // clock B, it would begin at 21 ms.
    let hosts = [
        (0.0, wall(5.001)),
        (1.0, wall(5.001)),
        (10.0, same),
        (22.0, wall(8.001)),
    ];
    assert_eq!(told, hosts);
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
    let is_told = |section: &Value| section.to_string().contains("Shifted by");
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

#[cfg(target_os = "linux")]
#[test]
fn one_input_after_the_other_is_open() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    let desk = Desk::new();
    let directory = desk.path("").canonicalize().unwrap();
    let hosts = ["a", "b", "c", "d"];
    let inputs = hosts.map(|host| desk.put(&format!("{host}.json"), &recording(3, host, 1e12)));
    let most = std::sync::Arc::new(AtomicUsize::new(0));
    let seen = std::sync::Arc::clone(&most);
    let listener = on_pass(4, move |_| {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        let is_input = |path: &PathBuf| {
            path.starts_with(&directory) && path.extension().is_some_and(|end| end == "json")
        };
        seen.fetch_max(open.filter(is_input).count(), Relaxed);
    });
    let inputs = inputs.map(MergeInput::new);
    merge_with(&inputs, &[], &desk.path("merged.json.gz"), &listener).unwrap();
    assert_eq!(most.load(Relaxed), 1);
}
