//! Tests of the deaths of children at all moments: while recording, connecting and being captured.
//!
//! The profile contains exactly the entries that a child committed before its death, once, with the
//! verdict of its end. `faults_ends` tests the kinds of ends, `faults_forks` tests forks.

use profiler_core::ids::ByteLimit;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use integration_tests::acks;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{HeldUp, LONG, Stopwatch, patiently};
use integration_tests::profile::{FROZEN, KILLED, Profile};
use integration_tests::session;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn a_child_killed_at_any_moment_loses_nothing_that_it_had_committed() -> anyhow::Result<()> {
    own_process!();
    const KILLS: usize = 8;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 << 20)))?;
    let mut children = Vec::new();
    for n in 0..KILLS {
        let name = format!("child-{n}");
        let mut helper = HelperProcess::spawn(&session, CHILD, &name, "init")?;
        helper.tell("acknowledge 4")?;
        let mut acknowledged = vec![0; 16];
        helper.stdout.read_exact(&mut acknowledged)?; // it records
        // A different moment each time.
        std::thread::sleep(Duration::from_micros(3_000 + 7_919 * n as u64 % 30_000));
        helper.child.kill()?;
        assert_eq!(helper.child.wait()?.signal(), Some(libc::SIGKILL));
        acknowledged.extend(helper.rest()?);
        children.push((name, acks::counts(&acknowledged)));
    }
    for (_, profile) in session.capture_both()? {
        for (name, threads) in &children {
            assert_eq!(profile.verdict(name)?, KILLED);
            acks::check(profile.process(name)?, threads, true)?;
            assert_eq!(profile.process(name)?.counts()?.evicted, 0, "{name}");
        }
    }
    Ok(())
}

#[test]
fn a_child_killed_during_a_request_has_crashed_and_appears_once() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    for round in 0..5 {
        let mut helper = HelperProcess::spawn(&session, CHILD, &format!("killed-{round}"), "init")?;
        helper.ask("hold 2 500")?;
        assert!(helper.freeze());
        let capture = session.gecko_capture()?;
        let mut events = capture.events();
        let path = session.path("killed.json");
        let report = std::thread::scope(|scope| {
            let saving = scope.spawn(|| capture.save(&path));
            let _ = events.next(); // the requests were sent
            std::thread::sleep(Duration::from_millis(20 * round));
            helper.signal(libc::SIGKILL);
            saving.join().expect("no panic")
        })?;
        let profile = Profile::read(&report.path)?;
        let name = format!("killed-{round}");
        profile.holds(&name, KILLED, 1000)?;
    }
    Ok(())
}

#[test]
fn a_child_that_exits_during_a_capture_appears_once() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    for round in 0..5 {
        let name = format!("exits-{round}");
        let mut helper = HelperProcess::spawn(&session, CHILD, &name, "init")?;
        helper.ask("hold 2 500")?;
        let capture = session.gecko_capture()?;
        let path = session.path("exits.json");
        let report = std::thread::scope(|scope| {
            let saving = scope.spawn(|| capture.save(&path));
            std::thread::sleep(Duration::from_millis(round));
            assert!(helper.end("exit 0").is_ok_and(|status| status.success()));
            saving.join().expect("no panic")
        })?;
        let profile = Profile::read(&report.path)?;
        profile.holds(&name, "complete", 1000)?;
    }
    Ok(())
}

#[test]
fn a_child_that_ends_after_its_part_was_taken_appears_once() -> anyhow::Result<()> {
    own_process!();
    patiently(a_part_is_taken_and_its_child_ends)
}

/// Kills a child whose part was taken, while the capture still waits for a frozen child.
fn a_part_is_taken_and_its_child_ends(timeout: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(timeout))?;
    let mut quick = HelperProcess::spawn(&session, CHILD, "quick", "init")?;
    let mut slow = HelperProcess::spawn(&session, CHILD, "slow", "init")?;
    quick.ask("hold 2 500")?;
    slow.ask("hold 2 500")?;
    assert!(slow.freeze());
    let capture = session.gecko_capture()?;
    let mut events = capture.events();
    let path = session.path("once.json");
    let mut first = None;
    let report = std::thread::scope(|scope| {
        let saving = scope.spawn(|| capture.save(&path));
        first = events.find_map(|event| match event {
            profiler_parent::CaptureEvent::Settled { pid, .. } => Some(pid.get()),
            _ => None,
        });
        quick.signal(libc::SIGKILL); // the capture still waits for the other child
        saving.join().expect("no panic")
    })?;
    if first == Some(slow.pid()) {
        return Err(HeldUp("quick".to_owned()).into());
    }
    let profile = Profile::read(&report.path)?;
    assert_eq!(report.processes.len(), 3);
    profile.is_complete("quick")?;
    assert_eq!(profile.process("quick")?.counts()?.delivered, 1000);
    assert_eq!(profile.verdict("slow")?, FROZEN);
    Ok(())
}

#[test]
fn children_that_die_while_they_connect_never_delay_the_parent() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut children = Vec::new();
    for n in 0..20 {
        let mut command = std::process::Command::new(CHILD);
        command.arg("die-in-init");
        children.push(session.spawn(&format!("hasty-{n}"), command)?);
    }
    for child in &mut children {
        assert_eq!(child.wait()?.signal(), Some(libc::SIGKILL));
    }
    let watch = Stopwatch::start();
    let profiles = session.capture_both()?;
    assert!(
        watch.elapsed() < LONG,
        "a capture waited for the progress timeout"
    );
    for (_, profile) in profiles {
        for n in 0..20 {
            let name = format!("hasty-{n}");
            profile.holds(&name, KILLED, 1)?;
        }
    }
    Ok(())
}

#[test]
fn a_child_that_ended_its_profiler_continues_and_keeps_its_data() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "done", "init")?;
    helper.ask("hold 2 100")?;
    helper.ask("shutdown")?;
    helper.ask("mark 50")?;
    for _ in 0..2 {
        for (_, profile) in session.capture_both()? {
            profile.holds("done", "complete", 200)?;
        }
        helper.tell("exit 0")?;
        assert!(helper.child.wait().expect("a status").success());
        helper = HelperProcess::spawn(&session, CHILD, "next", "init")?;
    }
    Ok(())
}

/// A process closes its files before its exit status is available. A capture right after the end of
/// its output must still report the death. In a few rounds the system may provide the status too
/// late.
#[test]
fn a_capture_after_the_end_of_a_child_s_output_reports_its_death() -> anyhow::Result<()> {
    own_process!();
    const ROUNDS: usize = 30;
    let session = session::start(|builder| builder)?;
    let mut verdicts = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("child-{round}");
        let mut helper = HelperProcess::spawn(&session, CHILD, &name, "init")?;
        helper.ask("record 1 10")?;
        helper.signal(libc::SIGKILL);
        helper.rest()?;
        let report = session
            .session()?
            .capture()
            .save(session.path("death.json"))?;
        let process = report
            .processes
            .into_iter()
            .find(|process| process.name == name);
        verdicts.push(
            process
                .map(|process| process.verdict.to_string())
                .unwrap_or_default(),
        );
    }
    let right = verdicts.iter().filter(|verdict| *verdict == KILLED).count();
    assert!(right >= ROUNDS - 3, "{verdicts:?}");
    Ok(())
}
