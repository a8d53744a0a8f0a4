//! Runs a test in a separate process.
//!
//! A profiling session belongs to a process, and so do the descriptors, threads, signal handlers
//! and allocations that tests count. All tests of a crate are one program, because a program for
//! each test takes long to link. Therefore [`own_process!`](crate::own_process!) at the start of a
//! test runs the test in a new process of the same program, while the harness's thread waits:
//!
//! ```text
//! cargo test ─▶ harness, a thread per test ─▶ own_process!() ─▶ all --exact name  (runs the test)
//!                                               waits, reports ◀─ exit status, output
//! ```
//!
//! The harness filters, orders and reports as usual, and runs several tests at once.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::watchdog;

/// The environment variable with the name of the test for which a process was started.
const VARIABLE: &str = "TEST_IN_OWN_PROCESS";
/// The environment variable with the role of a process that a test has started with [`child`].
const ROLE: &str = "TEST_ROLE";

/// The return type of a test.
pub trait Passed {
    /// Returns the value of a test that has passed.
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

/// Runs the calling test in a separate process. Must be the first statement of the test.
///
/// # Panics
/// If the test fails in that process. The message contains its output.
#[macro_export]
macro_rules! own_process {
    () => {
        if $crate::own_process::has_passed_elsewhere(|| {}) {
            return $crate::own_process::Passed::passed();
        }
    };
}

/// Makes a test of each row: the rule that it protects, and an expression that checks it. Each test
/// runs in a separate process.
///
/// ```
/// fn is_even(number: u32) -> anyhow::Result<()> {
///     anyhow::ensure!(number % 2 == 0);
///     Ok(())
/// }
///
/// test_support::own_process_tests! {
///     two_is_even: is_even(2);
///     four_is_even: is_even(4);
/// }
/// ```
#[macro_export]
macro_rules! own_process_tests {
    ($($(#[$attribute:meta])* $rule:ident: $check:expr;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $rule() -> anyhow::Result<()> {
            $crate::own_process!();
            $check
        }
    )*};
}

/// Used by [`own_process!`](crate::own_process!). Returns `false` in the process of the test. In
/// the harness, returns `true` after that process has succeeded. The test is the function that
/// contains the closure `_inside`.
///
/// # Panics
/// If the test fails or cannot be run.
#[must_use]
pub fn has_passed_elsewhere<F>(_inside: F) -> bool {
    let test = test_name(std::any::type_name::<F>());
    if std::env::var(VARIABLE).is_ok_and(|running| running == test) {
        return false;
    }
    if let Err(error) = run(test) {
        panic!("{error:#}");
    }
    true
}

/// Returns a command that runs the calling test once more, as a child in this role. The child
/// passes [`own_process!`](crate::own_process!), and gets the role from [`role`].
///
/// # Panics
/// If the calling process is not that of a test.
pub fn child(role: impl AsRef<OsStr>) -> Command {
    let test = std::env::var(VARIABLE).expect("own_process! is the first statement of the test");
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args(["--exact", &test, "--nocapture"]);
    command.env(ROLE, role);
    command
}

/// Returns the role that a test has given to this process with [`child`]; none in the process of
/// the test itself.
pub fn role() -> Option<OsString> {
    std::env::var_os(ROLE)
}

/// Returns the name that the harness uses for the function that contains a closure of this type.
fn test_name(closure: &str) -> &str {
    let path = closure.trim_end_matches("::{{closure}}");
    path.split_once("::").map_or(path, |(_crate, path)| path)
}

fn run(test: &str) -> anyhow::Result<()> {
    // A file, not a pipe, because processes that outlive the test may keep it open.
    let mut output = tempfile::tempfile()?;
    let mut command = Command::new(std::env::current_exe()?);
    // With one thread the harness would run the test on the main thread.
    command.args([
        "--exact",
        test,
        "--nocapture",
        "--include-ignored",
        "--test-threads=2",
    ]);
    command.env(VARIABLE, test).stdin(Stdio::null());
    command
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?);
    let child = command
        .spawn()
        .context("the process of the test cannot be started")?;
    let status = watchdog::wait(child, test)?;
    let text = read(&mut output)?;
    ensure!(
        status.success(),
        "in a process of its own, {status}:\n{text}"
    );
    ensure!(
        text.contains("test result: ok. 1 passed"),
        "the harness does not know {test}:\n{text}"
    );
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
        assert_eq!(
            running,
            "own_process::tests::a_test_runs_in_a_process_that_was_started_for_it"
        );
    }

    #[test]
    fn a_test_runs_once_more_as_a_child_in_its_role() {
        own_process!();
        if let Some(role) = role() {
            assert_eq!(role, "the child");
            std::process::exit(7);
        }
        let status = child("the child").status().unwrap();
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn a_failure_in_the_process_fails_the_test_with_its_message() {
        let error = run("own_process::tests::fails_on_purpose").unwrap_err();
        assert!(error.to_string().contains("told to fail"), "{error}");
    }

    #[test]
    #[ignore = "fails on purpose; another test runs it"]
    fn fails_on_purpose() {
        panic!("told to fail");
    }

    #[test]
    fn a_test_name_unknown_to_the_harness_is_a_failure() {
        let error = run("no::such::test").unwrap_err();
        assert!(
            error.to_string().contains("does not know no::such::test"),
            "{error}"
        );
    }

    #[test]
    fn the_test_name_is_the_path_without_crate_and_closures() {
        assert_eq!(
            test_name("all::groups::a_rule::{{closure}}"),
            "groups::a_rule"
        );
        assert_eq!(test_name("all::a_rule::{{closure}}::{{closure}}"), "a_rule");
    }
}
