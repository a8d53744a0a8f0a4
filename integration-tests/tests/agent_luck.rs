//! Tests of `profiler record` with sessions that fail: the session is killed, or its directory is
//! full, is read-only, or contains files of others. The programs run on unharmed, and the profile
//! contains what could be recorded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::foreign::{Recorded, Workplace};
use integration_tests::installed::skip;
use integration_tests::patience::until;
use integration_tests::{own_process, own_process_tests, tools};
use rustix::process::{Pid, WaitOptions};

use crate::agent_record::{SPIN, has_used, text, used_by};

/// Shell commands that set `directory` to the directory of the session.
const FIND_DIRECTORY: &str = "set -e; directory=${MULTIPROCESS_PROFILER_OBSERVED##* }; ";

/// The size of a process's file in bytes: `FILE_BYTES` in `profiler-agent/observed/src/layout.rs`.
const FILE_BYTES: usize = 517 * 4096;

#[test]
fn programs_go_on_if_their_session_is_killed() -> anyhow::Result<()> {
    own_process!();
    // The programs of the killed session become children of this process.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-pthread"])?;
    let script = "echo $$ >number; mv number begun; while [ ! -e killed ]; do \"$0\" 5; done; \
        \"$0\" 100 && \"$0\" 100 & wait $! && seq 3 | cksum >result && exit 7";
    let mut session = Command::new(tools::profiler()?)
        .args(["record", "-o", "out.json", "--", "sh", "-c", script])
        .arg(&spin)
        .current_dir(place.path())
        .env("XDG_CACHE_HOME", tools::cache()?)
        .stdin(Stdio::null())
        .spawn()?;
    let begun = place.path().join("begun");
    ensure!(until(|| begun.exists()), "the program does not begin");
    session.kill()?;
    session.wait()?;
    fs::write(place.path().join("killed"), "")?;
    let pid = Pid::from_raw(fs::read_to_string(begun)?.trim().parse()?);
    let mut status = None;
    let has_ended = || {
        let ended = rustix::process::waitpid(pid, WaitOptions::NOHANG);
        status = ended.ok().flatten().map(|(_, status)| status);
        status.is_some()
    };
    ensure!(until(has_ended), "the program does not end");
    let status = status.context("no status")?;
    assert_eq!(status.exit_status(), Some(7), "{status:?}");
    let alone = place.run(&["sh", "-c", "seq 3 | cksum"])?;
    assert_eq!(fs::read(place.path().join("result"))?, alone.stdout);
    Ok(())
}

/// Records a script in a session whose directory is in a separate file system of 24 MiB, which is
/// mounted at `runtime`. `None` if that is not possible here.
fn in_own_file_system(
    place: &Workplace,
    script: &str,
    words: &[&str],
) -> anyhow::Result<Option<Recorded>> {
    let runtime = place.path().join("runtime");
    fs::create_dir(&runtime)?;
    let mount = "mount -t tmpfs -o size=24m,mode=700 runtime \"$0\"";
    if !place
        .run(&["unshare", "-rm", "true"])
        .is_ok_and(|output| output.status.success())
    {
        skip("unshare", "this user may not make namespaces")?;
        return Ok(None);
    }
    let profiler = tools::profiler()?;
    let record = format!(
        "{mount} && exec {} record -o out.json --format gecko -- sh -c \"$@\"",
        profiler.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &record]).arg(&runtime);
    command.arg(script).args(words).current_dir(place.path());
    command.env("XDG_RUNTIME_DIR", &runtime);
    command.env("XDG_CACHE_HOME", tools::cache()?);
    let output = command.stdin(Stdio::null()).output()?;
    Ok(Some(place.recorded(output)))
}

/// Waits until the session has removed the files of the last process. Their room could be used
/// again.
const AWAIT_REMOVAL: &str =
    "while ls $directory | grep -q $(printf %016x $!); do sleep 0.01; done;";

/// Checks that all programs of a script do as they should while no file can be made in the
/// session's directory, and that the programs before that and after it are recorded.
fn goes_on_without_files(prevent: &str, allow: Option<&str>) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let before = place.compile("before", SPIN, &["-pthread"])?;
    let during = place.compile("during", SPIN, &["-pthread"])?;
    let after = place.compile("after", SPIN, &["-pthread"])?;
    let script = format!(
        "{FIND_DIRECTORY} \"$0\" 100 & wait $!; {AWAIT_REMOVAL} {prevent}; \"$1\" 100; (exit 5) || code=$?; \
         \"$1\" 100 & wait $!; {}; \"$2\" 100; echo $code; exit 3",
        allow.unwrap_or(":")
    );
    let words = [text(&before), text(&during), text(&after)];
    let Some(recorded) = in_own_file_system(&place, &script, &words)? else {
        return Ok(());
    };
    let said = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
    assert_eq!(recorded.error_of_program(), "", "{said}");
    assert_eq!(recorded.output.stdout, b"5\n", "{said}");
    assert_eq!(recorded.output.status.code(), Some(3), "{said}");
    let profile = recorded.profile()?;
    assert!(has_used(&profile, "before", 97_000_000), "{said}");
    // A look at the processes may have found it.
    let outside = "it is observed from outside: it has made no file for its samples";
    let is_outside = fs::read_to_string(recorded.path())?.contains(outside);
    assert!(
        !has_used(&profile, "during", 1) || is_outside,
        "it could make a file: {said}"
    );
    assert!(said.contains("had no room for some time"), "{said}");
    if allow.is_some() {
        assert!(has_used(&profile, "after", 97_000_000), "{said}");
    }
    Ok(())
}

own_process_tests! {
    programs_run_in_a_session_whose_file_system_is_full: goes_on_without_files(
        // The session removes the files of programs that have ended some time later.
        "for i in 1 2 3 4 5 6 7 8; do while printf %4096s x >>$directory/../full; do :; done 2>/dev/null; \
         sleep 0.1; done",
        Some("rm $directory/../full"),
    );
    programs_run_in_a_session_whose_directory_is_read_only: goes_on_without_files(
        "mkdir below; mount --bind $XDG_RUNTIME_DIR below; mount -o remount,bind,ro below; \
         mount --move below $XDG_RUNTIME_DIR; if touch $directory/file 2>/dev/null; then exit 9; fi",
        None,
    );
}

/// Records a script that makes files in the directory of its session and then executes a program.
/// Checks that the session is unharmed: it ends, and its profile has all of the program's time.
fn ignores(files: &str) -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let spin = place.compile("spin", SPIN, &["-pthread"])?;
    let runtime = place.path().join("runtime");
    fs::create_dir(&runtime)?;
    fs::set_permissions(&runtime, PermissionsExt::from_mode(0o700))?;
    let script = format!("{FIND_DIRECTORY} cd \"$directory\"; {files}; exec \"$0\" 300");
    let program = ["sh", "-c", &script, text(&spin)];
    let recorded = place.record_by(&[], &program, |command| {
        command.env("XDG_RUNTIME_DIR", &runtime);
    })?;
    let said = recorded.said();
    assert_eq!(recorded.output.status.code(), Some(0), "{said}");
    assert_eq!(recorded.error_of_program(), "");
    let profile = recorded.profile()?;
    let spins = profile.processes.iter();
    let used: u64 = spins
        .filter(|process| process.name == "spin")
        .map(used_by)
        .sum();
    let own = 291_000_000..400_000_000;
    assert!(own.contains(&used), "{used}: {said}");
    let left = fs::read_dir(&runtime)?.count();
    assert_eq!(left, 0, "files of the session are left");
    Ok(())
}

/// Shell commands that make a file with the correct length and the correct beginning. All further
/// bytes are the byte `octal`.
fn filled_with(octal: &str) -> String {
    let rest = FILE_BYTES - 12;
    format!(
        "{{ printf 'mpprofob\\2\\0\\0\\0'; head -c {rest} /dev/zero | tr '\\0' '{octal}'; }} >own-1"
    )
}

own_process_tests! {
    files_that_are_too_short_are_no_programs: ignores(
        ": >empty; printf mpprofob >short; head -c 20000 /dev/zero >cut",
    );
    copies_of_a_file_that_are_cut_off_are_no_programs: ignores(
        "for bytes in 8 4096 12288 100000; do head -c $bytes \"$(ls | head -n 1)\" >cut-$bytes; done",
    );
    what_is_no_file_is_no_program: ignores(
        "mkfifo pipe; ln -s /dev/zero device; ln -s pipe link; ln -s nothing broken; mkdir below",
    );
    a_file_whose_counts_are_all_the_highest_harms_only_itself: ignores(&filled_with("\\377"));
    a_file_of_text_harms_only_itself: ignores(&filled_with("A"));
    a_file_whose_pages_are_all_claimed_once_harms_only_itself: ignores(&filled_with("\\1"));
}

#[test]
fn a_file_is_as_long_as_these_tests_assume() -> anyhow::Result<()> {
    own_process!();
    let place = Workplace::new()?;
    let script = format!("{FIND_DIRECTORY} cd \"$directory\"; wc -c <\"$(ls | head -n 1)\"");
    let recorded = place.record(&["sh", "-c", &script])?;
    let bytes = String::from_utf8(recorded.output.stdout)?;
    assert_eq!(bytes.trim().parse(), Ok(FILE_BYTES), "{bytes}");
    Ok(())
}
