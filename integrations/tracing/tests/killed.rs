//! The spans of a process that is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use profiler_parent::Session;
use profiler_tracing::subscriber;
use test_support::own_process;
use test_support::patience::until;
use tracing::info_span;

use crate::saved_profile::SavedProfile;

/// The variable with the file that the child makes when its span is open.
const READY: &str = "TRACING_TEST_READY";

/// The child: opens a span, and waits inside it until it is killed.
fn open_span_and_wait(ready: &Path) -> ! {
    profiler_child::init();
    tracing::subscriber::set_global_default(subscriber()).unwrap();
    drop(info_span!("closed").entered());
    let _open = info_span!("open request", path = "/the/path", bytes = 4711).entered();
    File::create(ready).unwrap();
    loop {
        std::thread::park();
    }
}

#[test]
fn an_open_span_of_a_killed_process_is_in_the_profile_with_its_fields() {
    own_process!();
    if let Some(ready) = std::env::var_os(READY) {
        open_span_and_wait(Path::new(&ready));
    }
    let directory = tempfile::tempdir().unwrap();
    let [ready, profile] = ["ready", "profile.json"].map(|name| directory.path().join(name));
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("killed", this_test(&ready)).unwrap();
    assert!(until(|| ready.exists()), "the child has no span");
    child.kill().unwrap();
    child.wait().unwrap();
    session.capture().save(&profile).unwrap();
    let profile = SavedProfile::read(&profile);
    let [open] = &profile.named("open request")[..] else {
        panic!("{profile:?}")
    };
    assert_eq!(open.process, "killed");
    assert!(open.start.is_some() && open.end.is_none(), "{open:?}");
    assert_eq!(open.data["path"], "/the/path");
    assert_eq!(open.data["bytes"], 4711);
    let [closed] = &profile.named("closed")[..] else {
        panic!("{profile:?}")
    };
    assert!(closed.start.is_some() && closed.end.is_some(), "{closed:?}");
}

/// A command that runs this test as the child.
fn this_test(ready: &PathBuf) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "killed::an_open_span_of_a_killed_process_is_in_the_profile_with_its_fields";
    command
        .args(["--exact", name, "--nocapture"])
        .env(READY, ready);
    command
}
