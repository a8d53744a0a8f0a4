//! Payloads that misbehave while they are serialised: they cost their own thread's one entry, and
//! nobody waits for them, not even the child's own end.

use std::time::Duration;

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{patiently, until};
use integration_tests::profile::{Books, FROZEN, Profile};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

fn trapped(scene: &Fixture, command: &str) -> anyhow::Result<HelperProcess> {
    let mut helper = scene.child("faulty", "init")?;
    helper.ask(command)?;
    Ok(helper)
}

fn books_of_trapped(profile: &Profile) -> anyhow::Result<Books> {
    Ok(profile.process("faulty")?.books_of("trapped").clone())
}

/// The books of a thread that recorded its ten markers and a harmless payload, and hangs in the next.
fn hangs(profile: &Profile) -> anyhow::Result<()> {
    let books = books_of_trapped(profile)?;
    assert_eq!((books.recorded, books.delivered, books.unfinished), (12, 11, 1), "{books:?}");
    assert_eq!(profile.process("faulty")?.numbers()?[&3000], (0..10).collect::<Vec<_>>());
    Ok(())
}

/// One thread never comes back from its payload. The child's others go on; capture, pause, stop and
/// the child's own exit do not wait.
fn holds_only_its_own_thread(kind: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, &format!("trap {kind}"))?;
    helper.ask("hold 2 500")?;
    for round in 1..=2 {
        let (_, profile) = scene.capture()?;
        assert_eq!(profile.verdict("faulty")?, "complete");
        hangs(&profile)?;
        assert_eq!(profile.process("faulty")?.numbers()?[&1].len(), 500 * round);
        assert!(scene.all_pause() && scene.all_resume(), "everybody confirms");
        helper.ask("hold 2 500")?;
    }
    // At its exit the child waits for no other process; otherwise this wait would never end.
    assert!(helper.end("exit 0")?.success());
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("faulty")?, "complete");
    hangs(&profile)?;
    scene.end()
}

#[test]
fn a_payload_that_sleeps_for_ever_holds_only_its_own_thread() -> anyhow::Result<()> {
    own_process!();
    holds_only_its_own_thread("sleep")
}

#[test]
fn a_payload_that_spins_for_ever_holds_only_its_own_thread() -> anyhow::Result<()> {
    own_process!();
    holds_only_its_own_thread("spin")
}

#[test]
fn a_payload_that_wants_a_lock_that_a_deadlocked_thread_has_holds_only_its_own_thread() -> anyhow::Result<()>
{
    own_process!();
    holds_only_its_own_thread("lock")
}

#[test]
fn a_thread_that_vanishes_in_the_middle_of_an_entry_leaves_one_unfinished() -> anyhow::Result<()> {
    own_process!();
    holds_only_its_own_thread("vanish")
}

#[test]
fn a_payload_that_hangs_before_its_type_is_known_holds_only_its_own_thread() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, "first-trap sleep")?;
    helper.ask("hold 2 500")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("faulty")?, "complete");
    let books = books_of_trapped(&profile)?;
    assert_eq!((books.recorded, books.delivered), (10, 10), "the entry was not even begun: {books:?}");
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_session_that_ends_does_not_wait_for_a_payload_that_hangs() -> anyhow::Result<()> {
    own_process!();
    let scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = trapped(&scene, "trap sleep")?;
    scene.end()?;
    assert!(until(|| helper.ask("active").is_ok_and(|answer| answer == "ok false")), "it was told to stop");
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

#[test]
fn a_child_killed_in_the_middle_of_an_entry_loses_that_one_alone() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.end("trap kill")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("faulty")?, "recovered: crashed with signal 9 (SIGKILL)");
    hangs(&profile)?;
    scene.end()
}

#[test]
fn a_child_stopped_in_the_middle_of_an_entry_is_recovered_and_finishes_it_later() -> anyhow::Result<()> {
    own_process!();
    patiently(stops_in_the_middle_of_an_entry)
}

fn stops_in_the_middle_of_an_entry(timeout: Duration) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder.progress_timeout(timeout))?;
    let mut helper = scene.child("faulty", "init")?;
    helper.tell("trap stop")?;
    assert!(until(|| integration_tests::own::state_of(helper.pid()) == Some('T')));
    for _ in 0..2 {
        let (_, profile) = scene.capture()?;
        assert_eq!(profile.verdict("faulty")?, FROZEN);
        hangs(&profile)?;
    }
    helper.signal(libc::SIGCONT);
    helper.line()?;
    helper.ask("hold 2 500")?;
    let finished = |books: &Books| (books.recorded, books.delivered, books.unfinished) == (22, 22, 0);
    let mut last = Books::default();
    // What it still writes for the capture that has given up on it, it tells before the next.
    assert!(until(|| {
        let captured = scene.capture().and_then(|(_, profile)| {
            last = books_of_trapped(&profile)?;
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
        let (report, profile) = scene.capture()?;
        assert_eq!(profile.verdict("faulty")?, "complete");
        let counts = report.processes.iter().find(|process| process.name == "faulty").expect("it").counts;
        let harmless = u64::from(first == "trap panic");
        assert_eq!(
            (counts.recorded(), counts.delivered),
            (21 + harmless, 20 + harmless),
            "{first}: {counts:?}"
        );
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
    let (report, profile) = scene.capture()?;
    let counts = report.processes.iter().find(|process| process.name == "faulty").expect("it").counts;
    assert_eq!((counts.recorded(), counts.delivered), (23, 22), "one in the middle of another: {counts:?}");
    assert_eq!(books_of_trapped(&profile)?.delivered, 22);
    assert!(helper.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_process_that_exits_from_within_a_payload_exits() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    assert!(helper.end("trap exit")?.success());
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("faulty")?, "complete");
    hangs(&profile)?;
    scene.end()
}

#[test]
fn a_deadlocked_main_thread_holds_nobody_up() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("hold 2 500")?;
    helper.ask("mark 50")?;
    helper.tell("deadlock")?;
    for _ in 0..2 {
        let (_, profile) = scene.capture()?;
        assert_eq!(profile.verdict("faulty")?, "complete");
        assert_eq!(profile.process("faulty")?.books()?.delivered, 1050);
        assert!(scene.all_pause() && scene.all_resume());
    }
    helper.child.kill()?;
    scene.end()
}
