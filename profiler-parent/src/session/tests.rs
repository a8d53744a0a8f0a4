//! Tests of a session with a failing part.

use std::process::{Command, Stdio};

use super::*;
use crate::SpawnError;

/// An argument by which the test finds the child; unique to this run.
fn seconds() -> String {
    format!("86399.{}", std::process::id())
}

fn is_running() -> bool {
    let seconds = seconds();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut arguments =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    arguments.any(|line| {
        line.split(|byte| *byte == 0)
            .any(|argument| argument == seconds.as_bytes())
    })
}

#[test]
fn a_child_that_cannot_be_watched_is_killed_and_removed() {
    let session = Session::builder().start().unwrap();
    let sleeping = || {
        let mut command = Command::new("sleep");
        command.arg(seconds()).stdin(Stdio::null());
        command
    };
    let mut child = session.spawn("watched", sleeping()).unwrap();
    while !is_running() {
        std::thread::yield_now(); // `spawn` returns before the system shows the arguments
    }
    child.kill().unwrap();
    while !child.has_ended() {
        std::thread::yield_now();
    }
    let before = session.processes().len();
    session.supervisor.handle.watcher().stop();
    let error = session.spawn("not watched", sleeping()).unwrap_err();
    assert!(matches!(error, SpawnError::System(_)), "{error}");
    assert!(!is_running(), "no child runs after an error");
    assert_eq!(session.processes().len(), before);
}
