//! Tests that POSIX locks of the host survive the profiler, in the parent and in a child.
//!
//! Closing any descriptor of a file releases all locks that the process holds on the file, so the
//! profiler must not close descriptors that it did not make. The process of the test is the host of
//! the parent.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::locks::{self, Extent};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session;
use profiler_parent::Format;
use profiler_parent::core::session::Features;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Another process, which can see the locks of this process.
struct Witness {
    helper: HelperProcess,
    /// The command whose answer names the process that holds the lock.
    question: String,
}

impl Witness {
    fn check(&mut self, when: &str) -> anyhow::Result<()> {
        let answer = self.helper.ask(&self.question)?;
        ensure!(
            answer == format!("ok {}", std::process::id()),
            "{when}: {answer}"
        );
        Ok(())
    }
}

/// Creates a file and takes a lock on it.
fn locked(path: &Path) -> anyhow::Result<File> {
    let file = File::create_new(path)?;
    locks::take(&file)?;
    Ok(file)
}

#[test]
fn a_lock_of_the_host_survives_children_captures_and_the_end_of_the_session() -> anyhow::Result<()>
{
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let path = session.path("lock");
    let file = locked(&path)?;
    let question = format!("locker {}", path.display());
    let mut witness = Witness {
        helper: HelperProcess::spawn_as(&session, CHILD, "witness", "no-init")?,
        question,
    };
    witness.check("before")?;
    let mut trusted = HelperProcess::spawn(&session, CHILD, "trusted", "init")?;
    witness.check("after a child connected")?;
    let untrusted = HelperProcess::spawn_untrusted(&session, CHILD, "untrusted", "init")?;
    witness.check("after a child that is not trusted connected")?;
    let mut silent = HelperProcess::spawn_as(&session, CHILD, "silent", "no-init")?;
    silent.child.kill()?;
    trusted.ask("record 1 10")?;
    session.capture_gecko()?;
    witness.check("after a capture in the Gecko format")?;
    session.capture()?;
    witness.check("after a capture in the processed format")?;
    ensure!(trusted.end("exit 0")?.success(), "it does not end in order");
    drop(untrusted);
    witness.check("after children ended")?;
    session.end();
    witness.check("after the session")?;
    drop(file);
    Ok(())
}

#[test]
fn a_lock_of_the_host_on_its_own_executable_survives_the_reading_of_symbols() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder.features(Features::STACK_WALK))?;
    let path = std::env::current_exe()?;
    let file = File::open(&path)?;
    // Another run of this test may lock the same executable, so each run locks its own byte.
    let offset = std::process::id().into();
    locks::take_shared(&file, Extent::Byte(offset))?;
    let question = format!("byte-locker {} {offset}", path.display());
    let mut witness = Witness {
        helper: HelperProcess::spawn_as(&session, CHILD, "witness", "no-init")?,
        question,
    };
    witness.check("before")?;
    // Symbols are looked up only for samples, so this program must be sampled.
    let mut capture = || {
        add_up_for_a_while();
        let saved = session
            .session()?
            .capture()
            .format(Format::Processed)
            .save(session.path("profile.json"))?;
        witness.check("after a capture with symbols")?;
        anyhow::Ok(std::fs::read_to_string(saved.path)?.contains("add_up_for_a_while"))
    };
    let mut is_named = Ok(false);
    ensure!(until(|| {
        is_named = capture();
        !matches!(is_named, Ok(false))
    }));
    is_named?;
    drop(file);
    Ok(())
}

#[inline(never)]
fn add_up_for_a_while() {
    (0..20_000_000_u64).fold(0, |sum, number| std::hint::black_box(sum ^ number));
}

#[test]
fn a_lock_of_a_child_survives_its_profiler() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let path = session.path("lock");
    std::fs::write(&path, "")?;
    for trusted in [true, false] {
        let spawn = if trusted {
            HelperProcess::spawn_as
        } else {
            HelperProcess::spawn_untrusted
        };
        let mut child = spawn(&session, CHILD, "child", "no-init")?;
        let mut witness = HelperProcess::spawn_as(&session, CHILD, "witness", "no-init")?;
        let pid = child.pid();
        let mut check = |when: &str| {
            let answer = witness.ask(&format!("locker {}", path.display()))?;
            ensure!(answer == format!("ok {pid}"), "{when}: {answer}");
            anyhow::Ok(())
        };
        child.ask(&format!("lock {}", path.display()))?;
        check("before init")?;
        child.ask("init")?;
        check("after init")?;
        child.ask("record 1 10")?;
        session.capture()?;
        check("after a capture")?;
        child.end("exit 0").context("it ends")?;
    }
    Ok(())
}
