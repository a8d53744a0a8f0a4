//! The tasks of a process that is killed.

use std::fs::File;
use std::future::pending;
use std::path::Path;

use profiler_parent::Session;
use profiler_tokio::{ProfileFuture, RuntimeRules};
use test_support::own_process;

use crate::support::{READY, child_test, two_workers, wait_for};

/// The child: has an open task, and waits until it is killed.
fn open_task_and_wait(ready: &Path) -> ! {
    profiler_child::init();
    let runtime = two_workers(&RuntimeRules::named("killed"));
    runtime.block_on(async {
        let open = tokio::spawn(pending::<()>().profiled("the open task"));
        #[cfg(tokio_unstable)]
        drop(tokio::spawn(pending::<()>()));
        tokio::task::yield_now().await;
        File::create(ready).unwrap();
        let _ = open.await;
    });
    unreachable!("the task never ends")
}

#[test]
fn a_task_that_is_open_when_its_process_is_killed_is_in_the_profile() {
    own_process!();
    if let Some(ready) = std::env::var_os(READY) {
        open_task_and_wait(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let name = "killed::a_task_that_is_open_when_its_process_is_killed_is_in_the_profile";
    let mut child = session.spawn("killed", child_test(name, &ready)).unwrap();
    wait_for(&ready);
    child.kill().unwrap();
    child.wait().unwrap();
    session.capture().save(&profile).unwrap();
    let text = std::fs::read_to_string(profile).unwrap();
    assert!(text.contains("\"the open task\""));
    #[cfg(tokio_unstable)]
    assert!(text.contains("tests/killed.rs:"), "no place in the source");
}
