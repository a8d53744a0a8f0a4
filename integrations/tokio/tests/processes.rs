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

/// The child: records, says that it is ready, and waits to be killed.
#[cfg(all(feature = "process", target_os = "linux"))]
fn record_until_killed(ready: &Path) -> ! {
    let status = profiler_child::init_within(LONG);
    assert!(profiler_core::session::is_active(), "{status:?}");
    profiler_core::marker!("in the child");
    std::fs::File::create(ready).unwrap();
    loop {
        std::thread::park();
    }
}

#[cfg(all(feature = "process", target_os = "linux"))]
mod awaited {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    use profiler_parent::{CaptureReport, CapturedProcess, SpawnError, Verdict, Why};
    use profiler_tokio::SpawnInSession;
    use test_support::patience::until;
    use tokio::process::Command;

    use super::*;

    fn row<'a>(report: &'a CaptureReport, name: &str) -> &'a CapturedProcess {
        let mut named = report.processes.iter().filter(|row| row.name == name);
        let row = named.next().unwrap_or_else(|| panic!("{report:?}"));
        assert!(named.next().is_none(), "{report:?}");
        row
    }

    #[test]
    fn a_child_that_tokio_awaits_has_its_name_and_the_verdict_on_its_end() {
        own_process!();
        if let Some(ready) = own_process::role() {
            record_until_killed(Path::new(&ready));
        }
        let directory = tempfile::tempdir().unwrap();
        let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
        let session = Session::builder().start().unwrap();
        let runtime = one_thread(&RuntimeRules::named("in the parent"));
        let status = runtime.block_on(async {
            let command = Command::from(own_process::child(&ready));
            let mut child = command.spawn_in(&session, "worker 7").unwrap();
            assert_eq!(child.profiled().name(), "worker 7");
            assert_eq!(child.id(), Some(child.profiled().id().get()));
            assert!(until(|| ready.exists()), "the child does not record");
            assert_eq!(child.try_wait().unwrap(), None);
            child.start_kill().unwrap();
            child.wait().await.unwrap()
        });
        assert_eq!(status.signal(), Some(9));
        let report = session.capture().save(&profile).unwrap();
        let worker = row(&report, "worker 7");
        let Verdict::Recovered {
            why: Why::Stopped { status },
        } = &worker.verdict
        else {
            panic!("{worker:?}")
        };
        assert_eq!(status, "signal 9 (SIGKILL)");
        assert!(worker.counts.delivered > 0, "{worker:?}");
    }

    #[test]
    fn the_output_of_a_child_of_a_session_is_collected_and_its_end_is_known() {
        own_process!();
        if let Some(ready) = own_process::role() {
            return record_a_task(Path::new(&ready));
        }
        let directory = tempfile::tempdir().unwrap();
        let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
        let session = Session::builder().start().unwrap();
        let runtime = one_thread(&RuntimeRules::named("in the parent"));
        let output = runtime.block_on(async {
            let mut command = Command::from(own_process::child(&ready));
            command.stdout(Stdio::piped());
            let child = command.spawn_in(&session, "speaks").unwrap();
            child.wait_with_output().await.unwrap()
        });
        assert!(output.status.success());
        assert!(!output.stdout.is_empty());
        let report = session.capture().save(&profile).unwrap();
        assert_eq!(row(&report, "speaks").verdict, Verdict::Complete);
        let text = std::fs::read(profile).unwrap();
        let profile: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(pids_of_marker(&profile, "task of the child").len(), 1);
    }

    #[test]
    fn a_command_that_cannot_start_leaves_no_process_in_the_session() {
        own_process!();
        let session = Session::builder().start().unwrap();
        let runtime = one_thread(&RuntimeRules::named("in the parent"));
        let refused = runtime
            .block_on(async { Command::new("/nonexistent/program").spawn_in(&session, "none") });
        assert!(
            matches!(refused, Err(SpawnError::Start { .. })),
            "{refused:?}"
        );
        assert_eq!(session.processes().len(), 1, "{:?}", session.processes());
    }
}
