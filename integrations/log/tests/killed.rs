//! The records of a process that is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use log::LevelFilter;
use profiler_parent::Session;
use test_support::own_process;
use test_support::patience::until;

/// The variable with the file that the child makes when it has logged.
const READY: &str = "LOG_TEST_READY";

/// The child: logs, and waits until it is killed.
fn log_and_wait(ready: &Path) -> ! {
    profiler_child::init();
    profiler_log::alone().install(LevelFilter::Off).unwrap();
    log::error!(target: "server", path = "/the/path", bytes = 4711; "the last {}", "words");
    File::create(ready).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn the_last_record_of_a_killed_process_is_in_the_profile_with_its_values() {
    own_process!();
    if let Some(ready) = std::env::var_os(READY) {
        log_and_wait(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("killed", this_test(&ready)).unwrap();
    assert!(until(|| ready.exists()), "the child has not logged");
    child.kill().unwrap();
    child.wait().unwrap();
    session.capture().save(&profile).unwrap();
    let text = std::fs::read_to_string(profile).unwrap();
    for expected in [
        "\"the last words\"",
        "\"path\":\"/the/path\"",
        "\"bytes\":4711",
        "\"ERROR\"",
    ] {
        assert!(text.contains(expected), "no {expected} in the profile");
    }
}

/// A command that runs this test as the child.
fn this_test(ready: &PathBuf) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "killed::the_last_record_of_a_killed_process_is_in_the_profile_with_its_values";
    command
        .args(["--exact", name, "--nocapture"])
        .env(READY, ready);
    command
}
