//! Children that die: this test program, which runs the test of the same name as the child.
//!
//! The harness runs a test on a thread of its own. `integration-tests/tests/panics.rs` has panics
//! of the main thread.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use profiler_parent::Session;
use serde_json::Value;

/// The variable that makes a test the child.
const CHILD: &str = "PANIC_TEST_CHILD";

/// What is known of a child after its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) verdict: String,
    pub(crate) text: String,
    pub(crate) profile: Value,
}

/// Whether this process is the child of a test.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Begins the child: it records, and its panics are recorded.
pub(crate) fn begin() {
    profiler_child::init();
    profiler_panic::install();
}

/// Begins a child whose panic hook aborts.
pub(crate) fn begin_with_aborting_hook() {
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    begin();
}

/// Runs `test` as the child of a session, waits for its end, and captures.
pub(crate) fn ended(test: &str) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    let mut child = session.spawn("dying", this_test(test)).unwrap();
    let status = child.wait().unwrap();
    let report = session.capture().save(&path).unwrap();
    let row = report.processes.iter().find(|row| row.name == "dying");
    let text = std::fs::read_to_string(path).unwrap();
    Ended {
        status,
        verdict: row.unwrap().verdict.to_string(),
        profile: serde_json::from_str(&text).unwrap(),
        text,
    }
}

/// A command that runs this test as the child.
fn this_test(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, OsStr::new("1"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

impl Ended {
    /// Whether a signal ended it that stands for an abort.
    pub(crate) fn has_aborted(&self) -> bool {
        self.status.signal() == Some(6)
    }

    /// The payloads of all markers of panics.
    pub(crate) fn panics(&self) -> Vec<&Value> {
        let mut found = Vec::new();
        collect(&self.profile, &mut found);
        found
    }
}

/// Collects the payloads of panics from any place of a profile.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| collect(one, found)),
        Value::Object(all) if value["type"] == "Panic" && value["message"].is_string() => {
            debug_assert!(!all.is_empty());
            found.push(value);
        }
        Value::Object(all) => all.values().for_each(|one| collect(one, found)),
        _ => {}
    }
}
