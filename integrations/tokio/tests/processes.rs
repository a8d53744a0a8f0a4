//! Processes that are started by `tokio::process::Command` join the session.

use std::path::Path;

use profiler_parent::Session;
use profiler_tokio::{ProfileFuture, RuntimeRules};
use serde_json::Value;
use test_support::own_process;
use test_support::patience::LONG;

use crate::support::{one_thread, two_workers};

/// The child: joins, and records a task.
fn record_a_task(ready: &Path) {
    let status = profiler_child::init_within(LONG);
    assert!(profiler_core::session::is_active(), "{status:?}");
    let runtime = two_workers(&RuntimeRules::named("in the child"));
    runtime.block_on(async {}.profiled("task of the child"));
    std::fs::File::create(ready).unwrap();
}

#[test]
fn a_process_that_tokio_starts_joins_and_is_in_the_profile_with_its_tasks() {
    own_process!();
    if let Some(ready) = own_process::role() {
        return record_a_task(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let runtime = one_thread(&RuntimeRules::named("in the parent"));
    let mut command = tokio::process::Command::from(own_process::child(&ready));
    session.prepare(command.as_std_mut()).unwrap();
    let status = runtime.block_on(async { command.status().await }.profiled("waits for the child"));
    assert!(status.unwrap().success());
    assert!(ready.exists(), "the child has run the test");
    session.capture().save(&profile).unwrap();
    let text = std::fs::read(profile).unwrap();
    let profile: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(
        pids_of_marker(&profile, "waits for the child"),
        [std::process::id().to_string()]
    );
    let of_child = pids_of_marker(&profile, "task of the child");
    assert_eq!(of_child.len(), 1, "{of_child:?}");
    assert_ne!(of_child[0], std::process::id().to_string());
}

/// The processes that have markers of this name.
fn pids_of_marker(profile: &Value, name: &str) -> Vec<String> {
    let strings = profile["shared"]["stringArray"].as_array().unwrap();
    let Some(index) = strings.iter().position(|text| text == name) else {
        return Vec::new();
    };
    let has_marker = |thread: &&Value| {
        let names = thread["markers"]["name"].as_array().unwrap();
        names.iter().any(|number| *number == index)
    };
    let threads = profile["threads"].as_array().unwrap().iter();
    let pid = |thread: &Value| thread["pid"].as_str().unwrap_or_default().to_owned();
    let mut pids: Vec<String> = threads.filter(has_marker).map(pid).collect();
    pids.dedup();
    pids
}
