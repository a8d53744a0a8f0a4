//! The tasks of a process that is killed.

use std::future::pending;
use std::path::PathBuf;

use profiler_tokio::{ProfileFuture, RuntimeRules};
use recorded_session::{KilledChild, wait_to_be_killed};
use test_support::own_process;

use crate::support::two_workers;

/// The child: has an open task, and waits until it is killed.
fn open_task_and_wait(ready: PathBuf) -> ! {
    profiler_child::init();
    let runtime = two_workers(&RuntimeRules::named("killed"));
    runtime.block_on(async {
        drop(tokio::spawn(pending::<()>().profiled("the open task")));
        #[cfg(tokio_unstable)]
        drop(tokio::spawn(pending::<()>()));
        tokio::task::yield_now().await;
    });
    wait_to_be_killed(ready)
}

#[test]
fn a_task_that_is_open_when_its_process_is_killed_is_in_the_profile() {
    own_process!();
    let text = KilledChild::of_this_test(open_task_and_wait).profile();
    assert!(text.contains("\"the open task\""));
    #[cfg(tokio_unstable)]
    assert!(text.contains("tests/killed.rs:"), "no place in the source");
}
