//! A program does the same with the library and without it: its output and its end.
//!
//! These programs use the signal of the timers themselves, or live at a limit.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use profiler_observed::layout::Notes;

use crate::observed::{Program, Session, compiled, run_until};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = PROGRAM.get_or_init(|| compiled("own_signal"));
    path
}

/// Runs a mode without the library and with it, and compares.
fn assert_same(arguments: &[&str]) -> (Output, Vec<Program>) {
    assert_same_of(program(), arguments)
}

fn assert_same_of(program: &Path, arguments: &[&str]) -> (Output, Vec<Program>) {
    let plain = Command::new(program).args(arguments).output().unwrap();
    let session = Session::new();
    let mut command = session.command(program);
    let (output, programs) = session.run_command(command.args(arguments));
    let seen = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status, text)
    };
    assert_eq!(seen(&output), seen(&plain), "{arguments:?}");
    assert!(!programs.is_empty(), "{arguments:?} was not recorded");
    (output, programs)
}

#[test]
fn the_signal_ends_a_program_without_a_handler_for_it() {
    for mode in ["default", "reset"] {
        let (output, _) = assert_same(&[mode]);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&output.status),
            Some(61)
        );
    }
}

#[test]
fn a_program_that_holds_the_signal_back_or_waits_for_it_gets_it() {
    for mode in ["waits", "holds-back", "sigset-holds"] {
        let (output, programs) = assert_same(&[mode]);
        assert!(output.status.success(), "{mode}: {:?}", output.status);
        let wants = Notes::WANTS_SIGNAL.0;
        assert_eq!(programs[0].header.notes & wants, wants, "{mode}");
    }
}

#[test]
fn a_handler_of_the_program_runs_with_the_flags_and_the_mask_that_it_asked_for() {
    for mode in ["interrupts", "restarts", "handler-flags"] {
        assert!(assert_same(&[mode]).0.status.success(), "{mode}");
    }
}

#[test]
fn a_child_of_vfork_changes_no_handler_of_its_parent() {
    assert_same(&["vfork-resets"]);
}

#[test]
fn a_signal_that_a_program_ignores_stays_ignored_in_the_program_that_it_executes() {
    let (output, programs) = assert_same(&["ignores"]);
    assert!(output.status.success() && programs.len() == 2);
}

#[test]
fn a_filter_at_a_bad_address_is_refused_as_without_the_library() {
    assert_same(&["bad-filters"]);
}

#[test]
fn a_thread_with_a_small_stack_can_use_all_of_it() {
    // The most that the C library leaves, to 256 bytes.
    let runs = |bytes: &usize| {
        let mut plain = Command::new(program());
        plain.args(["small-stack", &bytes.to_string()]);
        plain.output().unwrap().status.success()
    };
    let most = (256..16384).step_by(256).rev().find(runs).unwrap();
    let (_, programs) = assert_same(&["small-stack", &most.to_string()]);
    assert_ne!(programs[0].header.notes & Notes::SMALL_STACK.0, 0);
}

#[test]
fn timers_leave_most_of_the_limit_for_pending_signals_to_the_program() {
    const LIMIT: u64 = 400;
    let session = Session::new();
    // The limit counts all processes of a user: the program runs as one that has no other.
    if !crate::forks::is_root() {
        return;
    }
    use std::os::unix::fs::{PermissionsExt, chown};
    const USER: u32 = 54_321;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(session.directory.path(), open.clone()).unwrap();
    std::fs::set_permissions(program().parent().unwrap(), open).unwrap();
    chown(session.files(), Some(USER), Some(USER)).unwrap();
    let mut shell = session.command("/bin/bash".as_ref());
    shell.uid(USER).gid(USER).arg("-c").arg(format!(
        "ulimit -i {LIMIT}; exec {} timers 390",
        program().display()
    ));
    let (output, programs) = session.run_command(&mut shell);
    assert_eq!(crate::observed::printed(&output, "timers "), 100);
    let header = programs.last().unwrap().header;
    assert_eq!(header.threads, 391);
    assert!(header.threads_without_timer >= 391 - LIMIT / 4);
}

#[test]
fn a_file_that_is_cut_off_or_removed_ends_the_samples_and_not_the_program() {
    for len in [Some(0), Some(20_000), None] {
        let session = Session::new();
        let mut command = session.command(crate::observed::test_program());
        let mut child = command.args(["busy", "300"]).spawn().unwrap();
        let path = loop {
            let mut files = std::fs::read_dir(session.files()).unwrap();
            if let Some(file) = files.next() {
                break file.unwrap().path();
            }
        };
        // The program is in its loop.
        while profiler_observed::file::ObservedFile::open(&path)
            .and_then(|file| Ok(file.thread(0)?))
            .map_or(true, |row| {
                row.unwrap().sampled_cpu_ns <= row.unwrap().began_cpu_ns
            })
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        match len {
            Some(len) => {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len(len).unwrap();
            }
            None => std::fs::remove_file(&path).unwrap(),
        }
        let status = child.wait().unwrap();
        assert!(status.success(), "{len:?}: {status}");
    }
}

#[test]
fn threads_that_are_cancelled_run_their_cleanup() {
    assert!(assert_same(&["cancels"]).0.status.success());
}

#[test]
fn a_program_with_closed_descriptors_gets_the_lowest_ones() {
    assert!(assert_same(&["closed-descriptors"]).0.status.success());
}

/// Compiles a program of the tests with musl. `None` if there is no musl on this machine.
fn compiled_with_musl(name: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let headers = directory.path().join("headers");
    std::fs::create_dir(&headers).unwrap();
    // The headers of the kernel, without those of glibc.
    let machine = format!("/usr/include/{}-linux-gnu/asm", std::env::consts::ARCH);
    for (from, to) in [
        ("/usr/include/linux", "linux"),
        ("/usr/include/asm-generic", "asm-generic"),
        (&machine, "asm"),
    ] {
        std::os::unix::fs::symlink(from, headers.join(to)).unwrap();
    }
    let mut compiler = Command::new("musl-gcc");
    compiler.args([
        "-w",
        "-O1",
        "-fno-omit-frame-pointer",
        "-pthread",
        "-idirafter",
    ]);
    compiler.arg(&headers).arg("-o").arg(&path);
    compiler.arg(format!(
        "{}/tests/programs/{name}.c",
        env!("CARGO_MANIFEST_DIR")
    ));
    let output = compiler.output().ok()?;
    output.status.success().then_some((directory, path))
}

/// musl's loader calls constructors without arguments, and its functions are in other files.
#[test]
fn a_program_with_musl_is_recorded() {
    let Some((_directory, path)) = compiled_with_musl("program") else {
        return;
    };
    for (arguments, files) in [
        (["busy", "100"], 1),
        (["forks", "0"], 5),
        (["execs", "3"], 4),
    ] {
        let is_sampled = |programs: &[Program]| {
            let last = programs.last();
            files == 4 || last.is_some_and(|program| program.samples.len() > 3)
        };
        let (output, programs) = run_until(is_sampled, || {
            let session = Session::new();
            session.run_command(session.command(&path).args(arguments))
        });
        assert!(
            output.status.success() && programs.len() == files,
            "{arguments:?}: {output:?}"
        );
        assert_eq!(programs[files - 1].header.ending, 1);
        assert!(is_sampled(&programs));
    }
}

#[test]
fn a_program_with_musl_does_the_same() {
    let Some((_directory, path)) = compiled_with_musl("own_signal") else {
        return;
    };
    let modes = [
        "default",
        "waits",
        "holds-back",
        "interrupts",
        "restarts",
        "handler-flags",
        "ignores",
        "cancels",
    ];
    for mode in modes {
        assert_same_of(&path, &[mode]);
    }
}
