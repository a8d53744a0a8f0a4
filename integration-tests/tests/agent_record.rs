//! Tests of `profiler record` with programs that do not contain the profiler.
//!
//! They run as without the command: same output, same exit code. Every process is in the one
//! profile, with its samples.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use integration_tests::foreign::{Recorded, Workplace, is_installed};
use integration_tests::profile::{Process, Profile};
use integration_tests::{own_process, tools};

use crate::command_record_support::CHILD;

/// Uses processor time for about as many milliseconds as its argument says.
pub(crate) const SPIN: &str = r#"
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) static double spin(long milliseconds) {
    volatile double sum = 0;
    while (clock() < milliseconds * (CLOCKS_PER_SEC / 1000)) {
        for (int i = 0; i < 10000; i++) sum += i;
    }
    return sum;
}
int main(int count, char **words) {
    return spin(count > 1 ? atol(words[1]) : 1) < 0;
}
"#;

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Checks that a program does the same with and without the command.
pub(crate) fn does_the_same(place: &Workplace, program: &[&str]) -> anyhow::Result<Recorded> {
    let alone = place.run(program)?;
    let recorded = place.record(program)?;
    let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        string(&recorded.output.stdout),
        string(&alone.stdout),
        "{program:?}"
    );
    assert_eq!(
        recorded.error_of_program(),
        string(&alone.stderr).trim_end(),
        "{program:?}"
    );
    let code = alone.status.code();
    assert_eq!(recorded.output.status.code(), code, "{program:?}");
    Ok(recorded)
}

#[test]
fn a_program_that_knows_nothing_is_recorded_with_its_stacks() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let recorded = place.record(&[text(&spin), "3000"])?;
    assert_eq!(recorded.output.status.code(), Some(0));
    let profile = recorded.profile()?;
    let process = profile.process("spin")?;
    let main = process.thread("GeckoMain")?;
    let used: u64 = main
        .samples
        .all
        .iter()
        .filter_map(|sample| sample.cpu_ns)
        .sum();
    assert!(used >= 2_910_000_000, "{used} ns of three seconds");
    let in_program = |stack: Vec<&str>| stack.iter().any(|frame| frame.starts_with("spin+"));
    let mut stacks = main.samples.all.iter();
    assert!(stacks.any(|sample| in_program(main.samples.stack(sample))));
    Ok(())
}

#[test]
fn every_process_below_a_shell_is_in_one_profile() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let script = "ls / >/dev/null; seq 3 | tr 1 2; cat </dev/null; \"$0\" 400; exit 3";
    let recorded = does_the_same(&place, &["bash", "-c", script, text(&spin)])?;
    assert_eq!(recorded.output.status.code(), Some(3));
    for name in ["bash", "ls", "seq", "tr", "cat", "spin"] {
        assert_eq!(recorded.verdicts(name)?.len(), 1, "{name}");
    }
    Ok(())
}

/// Whether the profile has a process of this name with at least this much processor time, in
/// nanoseconds.
pub(crate) fn has_used(profile: &Profile, name: &str, least: u64) -> bool {
    let mut named = profile
        .processes
        .iter()
        .filter(|process| process.name == name);
    named.any(|process| used_by(process) >= least)
}

/// The processor time in the samples of a process, in nanoseconds.
pub(crate) fn used_by(process: &Process) -> u64 {
    let samples = process.threads.iter();
    let samples = samples.flat_map(|thread| &thread.samples.all);
    samples.filter_map(|sample| sample.cpu_ns).sum()
}

#[test]
fn a_program_with_low_limits_keeps_what_it_has_and_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    for limit in ["-n 4", "-n 12", "-v 100000", "-d 20000", "-u 1"] {
        let script = format!("(ulimit {limit}; exec \"$0\" 200); exit $?");
        let recorded = does_the_same(&place, &["sh", "-c", &script, text(&spin)])?;
        let is_recorded = has_used(&recorded.profile()?, "spin", 194_000_000);
        assert!(is_recorded, "{limit}: {:?}", recorded.verdicts("spin")?);
    }
    Ok(())
}

#[test]
fn a_program_that_ends_at_once_has_a_profile() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    for program in ["true", "false"] {
        let recorded = place.record(&[program])?;
        let profile = recorded.profile()?;
        assert_eq!(
            recorded.verdicts(program)?,
            ["complete"],
            "{}",
            recorded.said()
        );
        assert!(profile.process(program).map(used_by)? > 0);
        std::fs::remove_file(place.path().join("out.json"))?;
    }
    Ok(())
}

#[test]
fn a_program_behind_another_one_is_recorded() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let ways: [&[&str]; 6] = [
        &["sh", "-c", "exec \"$0\" 1500"],
        &["sh", "-c", "\"$0\" 1500; exit 3"],
        &["sh", "-c", "\"$0\" 1500 & wait"],
        &["env", "A=1"],
        &["timeout", "600"],
        &["setsid", "-w"],
    ];
    for way in ways.into_iter().filter(|words| is_installed(words[0])) {
        let mut program = way.to_vec();
        program.push(text(&spin));
        if way[0] != "sh" {
            program.push("1500");
        }
        let recorded = does_the_same(&place, &program)?;
        let is_recorded = has_used(&recorded.profile()?, "spin", 1_455_000_000);
        assert!(is_recorded, "{way:?}: {:?}", recorded.verdicts("spin")?);
    }
    Ok(())
}

#[test]
fn a_copied_command_has_its_library() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &[])?;
    let copied = place.path().join("copied");
    std::fs::copy(tools::profiler()?, &copied)?;
    let output = Command::new(&copied)
        .args(["record", "-o", "copied.json", "--"])
        .arg(&spin)
        .arg("400")
        .current_dir(place.path())
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .output()?;
    assert!(output.status.success(), "{output:?}");
    assert!(place.path().join("copied.json").exists(), "{output:?}");
    Ok(())
}

#[test]
fn programs_do_the_same_as_without_the_command() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let programs: [&[&str]; 7] = [
        &["printf", "%s\\n", "text"],
        &["ls", "/no/such/directory"],
        &["sh", "-c", "echo out; echo error >&2; exit 9"],
        &[
            "sh",
            "-c",
            "exec 3>/dev/null; echo three >&3; kill -TERM $$",
        ],
        &[
            "bash",
            "-c",
            "for i in 1 2 3; do (echo $i; exit $i); done; wait",
        ],
        &[
            "python3",
            "-c",
            "import threading; print(threading.active_count())",
        ],
        &["git", "--version"],
    ];
    for program in programs.into_iter().filter(|words| is_installed(words[0])) {
        if program.last().is_some_and(|script| script.contains("kill")) {
            let recorded = place.record(program)?;
            assert_eq!(recorded.output.status.signal(), Some(15));
        } else {
            does_the_same(&place, program)?;
        }
    }
    Ok(())
}

#[test]
fn a_program_that_contains_the_profiler_uses_its_own() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let script = format!("'{CHILD}' mark-and-exit && '{CHILD}' mark-and-exit");
    let recorded = place.record(&["sh", "-c", &script])?;
    assert_eq!(
        recorded.output.status.code(),
        Some(0),
        "{}",
        recorded.said()
    );
    let profile = recorded.profile()?;
    let children = profile.processes.iter();
    let children = children.filter(|process| process.name == "child");
    let numbers: Vec<usize> = children
        .map(|process| process.named("numbered").count())
        .collect();
    assert_eq!(
        numbers,
        [100, 100],
        "one process each, with its own markers"
    );
    Ok(())
}

#[test]
fn a_library_that_is_preloaded_already_stays_and_is_the_first() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let program = ["sh", "-c", "echo \"$LD_PRELOAD\""];
    let recorded = place.record_by(&[], &program, |command| {
        command.env("LD_PRELOAD", "libm.so.6");
    })?;
    let said = String::from_utf8(recorded.output.stdout)?;
    assert!(said.starts_with("libm.so.6:/"), "{said}");
    assert!(
        said.trim_end().ends_with("/libprofiler_observed.so"),
        "{said}"
    );
    Ok(())
}

#[test]
fn many_short_programs_are_all_recorded_and_leave_nothing() -> anyhow::Result<()> {
    own_process!();
    const PROGRAMS: usize = 300;
    let place = Workplace::new()?;
    let runtime = place.path().join("runtime");
    std::fs::create_dir(&runtime)?;
    std::fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700))?;
    let script = format!("for i in $(seq {PROGRAMS}); do /bin/true || exit 1; done");
    let recorded = place.record_by(&[], &["sh", "-c", &script], |command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    })?;
    assert_eq!(recorded.output.status.code(), Some(0));
    assert_eq!(recorded.error_of_program(), "");
    let verdicts = recorded.verdicts("true")?;
    assert_eq!(verdicts.len(), PROGRAMS);
    assert!(
        verdicts.iter().all(|verdict| verdict == "complete"),
        "{verdicts:?}"
    );
    let left = std::fs::read_dir(&runtime)?.count();
    assert_eq!(left, 0, "files of the session are left");
    Ok(())
}
