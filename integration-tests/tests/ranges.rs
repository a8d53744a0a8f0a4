//! Tests of entries that a profile must not contain: those of a pause, and those that are older
//! than the session's window.
//!
//! Every process shows a pause, and counts the entries that it did not keep.

use profiler_core::ids::ByteLimit;
use std::time::Duration;

use integration_tests::assert_matches;
use integration_tests::helper_process::HelperProcess;
use integration_tests::marks;
use integration_tests::own_process;
use integration_tests::patience::{HeldUp, Stopwatch, patiently, until};
use integration_tests::session;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn nothing_is_recorded_in_a_pause_and_every_process_shows_it() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 3)?;
    for phase in 0..3 {
        if phase == 1 {
            assert!(session.all_pause());
        }
        if phase == 2 {
            assert!(session.all_resume());
        }
        HelperProcess::ask_all(&mut helpers, "mark 100")?;
        (100 * phase..100 * (phase + 1)).for_each(|sequence| marks::record(0, sequence));
    }
    let [(_, profile), (_, gecko)] = session.capture_both()?;
    for process in profile.processes.iter().chain(&gecko.processes) {
        let numbers = process.numbers()?;
        let kept = (0..100).chain(200..300);
        assert!(
            numbers
                .values()
                .all(|numbers| numbers.iter().copied().eq(kept.clone())),
            "{}",
            process.name
        );
        assert_eq!(numbers.len(), 1, "{}", process.name);
        assert_eq!(
            process.counts()?.reasons.get("paused"),
            Some(&100),
            "{}",
            process.name
        );
        assert_matches!(process.pauses[..], [(start, Some(end))] if start <= end);
    }
    Ok(())
}

#[test]
fn a_child_that_comes_during_a_pause_is_paused_too_and_a_lasting_pause_has_no_end()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    assert!(session.all_pause());
    let mut helper = HelperProcess::spawn(&session, CHILD, "late", "init")?;
    // The child learns of the pause when it connects, and records nothing from then on.
    assert!(until(|| helper
        .ask("paused")
        .is_ok_and(|paused| paused == "ok true")));
    helper.ask("mark 100")?;
    for (_, profile) in session.capture_both()? {
        let process = profile.process("late")?;
        assert_eq!(process.counts()?.delivered, 0);
        assert_matches!(process.pauses[..], [(_, None)]);
    }
    Ok(())
}

#[test]
fn entries_older_than_the_window_are_delivered_by_no_process() -> anyhow::Result<()> {
    own_process!();
    patiently(leaves_the_window)
}

/// The newest entries must be captured before they leave the window, too.
fn leaves_the_window(window: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.duration(window))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 3)?;
    for helper in &mut helpers {
        helper.ask("hold 2 200")?;
        helper.ask("mark 200")?;
    }
    helpers[2].end("kill")?;
    (0..200).for_each(|sequence| marks::record(0, sequence));
    std::thread::sleep(window + window / 2);
    let watch = Stopwatch::start();
    for helper in &mut helpers[..2] {
        helper.ask("mark 50")?;
    }
    (200..250).for_each(|sequence| marks::record(0, sequence));
    let (_, profile) = session.capture()?;
    if watch.elapsed() > window / 2 {
        return Err(HeldUp("a capture".to_owned()).into());
    }
    for name in ["parent", "child-0", "child-1"] {
        let process = profile.process(name)?;
        let numbers = process.numbers()?;
        assert!(
            numbers.values().flatten().copied().eq(200..250),
            "{name}: {numbers:?}"
        );
        let counts = process.counts()?;
        assert_eq!(
            counts.recorded,
            counts.outside + counts.evicted + 50,
            "{name}: {counts:?}"
        );
    }
    assert_eq!(
        profile.verdict("child-2")?,
        "missing: all its data was older than what the session keeps"
    );
    Ok(())
}

#[test]
fn data_of_a_dead_process_leaves_the_window_while_another_records() -> anyhow::Result<()> {
    own_process!();
    patiently(dies_and_leaves_the_window)
}

fn dies_and_leaves_the_window(window: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(4 << 20))
            .duration(window)
    })?;
    let mut busy = HelperProcess::spawn(&session, CHILD, "busy", "init")?;
    let mut dead = HelperProcess::spawn(&session, CHILD, "dead", "init")?;
    busy.ask("flood 2 100")?;
    dead.ask("record 2 300")?;
    dead.end("kill")?;
    let held = || {
        session
            .processes()
            .iter()
            .find(|process| process.name == "dead")
            .map(|process| process.true_bytes)
    };
    if held() == Some(0) {
        return Err(HeldUp("the first check of the dead process".to_owned()).into());
    }
    assert!(until(|| held() == Some(0)));
    Ok(())
}
