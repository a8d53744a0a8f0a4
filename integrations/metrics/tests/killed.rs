//! The metrics of a process that is killed.

use std::path::PathBuf;

use metrics::{counter, gauge, histogram};
use recorded_session::{KilledChild, wait_to_be_killed};
use serde_json::Value;
use test_support::own_process;

/// The child: counts, and waits until it is killed.
fn count_and_wait(ready: PathBuf) -> ! {
    profiler_child::init();
    profiler_metrics::alone().install().unwrap();
    counter!("requests", "status" => "200").increment(4711);
    gauge!("connections").set(17);
    histogram!("reply_bytes").record(815);
    wait_to_be_killed(ready)
}

#[test]
fn the_last_values_of_a_killed_process_are_in_the_profile() {
    own_process!();
    let text = KilledChild::of_this_test(count_and_wait).profile();
    let profile: Value = serde_json::from_str(&text).unwrap();
    let expected = [
        ("requests{status=200}", 4711),
        ("connections", 17),
        ("reply_bytes count", 1),
        ("reply_bytes sum", 815),
    ];
    for (name, value) in expected {
        assert_eq!(total(&profile, name), Some(value), "{name}");
    }
    assert!(text.contains("\"HistogramBytes\""));
}

/// The sum of the changes of a counter of the profile.
fn total(profile: &Value, name: &str) -> Option<i64> {
    let counters = profile["counters"].as_array()?;
    let counter = counters.iter().find(|counter| counter["name"] == name)?;
    let changes = counter["samples"]["count"].as_array()?;
    changes.iter().map(Value::as_i64).sum()
}
