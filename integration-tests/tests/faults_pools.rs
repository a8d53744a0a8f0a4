//! Tests of a child that overwrites, resizes, punches, unmaps or fills its own pool.
//!
//! The parent does not panic, its memory does not grow, and every file that it writes is a profile.
//! All other processes are complete.

use anyhow::Context;
use profiler_core::ids::ByteLimit;
use std::time::Duration;

use integration_tests::fixture::Fixture;
use integration_tests::own;
use integration_tests::patience::{LONG, patiently};
use integration_tests::profile::Profile;
use integration_tests::{own_process, own_process_tests};
use profiler_parent::Format;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const LIMIT: u64 = 8 << 20;
/// More than the parent needs to read a pool of that limit with its tables.
const GROWTH: u64 = 96 << 20;
/// The number of captures in each format while a child corrupts its pool.
const CAPTURES: u32 = 12;

/// The child writes random words all over its pool during captures, evictions and sweeps, until it
/// is killed.
fn scribbles(beginning: &str, timeout: Duration) -> anyhow::Result<()> {
    let build = |builder: profiler_parent::SessionBuilder| {
        builder
            .memory_limit(ByteLimit::new(LIMIT))
            // Longer than the test, also on a busy machine: a healthy process loses no entry.
            .duration(30 * LONG)
            .progress_timeout(timeout)
    };
    let mut scene = Fixture::set(CHILD, build)?;
    let mut vandal = scene.child("vandal", beginning)?;
    vandal.ask("record 4 1000")?;
    vandal.ask("hold 2 1000")?;
    scene.capture_among_liars()?;
    let before = own::resident_bytes();
    vandal.ask("scribble")?;
    for _ in 0..CAPTURES {
        for (_, profile) in scene.capture_among_liars()? {
            profile.verdict("vandal")?;
        }
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    for _ in 0..3 {
        for (_, profile) in scene.capture_among_liars()? {
            profile.verdict("vandal")?;
        }
    }
    let grown = own::resident_bytes().saturating_sub(before);
    assert!(
        grown < GROWTH,
        "{grown} bytes more after {CAPTURES} captures in each format"
    );
    scene.end()
}

own_process_tests! {
    a_child_that_scribbles_over_its_pool_and_writes_its_own_part_does_no_harm:
        patiently(|timeout| scribbles("init", timeout));
    a_child_that_scribbles_over_its_pool_and_is_read_by_the_parent_does_no_harm:
        patiently(|timeout| scribbles("liar-not-json", timeout));
}

#[test]
fn a_child_that_scribbles_while_memory_is_short_does_no_harm() -> anyhow::Result<()> {
    own_process!();
    let scene = Fixture::set(CHILD, |builder| {
        builder
            .memory_limit(ByteLimit::new(LIMIT))
            .duration(Duration::from_secs(1))
    })?;
    let mut vandal = scene.child("vandal", "init")?;
    let mut flood = scene.child("flood", "init")?;
    vandal.ask("hold 2 1000")?;
    vandal.ask("scribble")?;
    flood.ask("flood 2 100")?;
    let before = own::resident_bytes();
    let save = |format| {
        let capture = scene.session()?.capture().format(format);
        anyhow::Ok(capture.save(scene.path("pressure.json"))?)
    };
    for _ in 0..10 {
        for format in [Format::Processed, Format::Gecko] {
            assert_eq!(save(format)?.processes.len(), 4);
        }
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    for _ in 0..5 {
        save(Format::Processed)?;
        save(Format::Gecko)?;
    }
    let grown = own::resident_bytes().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} bytes more");
    flood.ask("calm")?;
    flood.ask("flooded")?;
    for format in [Format::Processed, Format::Gecko] {
        let saved = save(format)?;
        let profile = Profile::read_some(&saved.path, &["flood"])?;
        profile.process("flood")?.counts()?;
    }
    Ok(())
}

/// All entries are in two captures after the child carried out `command` on its pool.
fn changes_nothing(command: &str, answer: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    assert!(vandal.ask(command)?.starts_with(answer));
    for (_, profile) in scene.capture_both()? {
        profile.holds("vandal", "complete", 1000)?;
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
fn a_child_that_punches_its_pool_away_is_unreadable_and_does_no_harm() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    vandal.ask("punch")?;
    for (_, profile) in scene.capture_among_liars()? {
        let verdict = profile.verdict("vandal")?;
        assert!(
            verdict.starts_with("missing: memory unreadable: not a profiler pool"),
            "{verdict}"
        );
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    for (_, profile) in scene.capture_among_liars()? {
        let verdict = profile.verdict("vandal")?;
        assert!(
            verdict.starts_with("missing: memory unreadable: "),
            "{verdict}"
        );
    }
    scene.end()
}

#[test]
fn a_child_that_unmaps_its_pool_crashes_and_is_recovered() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    vandal.ask("unmap").ok(); // a thread of the profiler may crash before the answer
    vandal.tell("mark 1").ok();
    assert!(scene.has_ended("vandal"));
    for (_, profile) in scene.capture_both()? {
        assert!(
            profile
                .verdict("vandal")?
                .starts_with("recovered: crashed with signal 11 (SIGSEGV")
        );
        assert_eq!(profile.process("vandal")?.counts()?.delivered, 1000);
    }
    scene.end()
}

/// A child can fill its pool up to the length of the file: the session's limit and the tables. The
/// session detects this, and reports the excess for this child only.
#[test]
fn a_child_that_fills_its_pool_is_known_to_hold_more_than_it_may() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut vandal = scene.child("vandal", "init")?;
    vandal.ask("hold 2 500")?;
    let filled: u64 = vandal.ask("fill")?.trim_start_matches("ok ").parse()?;
    let report = scene.report_of("vandal");
    // Its maintenance thread may have destroyed unused chunks since.
    let is_plausible = |held: u64| held > LIMIT && held <= filled;
    assert!(is_plausible(report.true_bytes), "{filled}: {report:?}");
    assert!(
        report.excess_bytes >= report.true_bytes - LIMIT,
        "{report:?}"
    );
    assert_eq!(scene.report_of("healthy").excess_bytes, 0);
    for (_, profile) in scene.capture_both()? {
        let log = profile.json["profileGatheringLog"].to_string();
        let held = log
            .split_once(" holds ")
            .and_then(|(_, held)| held.split_once(" bytes"))
            .context("the log does not say what it holds")?;
        assert!(is_plausible(held.0.parse()?), "{log}");
        profile.holds("vandal", "complete", 1000)?;
    }
    vandal.child.kill()?;
    assert!(scene.has_ended("vandal"));
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.process("vandal")?.counts()?.delivered, 1000);
    let mut next = scene.child("next", "init")?;
    assert_eq!(next.status, "Recording");
    next.ask("hold 2 500")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.process("next")?.counts()?.delivered, 1000);
    scene.end()
}
