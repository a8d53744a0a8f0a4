//! Tests of captures on a sign, with real processes: rows C1 to C9 of `docs/features.md`.
//!
//! The processes really crash, are killed, get signals and use memory. The order of events is known
//! from the notices of the captures, which come in the order of the signs.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::patience::{LONG, until};
use integration_tests::profile::{KILLED, Profile};
use integration_tests::session::{self, TestSession};
use integration_tests::{own, own_process};
use profiler_parent::core::groups::{Group, GroupKind};
use profiler_parent::core::marker::category;
use profiler_parent::{
    ByteLimit, CaptureCause, CaptureError, CaptureFlag, CaptureNotice, CaptureOnError,
    CapturePolicy, CaptureTrigger, Deaths, ProcessState, TriggeredCaptures, marker,
};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);

/// The captures of a test.
struct Captures {
    running: TriggeredCaptures,
    notices: Receiver<CaptureNotice>,
    directory: tempfile::TempDir,
}

impl Captures {
    /// Captures without a limit of the rate.
    fn start(session: &TestSession, trigger: CaptureTrigger) -> anyhow::Result<Self> {
        Self::start_with(session, trigger, |policy| policy)
    }

    fn start_with(
        session: &TestSession,
        trigger: CaptureTrigger,
        change: impl FnOnce(CapturePolicy) -> CapturePolicy,
    ) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let (sender, notices) = channel();
        let policy = CapturePolicy::in_directory(directory.path())
            .everything()
            .at_least_apart(Duration::ZERO)
            .on_capture(move |notice| drop(sender.send(notice.clone())));
        let running = session.session()?.capture_on(trigger, change(policy))?;
        Ok(Self {
            running,
            notices,
            directory,
        })
    }

    /// The next notice.
    fn notice(&self) -> anyhow::Result<CaptureNotice> {
        self.notices.recv_timeout(LONG).context("no capture")
    }

    /// The cause and the profile of the next capture.
    fn profile(&self) -> anyhow::Result<(CaptureCause, Profile)> {
        let notice = self.notice()?;
        let report = notice.outcome?;
        ensure!(report.path.starts_with(self.directory.path()), "{report:?}");
        Ok((notice.cause, Profile::read(&report.path)?))
    }
}

fn has_ended(session: &TestSession, pid: u32) -> bool {
    let ended = |state: &ProcessState| matches!(state, ProcessState::Exited(_));
    let all = session.processes();
    let mut of_pid = all.iter().filter(|process| process.pid.get() == pid);
    of_pid.any(|process| ended(&process.state))
}

#[test]
fn c1_a_crash_is_captured_with_the_last_data_and_other_ends_are_not() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let captures = Captures::start(&session, CaptureTrigger::crash())?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    helpers[3].ask("mark 300")?;
    for (helper, end) in helpers.iter_mut().zip(["exit 0", "exit 3", "kill"]) {
        helper.end(end)?;
        let pid = helper.pid();
        ensure!(until(|| has_ended(&session, pid)), "{end}");
    }
    helpers[3].end("segv")?;
    let (cause, profile) = captures.profile()?;
    let CaptureCause::Death(death) = &cause else {
        bail!("{cause:?}");
    };
    assert_eq!(
        (death.process.get(), death.name.as_str()),
        (helpers[3].pid(), "child-3")
    );
    assert!(
        cause.to_string().contains("crashed with signal 11"),
        "{cause}"
    );
    profile.holds(
        "child-3",
        "recovered: crashed with signal 11 (SIGSEGV)",
        300,
    )?;
    let counts = captures.running.counts();
    assert_eq!((counts.written, counts.skipped, counts.failed), (1, 0, 0));
    Ok(())
}

#[test]
fn c2_a_kill_and_an_error_code_are_failures() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let captures = Captures::start(&session, CaptureTrigger::death(Deaths::Failures))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 3)?;
    helpers[1].ask("mark 70")?;
    helpers[0].end("exit 0")?;
    let first = helpers[0].pid();
    ensure!(until(|| has_ended(&session, first)), "it does not end");
    helpers[1].end("kill")?;
    let (cause, profile) = captures.profile()?;
    assert!(cause.to_string().starts_with("child-1 "), "{cause}");
    profile.holds("child-1", KILLED, 70)?;
    helpers[2].end("exit 3")?;
    let (cause, _) = captures.profile()?;
    assert!(cause.to_string().ends_with("exited with code 3"), "{cause}");
    Ok(())
}

/// Sends a process a signal from another process.
fn send(signal: c_int, pid: u32) -> anyhow::Result<()> {
    let words = [format!("-{signal}"), pid.to_string()];
    let sent = Command::new("kill").args(words).status()?;
    ensure!(sent.success(), "it cannot be sent");
    Ok(())
}

#[test]
fn c3_a_chosen_signal_is_captured_and_a_forked_child_dies_of_it() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let captures = Captures::start(&session, CaptureTrigger::signal(libc::SIGUSR2))?;
    marker!("before", &category::TEST);
    send(libc::SIGUSR2, std::process::id())?;
    let (cause, profile) = captures.profile()?;
    assert_eq!(cause, CaptureCause::Signal(libc::SIGUSR2));
    assert_eq!(profile.parent().named("before").count(), 1);
    let forked = fork_and_wait_for_a_signal()?;
    send(libc::SIGUSR2, forked.cast_unsigned())?;
    let mut status = 0;
    // SAFETY: the status is written to a local.
    let waited = unsafe { libc::waitpid(forked, &raw mut status, 0) };
    assert_eq!((waited, libc::WTERMSIG(status)), (forked, libc::SIGUSR2));
    assert_eq!(captures.running.counts().written, 1);
    // Without captures, the signal does not end this process.
    drop(captures);
    send(libc::SIGUSR2, std::process::id())
}

/// Forks a child that only waits for signals.
fn fork_and_wait_for_a_signal() -> anyhow::Result<libc::pid_t> {
    // SAFETY: the child makes only system calls.
    let pid = unsafe { libc::fork() };
    ensure!(pid >= 0, "no child");
    if pid == 0 {
        loop {
            // SAFETY: waits.
            unsafe { libc::pause() };
        }
    }
    Ok(pid)
}

/// Raised by the handler of the test.
static FROM_HANDLER: CaptureFlag = CaptureFlag::new();

extern "C" fn handler(_: c_int) {
    FROM_HANDLER.raise();
}

#[test]
fn c4_a_handler_of_the_program_stays_and_may_raise_a_flag() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let own = handler as extern "C" fn(c_int) as *const () as usize;
    // SAFETY: the handler only changes an atomic.
    unsafe { libc::signal(libc::SIGUSR1, own) };
    let taken = CaptureTrigger::signal(libc::SIGUSR1);
    let refused = Captures::start(&session, taken).map(drop);
    let refused = refused.unwrap_err().downcast::<CaptureOnError>()?;
    let CaptureOnError::SignalTaken { signal } = refused else {
        bail!("{refused}");
    };
    assert_eq!(signal, libc::SIGUSR1);
    let captures = Captures::start(&session, CaptureTrigger::flag(&FROM_HANDLER))?;
    send(libc::SIGUSR1, std::process::id())?;
    assert_eq!(captures.notice()?.cause, CaptureCause::Flag);
    Ok(())
}

#[test]
fn c5_a_file_that_appears_is_captured_and_stays() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let place = tempfile::tempdir()?;
    let path = place.path().join("capture-now");
    let captures = Captures::start(&session, CaptureTrigger::file(&path))?;
    for text in ["a", "ab"] {
        fs::write(&path, text)?;
        let (cause, _) = captures.profile()?;
        assert_eq!(cause, CaptureCause::File(path.clone()));
        assert_eq!(fs::read_to_string(&path)?, text);
    }
    Ok(())
}

#[test]
fn c6_a_jank_is_captured_with_a_marker_for_the_slow_run() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let trigger = CaptureTrigger::jank(Duration::from_millis(200));
    let captures = Captures::start(&session, trigger)?;
    {
        let _run = Group::register(GroupKind::Plugin, "checker").enter();
        std::thread::sleep(Duration::from_millis(300));
    }
    let (cause, profile) = captures.profile()?;
    let CaptureCause::Alert(alert) = &cause else {
        bail!("{cause:?}");
    };
    assert_eq!(
        (alert.group.as_str(), alert.kind.as_str()),
        ("checker", "plugin")
    );
    ensure!(
        cause
            .to_string()
            .starts_with("the plugin \"checker\" was slow: "),
        "{cause}"
    );
    let threads = profile.parent().threads.iter();
    let mut marks = threads.flat_map(|thread| &thread.marks);
    ensure!(
        marks.any(|mark| mark.name.contains("checker")),
        "no marker for the run"
    );
    Ok(())
}

#[test]
fn c7_memory_above_a_line_is_captured() -> anyhow::Result<()> {
    own_process!();
    const MORE: usize = 200 << 20;
    let session = session::start(|builder| builder)?;
    let line = own::resident_bytes() + (MORE as u64) / 2;
    let captures = Captures::start(&session, CaptureTrigger::memory_of_a_process(line))?;
    // Touched, so that it is resident.
    let memory = vec![1_u8; MORE];
    let CaptureCause::MemoryOfProcess { process, bytes, .. } = captures.notice()?.cause else {
        bail!("another cause");
    };
    assert_eq!(process.get(), std::process::id());
    assert!(bytes > line, "{bytes} of {line}");
    assert_eq!(memory.last(), Some(&1));
    Ok(())
}

/// Raised by the tests of the policy, each of which has its own process.
static FLAG: CaptureFlag = CaptureFlag::new();

/// The files in a directory, in the order of their names.
fn files(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

#[test]
fn c8_the_newest_profiles_are_kept_and_signs_within_the_time_are_counted() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let flag = || CaptureTrigger::flag(&FLAG);
    let captures = Captures::start_with(&session, flag(), |policy| policy.kept(2))?;
    let foreign = "capture-1-1-0001-flag.json.gz";
    fs::write(
        captures.directory.path().join(foreign),
        "of another program",
    )?;
    let mut written = Vec::new();
    for _ in 0..4 {
        FLAG.raise();
        written.push(captures.notice()?.outcome?.path);
    }
    let kept = written.split_off(2);
    assert_eq!(captures.running.files(), kept);
    let mut expected = vec![captures.directory.path().join(foreign)];
    expected.extend(kept);
    assert_eq!(files(captures.directory.path())?, expected);
    drop(captures);
    let rare = Captures::start_with(&session, flag(), |policy| policy.at_least_apart(NEVER))?;
    (0..3).for_each(|_| FLAG.raise());
    rare.notice()?;
    (0..4).for_each(|_| FLAG.raise());
    let all_counted = || {
        let counts = rare.running.counts();
        (counts.written, counts.skipped, counts.failed) == (1, 6, 0)
    };
    ensure!(until(all_counted), "{:?}", rare.running.counts());
    Ok(())
}

#[test]
fn c9_no_thread_of_the_program_waits_for_a_capture() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let (begin, begun) = channel();
    let (release, released) = channel::<()>();
    let held = std::sync::Mutex::new((begin, released));
    let captures = Captures::start_with(&session, CaptureTrigger::flag(&FLAG), |policy| {
        policy.configure(move |capture| {
            let held = held.lock().expect("no panic");
            let _ = held.0.send(());
            let _ = held.1.recv(); // held until the test ends it
            capture
        })
    })?;
    FLAG.raise();
    begun.recv_timeout(LONG)?;
    // A wait for the capture would last to the end of the test.
    FLAG.raise();
    assert_eq!(captures.running.counts().written, 0);
    let Captures {
        running, notices, ..
    } = captures;
    drop(running);
    session.end();
    drop(release);
    let outcome = notices.recv_timeout(LONG)?.outcome;
    let is_over = |error: &CaptureError| matches!(error, CaptureError::SessionOver);
    ensure!(
        outcome.as_ref().is_err_and(|error| is_over(error)),
        "{outcome:?}"
    );
    own::no_profiler_thread_remains()
}

#[test]
fn c9_a_panic_and_a_missing_directory_cost_one_capture_each() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let count = std::sync::atomic::AtomicU32::new(0);
    let captures = Captures::start_with(&session, CaptureTrigger::flag(&FLAG), |policy| {
        policy.configure(move |capture| {
            let before = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert_ne!(before, 0, "panic of the test");
            capture
        })
    })?;
    FLAG.raise();
    let first = captures.notice()?.outcome;
    let is_panic = |error: &CaptureError| matches!(error, CaptureError::Panicked);
    ensure!(
        first.as_ref().is_err_and(|error| is_panic(error)),
        "{first:?}"
    );
    fs::remove_dir_all(captures.directory.path())?;
    FLAG.raise();
    let second = captures.notice()?.outcome;
    let is_output = |error: &CaptureError| matches!(error, CaptureError::Output(_));
    ensure!(
        second.as_ref().is_err_and(|error| is_output(error)),
        "{second:?}"
    );
    let last = captures.running.last_error().context("no error")?;
    ensure!(is_output(&last), "{last}");
    fs::create_dir(captures.directory.path())?;
    FLAG.raise();
    captures.notice()?.outcome?;
    let counts = captures.running.counts();
    assert_eq!((counts.written, counts.skipped, counts.failed), (1, 0, 2));
    Ok(())
}

#[test]
fn c9_what_cannot_start_is_a_typed_error() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let start = |trigger, name: &str| {
        let started = Captures::start_with(&session, trigger, |policy| policy.name(name));
        let error = started.map(drop).unwrap_err().downcast::<CaptureOnError>();
        error.expect("an error of the start")
    };
    let reserved = start(CaptureTrigger::signal(libc::SIGTERM), "capture");
    assert!(
        matches!(reserved, CaptureOnError::SignalReserved { .. }),
        "{reserved}"
    );
    let none = start(CaptureTrigger::signal(1_000), "capture");
    assert!(matches!(none, CaptureOnError::Signal { .. }), "{none}");
    let all = || CaptureTrigger::memory_of_all(ByteLimit::mib(1 << 20));
    let name = start(all(), "../capture");
    assert!(matches!(name, CaptureOnError::Name { .. }), "{name}");
    let file = session.path("file");
    fs::write(&file, "")?;
    let below = CapturePolicy::in_directory(file.join("below"));
    let directory = session.session()?.capture_on(all(), below).map(drop);
    let is_directory = matches!(directory, Err(CaptureOnError::Directory { .. }));
    ensure!(is_directory, "{directory:?}");
    Ok(())
}
