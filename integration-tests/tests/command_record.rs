//! Tests of `profiler record` with real programs that end in different ways.
//!
//! The command passes streams, signals and the exit code through, writes a complete profile, and
//! overwrites no file that was not named. Each test runs the built command in an empty directory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use integration_tests::own_process;
use integration_tests::patience::Stopwatch;
use integration_tests::profile::KILLED;
use integration_tests::tools;
use rustix::process::{Pid, Signal};

use crate::command_record_support::{CHILD, PLAIN, Recording};

#[test]
fn a_program_has_its_own_streams_and_exit_code_and_all_its_entries() -> anyhow::Result<()> {
    own_process!();
    let options = [
        "--limit",
        "32M",
        "--name",
        "shown",
        "--filter",
        "worker",
        "--filter",
        "GeckoMain",
    ];
    let mut recording = Recording::of_helper(&[PLAIN.as_slice(), &options].concat())?;
    recording.ask("record 2 300")?;
    recording.ask("mark 100")?;
    recording.tell("exit 7")?;
    let ended = recording.end_with(7)?;
    let profile = ended.check("shown", &[(0, 300), (1, 300)])?;
    assert_eq!(
        profile.processes.len(),
        1,
        "the command itself is in the profile"
    );
    assert_eq!(profile.json["meta"]["product"], "shown");
    assert_eq!(profile.json["meta"]["stackwalk"], 1);
    assert!(profile.json["meta"]["arguments"].is_null());
    let configuration = &profile.json["meta"]["configuration"];
    assert_eq!(configuration["capacity"], (32 << 20) / 8);
    assert_eq!(
        configuration["threads"],
        serde_json::json!(["worker", "GeckoMain"])
    );
    let said: Vec<&str> = ended.error.lines().collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("profiler: wrote out.json ("),
        "{said:?}"
    );
    Ok(())
}

#[test]
fn a_killed_program_loses_nothing_that_it_committed() -> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::of_helper(&PLAIN)?;
    recording.ask("hold 3 200")?;
    recording.ask("mark 50")?;
    recording.tell("kill")?;
    let ended = recording.end_with(128 + 9)?;
    let profile = ended.check("child", &[(0, 200), (1, 200), (2, 200), (1000, 50)])?;
    assert_eq!(profile.verdict("child")?, KILLED);
    assert!(
        ended
            .error
            .contains("child is recovered: ended by signal 9 (SIGKILL)"),
        "{}",
        ended.error
    );
    Ok(())
}

#[test]
fn ctrl_c_ends_the_program_and_the_profile_is_complete() -> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::of_helper(&PLAIN)?;
    recording.ask("hold 2 200")?;
    recording.ask("mark 50")?;
    rustix::process::kill_process_group(recording.pid()?, Signal::INT)?;
    let ended = recording.end_with(128 + 2)?;
    let profile = ended.check("child", &[(0, 200), (1, 200), (1000, 50)])?;
    assert_eq!(
        profile.verdict("child")?,
        "recovered: ended by signal 2 (SIGINT)",
        "the signal of Ctrl-C counts as a crash"
    );
    Ok(())
}

#[test]
fn the_program_may_follow_the_options_without_dashes() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let mut recording = Recording::run(
        directory,
        &[PLAIN.as_slice(), &[CHILD, "init", "-o", "--unknown"]].concat(),
    )?;
    assert_eq!(
        recording.line()?,
        "Recording",
        "the words after the program are not its arguments"
    );
    recording.ask("mark 50")?;
    recording.tell("exit 0")?;
    let ended = recording.end_with(0)?;
    ended.check("child", &[(1000, 50)])?;
    Ok(())
}

#[test]
fn a_signal_for_the_command_alone_is_passed_on() -> anyhow::Result<()> {
    own_process!();
    for (signal, code) in [(Signal::TERM, 128 + 15), (Signal::INT, 128 + 2)] {
        let mut recording = Recording::of_helper(&PLAIN)?;
        recording.ask("mark 50")?;
        rustix::process::kill_process(recording.pid()?, signal)?;
        let ended = recording.end_with(code)?;
        ended.check("child", &[(1000, 50)])?;
    }
    Ok(())
}

/// The process number of the program that the command runs.
fn program_of(command: Pid) -> anyhow::Result<u32> {
    let parent = command.as_raw_nonzero().to_string();
    let mut pids =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_its =
        |pid: &u32| state_of(*pid).is_some_and(|state| state.split(' ').nth(1) == Some(&parent));
    pids.find(is_its).context("no program")
}

/// The state, the parent and the following fields of `/proc/PID/stat`.
fn state_of(pid: u32) -> Option<String> {
    Some(
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()?
            .rsplit_once(") ")?
            .1
            .to_owned(),
    )
}

/// Whether a process exists and is no zombie.
fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[test]
fn a_program_that_ignores_ctrl_c_is_killed_at_the_third() -> anyhow::Result<()> {
    own_process!();
    let deaf = format!("trap '' INT; exec '{CHILD}' init");
    let options = [PLAIN.as_slice(), &["--name", "deaf", "--no-agent"]].concat();
    let mut recording = Recording::start(&options, &["sh", "-c", &deaf])?;
    assert_eq!(recording.line()?, "Recording");
    recording.ask("mark 50")?;
    for _ in 0..2 {
        rustix::process::kill_process(recording.pid()?, Signal::INT)?;
        std::thread::sleep(Duration::from_millis(50)); // because the system merges pending signals
        recording.ask("paused")?; // it is alive
    }
    // On a busy machine the system may have merged two signals. The command gets no signal after
    // the program's death, because it writes the profile then, and a signal could interrupt that.
    let program = program_of(recording.pid()?)?;
    while is_alive(program) {
        rustix::process::kill_process(recording.pid()?, Signal::INT)?;
        let watch = Stopwatch::start();
        while is_alive(program) && watch.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let ended = recording.end_with(128 + 9)?;
    ended.check("deaf", &[(1000, 50)])?;
    Ok(())
}

#[test]
fn the_first_program_below_a_wrapper_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let wrapper = format!("'{CHILD}' init; exit 5");
    let mut recording = Recording::start(
        &[PLAIN.as_slice(), &["--name", "wrapped", "--no-agent"]].concat(),
        &["sh", "-c", &wrapper],
    )?;
    assert_eq!(recording.line()?, "Recording");
    recording.ask("mark 50")?;
    recording.tell("exit 0")?;
    let ended = recording.end_with(5)?;
    ended.check("wrapped", &[(1000, 50)])?;
    Ok(())
}

#[test]
fn a_program_that_cannot_be_started_leaves_a_line_and_no_file() -> anyhow::Result<()> {
    own_process!();
    let ended = Recording::start(&[], &["/nonexistent/program"])?.end_with(2)?;
    assert_eq!(ended.error.lines().count(), 1, "{}", ended.error);
    assert!(
        ended.error.contains("/nonexistent/program"),
        "{}",
        ended.error
    );
    assert_eq!(ended.files()?, [] as [&str; 0]);
    Ok(())
}

#[test]
fn a_program_without_a_profiler_and_without_the_agent_runs_and_is_reported() -> anyhow::Result<()> {
    own_process!();
    for (program, code) in [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -TERM $$"], 143),
    ] {
        let directory = tempfile::tempdir()?;
        fs::write(directory.path().join("old.json"), "an older profile")?;
        let options = ["-o", "old.json", "--no-agent"];
        let ended = Recording::start_in(directory, &options, &program)?.end_with(code)?;
        assert!(
            ended
                .error
                .contains("sh recorded nothing: it has a session of its own"),
            "{}",
            ended.error
        );
        assert_eq!(ended.error.lines().count(), 1, "{}", ended.error);
        assert_eq!(
            fs::read_to_string(ended.path("old.json"))?,
            "an older profile"
        );
        assert_eq!(ended.files()?, ["old.json"]);
    }
    Ok(())
}

#[test]
fn an_existing_file_with_the_default_name_is_not_overwritten() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("profile.json.gz"), "mine")?;
    let mut recording = Recording::start_in(directory, &[], &[CHILD, "init"])?;
    assert_eq!(recording.line()?, "Recording");
    recording.ask("mark 50")?;
    recording.tell("exit 0")?;
    let ended = recording.end_with(0)?;
    assert_eq!(ended.files()?, ["profile-2.json.gz", "profile.json.gz"]);
    assert_eq!(fs::read_to_string(ended.path("profile.json.gz"))?, "mine");
    let info = tools::info(&ended.path("profile-2.json.gz"))?;
    let rows = info["processes"].as_array().context("no rows")?;
    assert!(
        rows.iter()
            .any(|row| row["name"] == "child" && row["recorded"].as_u64() >= Some(50)),
        "{info}"
    );
    Ok(())
}

#[test]
fn unusable_options_are_reported_before_the_program_runs() -> anyhow::Result<()> {
    own_process!();
    let cases: [&[&str]; 9] = [
        &["-o", "no/such/directory/out.json"],
        &["-o", "."],
        &["--limit", "much"],
        &["--limit", "4K"],
        &["--interval", "0"],
        &["--features", "stackwalk,telepathy"],
        &["--format", "xml"],
        &["--duration", "-1"],
        &["--unknown"],
    ];
    for options in cases {
        let recording = Recording::start(options, &["sh", "-c", "touch ran"])?;
        let ended = recording
            .end_with(2)
            .with_context(|| format!("{options:?}"))?;
        let (error, lines) = (&ended.error, ended.error.lines().count());
        let is_one_line = error.starts_with("profiler: ") && lines == 1;
        assert!(is_one_line, "{options:?}: {error}");
        assert_eq!(ended.files()?, [] as [&str; 0], "{options:?}");
    }
    tools::fail(&["record"])?;
    assert!(!Path::new("profile.json.gz").exists());
    Ok(())
}

#[test]
fn help_explains_what_is_profiled_and_the_exit_code() -> anyhow::Result<()> {
    own_process!();
    let help = tools::succeed(&["record", "--help"])?;
    for said in [
        "profiler_child::init()",
        "every process below it",
        "exit code is CMD's",
        "stackwalk",
        "--groups",
        "[default: 128M]",
    ] {
        assert!(help.out.contains(said), "{said}: {}", help.out);
    }
    Ok(())
}
