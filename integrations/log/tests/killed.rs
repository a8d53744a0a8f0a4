//! The records of a process that is killed.

use std::path::PathBuf;

use log::LevelFilter;
use recorded_session::{KilledChild, wait_to_be_killed};
use test_support::own_process;

/// The child: logs, and waits until it is killed.
fn log_and_wait(ready: PathBuf) -> ! {
    profiler_child::init();
    profiler_log::alone().install(LevelFilter::Off).unwrap();
    log::error!(target: "server", path = "/the/path", bytes = 4711; "the last {}", "words");
    wait_to_be_killed(ready)
}

#[test]
fn the_last_record_of_a_killed_process_is_in_the_profile_with_its_values() {
    own_process!();
    let text = KilledChild::of_this_test(log_and_wait).profile();
    for expected in [
        "\"the last words\"",
        "\"path\":\"/the/path\"",
        "\"bytes\":4711",
        "\"ERROR\"",
    ] {
        assert!(text.contains(expected), "no {expected} in the profile");
    }
}
