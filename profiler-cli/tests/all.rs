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
    (
        &["record", "--metrics", "0.0.0.0:0", "--", "touch", "started"],
        "0.0.0.0:0 is not a loopback address",
    ),
    (
        &["record", "--metrics-token", "token", "--", "true"],
        "--metrics <ADDR>",
    ),
    (&["record", "--limit", "much", "--", "true"], "--limit"),
    (
        &["export", "profile.json", "--to", "paper"],
        "[possible values: cpuprofile, speedscope",
    ),
    (
        &["diff", "a.json", "b.json", "--fail-above", "101"],
        "--fail-above <POINTS>': expected a number from 0 to 100",
    ),
    (
        &["diff", "a.json", "b.json", "--min-change", "much"],
        "expected a number from 0 to 100",
    ),
    (&["top"], "PROFILER_LIVE_URL"),
];

const WRONG_FILES: &[Case] = &[
    (&["info", "missing.json.gz"], "missing.json.gz"),
    (&["info", "other.json"], "other.json is not a profile"),
    (
        &["diff", "missing.json", "other.json"],
        "cannot read missing.json",
    ),
    (&["diff", "other.json", "."], "other.json is not a profile"),
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
    (
        &[
            "record",
            "--metrics",
            "0",
            "--metrics-token",
            "other.json",
            "--",
            "touch",
            "started",
        ],
        "other.json",
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

/// A profile of one thread with 2,000 samples in `main` itself, and one in `slow` after each
/// `every`-th of them.
fn profile(every: usize) -> String {
    let after = |n: usize| {
        if n.is_multiple_of(every) {
            &["0", "1"][..]
        } else {
            &["0"]
        }
    };
    let stacks: Vec<&str> = (0..2000).flat_map(after).copied().collect();
    format!(
        r#"{{"meta": {{"preprocessedProfileVersion": 66, "interval": 1}}, "threads": [{{"pid": "1",
        "processName": "app", "samples": {{"stack": [{}], "timeDeltas": [{}]}}}}],
        "shared": {{"stackTable": {{"frame": [0, 1], "prefix": [null, 0]}}, "frameTable": {{"func": [0, 1]}},
        "funcTable": {{"name": [0, 1]}}, "stringArray": ["main", "slow"]}}}}"#,
        stacks.join(","),
        vec!["1"; stacks.len()].join(","),
    )
}

#[test]
fn a_share_that_grew_by_more_than_the_given_points_gives_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    for (side, every) in [("old", 9), ("new", 3)] {
        let side = directory.path().join(side);
        std::fs::create_dir(&side).unwrap();
        for run in ["1.json", "2.json", "3.json"] {
            std::fs::write(side.join(run), profile(every)).unwrap();
        }
    }
    let diff = |words: &[&str]| {
        let output = profiler(directory.path(), &[&["diff"], words].concat());
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, table, error) = diff(&["old", "new", "--fail-above", "5"]);
    assert_eq!(code, Some(1), "{error}");
    assert_eq!(
        error,
        "profiler: slow in app: 10.0 % before, 25.0 % after (223.0 and 667.0 ms)\n"
    );
    assert!(table.contains("+15.0 *"), "{table}");
    for passes in [
        &["old", "new", "--fail-above", "20"][..],
        // The share of `main` grows, but `main` takes as much time as before.
        &["new", "old", "--fail-above", "5"],
        &["old", "new"],
    ] {
        let (code, _, error) = diff(passes);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{passes:?}");
    }
    let (code, _, error) = diff(&["old/1.json", "new", "--fail-above", "5"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(
        error.contains("at least 3 profiles on each side"),
        "{error}"
    );
    let (code, _, error) = diff(&["old", "new", "--by", "cpu"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("has no processor times"), "{error}");
    let (_, json, _) = diff(&["old", "new", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let share = &json["processes"][0]["functions"][0]["wall"]["self"];
    assert_eq!(share["is_more_than_noise"], true, "{json}");
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
