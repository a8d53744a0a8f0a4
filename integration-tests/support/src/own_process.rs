//! Runs a test in a process of its own.
//!
//! A profiling session belongs to a process, and so do the descriptors, threads, signal handlers
//! and allocations that tests count. All tests of a crate are one program, because a program per
//! test takes long to link. [`own_process!`](crate::own_process!) at the start of a test
//! therefore runs the test in a new process of the same program, while the harness's thread waits:
//!
//! ```text
//! cargo test ─▶ harness, a thread per test ─▶ own_process!() ─▶ all --exact name  (runs the test)
//!                                               waits, reports ◀─ exit status, output
//! ```
//!
//! The harness filters, orders and reports as usual, and runs several tests at once.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::watchdog;

/// Names the test that a process was started for.
const VARIABLE: &str = "TEST_IN_OWN_PROCESS";

/// What a test returns when it has passed.
pub trait Passed {
    /// The value.
    fn passed() -> Self;
}

impl Passed for () {
    fn passed() {}
}

impl<E> Passed for Result<(), E> {
    fn passed() -> Self {
        Ok(())
    }
}

/// Runs the calling test in a process of its own. Must be the first statement of the test.
///
/// # Panics
/// If the test fails there; the message contains its output.
#[macro_export]
macro_rules! own_process {
    () => {
        if $crate::own_process::has_passed_elsewhere(|| {}) {
            return $crate::own_process::Passed::passed();
        }
    };
}

/// Used by [`own_process!`](crate::own_process!). Returns `false` in the process of the test, and
/// `true` in the harness, after that process has ended well. The test is the function that contains
/// the closure `_inside`.
///
/// # Panics
/// If the test failed, or could not be run.
#[must_use]
pub fn has_passed_elsewhere<F>(_inside: F) -> bool {
    let test = test_name(std::any::type_name::<F>());
    if std::env::var(VARIABLE).is_ok_and(|running| running == test) {
        return false;
    }
    if let Err(error) = run(test) {
        panic!("{error:?}");
    }
    true
}

/// The name by which the harness knows the function that contains a closure of this type.
fn test_name(closure: &str) -> &str {
    let path = closure.trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_crate, path)| path)
}

fn run(test: &str) -> anyhow::Result<()> {
    // A file and not a pipe: processes that outlive the test may keep it open.
    let mut output = tempfile::tempfile()?;
    let mut command = Command::new(std::env::current_exe()?);
    // With one thread the harness would run the test on the main thread.
    command.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=2"]);
    command.env(VARIABLE, test).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let child = command.spawn().context("the process of the test cannot be started")?;
    let status = watchdog::wait(child, test)?;
    let text = read(&mut output)?;
    ensure!(status.success(), "in a process of its own, {status}:\n{text}");
    ensure!(text.contains("test result: ok. 1 passed"), "the harness does not know {test}:\n{text}");
    Ok(())
}

fn read(output: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_in_a_process_that_was_started_for_it() {
        own_process!();
        let running = std::env::var(VARIABLE).unwrap_or_default();
        assert_eq!(running, "own_process::tests::a_test_runs_in_a_process_that_was_started_for_it");
    }

    #[test]
    fn a_failure_there_is_a_failure_here_with_its_message() {
        let error = run("own_process::tests::fails_on_purpose").unwrap_err();
        assert!(error.to_string().contains("told to fail"), "{error}");
    }

    #[test]
    #[ignore = "fails on purpose; another test runs it"]
    fn fails_on_purpose() {
        panic!("told to fail");
    }

    #[test]
    fn a_name_that_the_harness_does_not_know_is_a_failure() {
        let error = run("no::such::test").unwrap_err();
        assert!(error.to_string().contains("does not know no::such::test"), "{error}");
    }

    #[test]
    fn a_test_has_the_name_that_the_harness_gives_it() {
        assert_eq!(test_name("all::groups::a_rule::{{closure}}"), "groups::a_rule");
        assert_eq!(test_name("all::a_rule::{{closure}}::{{closure}}"), "a_rule");
    }
}
