//! Children that die: this test program, which runs the test of the same name as the child.
//!
//! The harness runs a test on a thread of its own. `integration-tests/tests/panics.rs` has panics
//! of the main thread.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use profiler_parent::Session;
use serde_json::Value;
use test_support::own_process;

/// What is known of a child after its end.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) verdict: String,
    pub(crate) text: String,
    pub(crate) profile: Value,
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

/// Runs the calling test once more as the child of a session, in which `die` ends the process,
/// waits for its end, and captures.
pub(crate) fn ended(die: impl FnOnce()) -> Ended {
    if own_process::role().is_some() {
        die();
        std::process::exit(0);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.json");
    let session = Session::builder().start().unwrap();
    let mut command = own_process::child("dying");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = session.spawn("dying", command).unwrap();
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
