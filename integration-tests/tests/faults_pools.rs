//! A child that lies in its own pool while it lives, and does to it what it can: the parent neither
//! panics nor grows nor writes anything that is no profile, and everybody else is complete.

use profiler_core::ids::ByteLimit;
use std::time::Duration;

use integration_tests::fixture::Fixture;
use integration_tests::own;
use integration_tests::own_process;
use integration_tests::patience::{LONG, patiently};
use integration_tests::profile::Profile;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const LIMIT: u64 = 8 << 20;
/// More than reading a pool of that limit takes, tables and all.
const GROWTH: u64 = 96 << 20;
/// The number of captures while a child corrupts its pool.
const CAPTURES: u32 = 12;

/// Random words all over the pool, for as long as captures, evictions, sweeps and in the end the child's
/// death take.
fn scribbles(beginning: &str, timeout: Duration) -> anyhow::Result<()> {
    let build = |builder: profiler_parent::SessionBuilder| {
        builder.memory_limit(ByteLimit::new(LIMIT)).duration(LONG).progress_timeout(timeout)
    };
    let mut scene = Fixture::set(CHILD, build)?;
    let mut vandal = scene.child("vandal", beginning)?;
    vandal.ask("record 4 1000")?;
    vandal.ask("hold 2 1000")?;
    scene.capture_among_liars()?;
    let before = own::resident_bytes();
    vandal.ask("scribble")?;
    for _ in 0..CAPTURES {
        let (_, profile) = scene.capture_among_liars()?;
        profile.verdict("vandal")?;
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    for _ in 0..3 {
        let (_, profile) = scene.capture_among_liars()?;
        profile.verdict("vandal")?;
    }
    let grown = own::resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more after {CAPTURES} captures");
    scene.end()
}

#[test]
fn a_child_that_scribbles_over_its_pool_and_writes_its_own_part_harms_nobody() -> anyhow::Result<()> {
    own_process!();
    patiently(|timeout| scribbles("init", timeout))
}

#[test]
fn a_child_that_scribbles_over_its_pool_and_is_read_by_the_parent_harms_nobody() -> anyhow::Result<()> {
    own_process!();
    patiently(|timeout| scribbles("liar-not-json", timeout))
}

#[test]
fn a_child_that_scribbles_under_pressure_harms_nobody() -> anyhow::Result<()> {
    own_process!();
    let scene = Fixture::set(CHILD, |builder| {
        builder.memory_limit(ByteLimit::new(LIMIT)).duration(Duration::from_secs(1))
    })?;
    let mut vandal = scene.child("vandal", "init")?;
    let mut flood = scene.child("flood", "init")?;
    vandal.ask("hold 2 1000")?;
    vandal.ask("scribble")?;
    flood.ask("flood 2 100")?;
    let before = own::resident_bytes();
    for _ in 0..10 {
        let saved = scene
            .session()?
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(scene.path("pressure.json"))?;
        assert_eq!(saved.processes.len(), 4);
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    for _ in 0..5 {
        scene
            .session()?
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(scene.path("pressure.json"))?;
    }
    let grown = own::resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more");
    flood.ask("calm")?;
    flood.ask("flooded")?;
    let saved =
        scene.session()?.capture().format(profiler_parent::Format::Gecko).save(scene.path("calm.json"))?;
    Profile::read_some(&saved.path, &["flood"])?.process("flood")?.books()?;
    Ok(())
}

/// Everything is there although the child did something to its pool; the second capture, too.
fn changes_nothing(command: &str, answer: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    assert!(vandal.ask(command)?.starts_with(answer));
    for _ in 0..2 {
        let (_, profile) = scene.capture()?;
        assert_eq!(profile.verdict("vandal")?, "complete");
        assert_eq!(profile.process("vandal")?.books()?.delivered, 1000);
    }
    assert!(vandal.end("exit 0")?.success());
    scene.end()
}

#[test]
fn a_child_cannot_change_the_length_of_its_pool() -> anyhow::Result<()> {
    own_process!();
    changes_nothing("truncate", "ok [false, false, false]")
}

#[test]
fn a_child_that_punches_its_pool_away_is_unreadable_and_harms_nobody() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    vandal.ask("punch")?;
    let (_, profile) = scene.capture_among_liars()?;
    let verdict = profile.verdict("vandal")?;
    assert!(verdict.starts_with("missing: memory unreadable: not a profiler pool"), "{verdict}");
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    let (_, profile) = scene.capture_among_liars()?;
    assert!(profile.verdict("vandal")?.starts_with("missing: memory unreadable: "));
    scene.end()
}

#[test]
fn a_child_that_unmaps_its_pool_crashes_and_is_recovered() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    vandal.ask("unmap").ok(); // the profiler's own threads may be faster than its answer
    vandal.tell("mark 1").ok();
    assert!(scene.has_ended("vandal"));
    for _ in 0..2 {
        let (_, profile) = scene.capture()?;
        assert!(profile.verdict("vandal")?.starts_with("recovered: crashed with signal 11 (SIGSEGV"));
        assert_eq!(profile.process("vandal")?.books()?.delivered, 1000);
    }
    scene.end()
}

/// It can make its own pool as large as that is long: the session's limit and the tables. The session
/// sees it, and takes nothing from the others for it.
#[test]
fn a_child_that_fills_its_pool_is_known_to_hold_more_than_it_may() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    let filled: u64 = vandal.ask("fill")?.trim_start_matches("ok ").parse()?;
    let report = scene.report_of("vandal");
    assert!(report.true_bytes == filled && filled > LIMIT, "{report:?}");
    assert!(report.excess_bytes >= filled - LIMIT, "{report:?}");
    assert_eq!(scene.report_of("healthy").excess_bytes, 0);
    for _ in 0..2 {
        let (_, profile) = scene.capture()?;
        let log = profile.json["profileGatheringLog"].to_string();
        assert!(log.contains(&format!("holds {filled} bytes")), "{log}");
        assert_eq!(profile.verdict("vandal")?, "complete");
        assert_eq!(profile.process("vandal")?.books()?.delivered, 1000);
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.process("vandal")?.books()?.delivered, 1000);
    let mut next = scene.child("next", "init")?;
    assert_eq!(next.status, "Recording");
    next.ask("hold 2 500")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.process("next")?.books()?.delivered, 1000);
    scene.end()
}
