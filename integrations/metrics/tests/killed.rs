//! The metrics of a process that is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use metrics::{counter, gauge, histogram};
use profiler_parent::Session;
use serde_json::Value;
use test_support::own_process;
use test_support::patience::until;

/// The variable with the file that the child makes when it has counted.
const READY: &str = "METRICS_TEST_READY";

/// The child: counts, and waits until it is killed.
fn count_and_wait(ready: &Path) -> ! {
    profiler_child::init();
    profiler_metrics::alone().install().unwrap();
    counter!("requests", "status" => "200").increment(4711);
    gauge!("connections").set(17);
    histogram!("reply_bytes").record(815);
    File::create(ready).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn the_last_values_of_a_killed_process_are_in_the_profile() {
    own_process!();
    if let Some(ready) = std::env::var_os(READY) {
        count_and_wait(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("killed", this_test(&ready)).unwrap();
    assert!(until(|| ready.exists()), "the child has not counted");
    child.kill().unwrap();
    child.wait().unwrap();
    session.capture().save(&profile).unwrap();
    let text = std::fs::read_to_string(profile).unwrap();
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

/// A command that runs this test as the child.
fn this_test(ready: &PathBuf) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "killed::the_last_values_of_a_killed_process_are_in_the_profile";
    command
        .args(["--exact", name, "--nocapture"])
        .env(READY, ready);
    command
}
