//! Tests of the command `profiler` with wrong arguments, wrong files and an output that cannot be
//! written: one line on standard error, exit code 2, and no file is written.

use std::path::Path;
use std::process::{Command, Output};

fn profiler(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    command
        .args(words)
        .current_dir(directory)
        .env_remove("PROFILER_LIVE_URL");
    command.output().unwrap()
}

/// The words of a command, and what its error contains.
type Case = (&'static [&'static str], &'static str);

const WRONG_ARGUMENTS: &[Case] = &[
    (&[], "no subcommand"),
    (&["fly"], "unrecognized subcommand 'fly'"),
    (&["record", "--interval", "-1", "--", "true"], "--interval"),
    (&["record", "--interval", "0", "--", "true"], "--interval"),
    (
        &["record", "--overhead-budget", "0", "--", "true"],
        "--overhead-budget <PERCENT>': not a number above 0",
    ),
    (
        &["record", "--overhead-budget", "-1", "--", "true"],
        "--overhead-budget",
    ),
    (
        &["record", "--overhead-budget", "101", "--", "true"],
        "must be between 0.01 and 100 percent",
    ),
    (
        &["record", "--overhead-budget", "much", "--", "true"],
        "--overhead-budget",
    ),
    (&["record", "--limit", "much", "--", "true"], "--limit"),
    (
        &["export", "profile.json", "--to", "paper"],
        "[possible values: cpuprofile, speedscope",
    ),
    (&["top"], "PROFILER_LIVE_URL"),
];

const WRONG_FILES: &[Case] = &[
    (&["info", "missing.json.gz"], "missing.json.gz"),
    (&["info", "other.json"], "other.json is not a profile"),
    (
        &["view", "--no-open", "other.json"],
        "other.json is not a profile",
    ),
    (
        &["export", "other.json", "--to", "folded"],
        "other.json is not a profile",
    ),
    (
        &["export", "other.json", "--to", "folded", "-o", "-"],
        "cannot export to standard output",
    ),
    (
        &["import", "other.json"],
        "other.json is not a .cpuprofile file",
    ),
    (&["recover", "missing", "-o", "out.json"], "missing"),
    (
        &["record", "-o", "missing/out.json", "--", "touch", "started"],
        "missing/out.json",
    ),
    (
        &["record", "-o", "out.json", "--", "./missing"],
        "./missing",
    ),
];

#[test]
fn a_wrong_argument_or_file_gives_one_line_and_exit_code_2_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("other.json"), r#"{"a": 1}"#).unwrap();
    for (words, why) in WRONG_ARGUMENTS.iter().chain(WRONG_FILES) {
        let output = profiler(directory.path(), words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(
            error.starts_with("profiler: ") && error.contains(why),
            "{words:?}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{words:?}: {error}");
        assert!(
            !error.contains("tip:") && !error.contains("Usage"),
            "{words:?}: {error}"
        );
    }
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert_eq!(left, ["other.json"]);
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_not() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    let output = command.arg("--help").stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot write to standard output"), "{error}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_profiler"));
    let output = command.arg("--help").stdout(writer).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
