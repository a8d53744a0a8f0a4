//! Tests of payloads that hang, panic, record or end their process while they are serialised.
//!
//! Only the thread of the payload is affected, and loses at most this one entry. Captures, pauses,
//! the end of the session and the exit of the child do not wait for it. The payloads are in
//! `src/bin/child/traps.rs`.

use std::time::Duration;

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::patience::{patiently, until};
use integration_tests::profile::{FROZEN, KILLED, LoggedCounts, Profile};
use integration_tests::reports::captured;
use integration_tests::{own_process, own_process_tests};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// A child that has carried out `command`, which springs a trap.
fn trapped(scene: &Fixture, command: &str) -> anyhow::Result<HelperProcess> {
    let mut helper = scene.child("faulty", "init")?;
    helper.ask(command)?;
    Ok(helper)
}

fn counts_of_trapped(profile: &Profile) -> anyhow::Result<LoggedCounts> {
    Ok(profile.process("faulty")?.counts_of("trapped").clone())
}

/// Checks the counts of a thread that recorded ten markers and a harmless payload, and hangs in the
/// next payload.
fn hangs(profile: &Profile) -> anyhow::Result<()> {
    let counts = counts_of_trapped(profile)?;
    assert_eq!(
        (counts.recorded, counts.delivered, counts.unfinished),
        (12, 11, 1),
        "{counts:?}"
    );
    assert_eq!(
        profile.process("faulty")?.numbers()?[&3000],
        (0..10).collect::<Vec<_>>()
    );
    Ok(())
}

/// One thread never returns from its payload. The other threads of the child continue. Captures,
/// pauses and the exit of the child do not wait for it.
fn holds_only_its_own_thread(kind: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, &format!("trap {kind}"))?;
    helper.ask("hold 2 500")?;
    for round in 1..=2 {
        for (_, profile) in scene.capture_both()? {
            assert_eq!(profile.verdict("faulty")?, "complete");
            hangs(&profile)?;
            assert_eq!(profile.process("faulty")?.numbers()?[&1].len(), 500 * round);
        }
        assert!(
            scene.all_pause() && scene.all_resume(),
            "a process does not confirm"
        );
        helper.ask("hold 2 500")?;
    }
    // The exit of the child does not wait for the thread; otherwise this call would not return.
    assert!(helper.end("exit 0")?.success());
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("faulty")?, "complete");
        hangs(&profile)?;
    }
    scene.end()
}

own_process_tests! {
    a_payload_that_sleeps_without_end_holds_only_its_own_thread: holds_only_its_own_thread("sleep");
    a_payload_that_spins_without_end_holds_only_its_own_thread: holds_only_its_own_thread("spin");
    a_payload_that_waits_for_a_lock_without_end_holds_only_its_own_thread:
        holds_only_its_own_thread("lock");
    a_thread_that_vanishes_in_the_middle_of_an_entry_leaves_one_unfinished:
        holds_only_its_own_thread("vanish");
}

#[test]
fn a_payload_that_hangs_before_its_type_is_known_holds_only_its_own_thread() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, "first-trap sleep")?;
    helper.ask("hold 2 500")?;
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("faulty")?, "complete");
        let counts = counts_of_trapped(&profile)?;
        assert_eq!(
            (counts.recorded, counts.delivered),
            (10, 10),
            "the hanging entry is counted before it begins: {counts:?}"
        );
    }
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_session_that_ends_does_not_wait_for_a_payload_that_hangs() -> anyhow::Result<()> {
    own_process!();
    let scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, "trap sleep")?;
    scene.end()?;
    assert!(helper.stops_recording(), "the child did not stop recording");
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

#[test]
fn a_child_killed_in_the_middle_of_an_entry_loses_only_that_entry() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.end("trap kill")?;
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("faulty")?, KILLED);
        hangs(&profile)?;
    }
    scene.end()
}

#[test]
fn a_child_stopped_in_the_middle_of_an_entry_is_recovered_and_finishes_it_later()
-> anyhow::Result<()> {
    own_process!();
    patiently(stops_in_the_middle_of_an_entry)
}

fn stops_in_the_middle_of_an_entry(timeout: Duration) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder.progress_timeout(timeout))?;
    let mut helper = scene.child("faulty", "init")?;
    helper.tell("trap stop")?;
    assert!(until(
        || integration_tests::own::state_of(helper.pid()) == Some('T')
    ));
    for _ in 0..2 {
        let (_, profile) = scene.capture_gecko()?;
        assert_eq!(profile.verdict("faulty")?, FROZEN);
        hangs(&profile)?;
        // The parent reads the memory of a stopped child like that of any other.
        let (_, profile) = scene.capture()?;
        assert_eq!(profile.verdict("faulty")?, "complete");
        hangs(&profile)?;
    }
    helper.signal(libc::SIGCONT);
    helper.line()?;
    helper.ask("hold 2 500")?;
    let finished = |counts: &LoggedCounts| {
        (counts.recorded, counts.delivered, counts.unfinished) == (22, 22, 0)
    };
    let mut last = LoggedCounts::default();
    // The child may still answer the abandoned captures first.
    assert!(until(|| {
        let captured = scene.capture_gecko().and_then(|(_, profile)| {
            last = counts_of_trapped(&profile)?;
            profile.verdict("faulty")
        });
        captured.is_ok_and(|verdict| verdict == "complete") && finished(&last)
    }));
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_payload_that_panics_is_counted_as_dropped_every_time() -> anyhow::Result<()> {
    own_process!();
    for first in ["trap panic", "first-trap panic"] {
        let mut scene = Fixture::set(CHILD, |builder| builder)?;
        let mut helper = trapped(&scene, first)?;
        for (report, profile) in scene.capture_both()? {
            assert_eq!(profile.verdict("faulty")?, "complete");
            let counts = captured(&report, "faulty").counts;
            let harmless = u64::from(first == "trap panic");
            assert_eq!(
                (counts.recorded(), counts.delivered),
                (21 + harmless, 20 + harmless),
                "{first}: {counts:?}"
            );
        }
        assert!(helper.end("exit 0")?.success());
        scene.end()?;
    }
    Ok(())
}

#[test]
fn a_payload_that_records_is_counted_and_does_not_hang() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, "trap record")?;
    for (report, profile) in scene.capture_both()? {
        let counts = captured(&report, "faulty").counts;
        assert_eq!(
            (counts.recorded(), counts.delivered),
            (23, 22),
            "the inner entry is not counted as dropped: {counts:?}"
        );
        assert_eq!(counts_of_trapped(&profile)?.delivered, 22);
    }
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_process_that_exits_from_within_a_payload_exits() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    assert!(helper.end("trap exit")?.success());
    for (_, profile) in scene.capture_both()? {
        assert_eq!(profile.verdict("faulty")?, "complete");
        hangs(&profile)?;
    }
    scene.end()
}

#[test]
fn a_deadlocked_main_thread_delays_no_capture_and_no_pause() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("hold 2 500")?;
    helper.ask("mark 50")?;
    helper.tell("deadlock")?;
    for _ in 0..2 {
        for (_, profile) in scene.capture_both()? {
            profile.holds("faulty", "complete", 1050)?;
        }
        assert!(scene.all_pause() && scene.all_resume());
    }
    helper.child.kill()?;
    scene.end()
}
