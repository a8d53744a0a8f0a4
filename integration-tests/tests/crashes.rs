//! Tests of processes that crash with the handlers of `profiler-crash`: every way to a profile
//! names the crash, and `profiler info` shows it first. `integrations/crash/tests` has the kinds of
//! crashes.

use anyhow::Context;
use integration_tests::fixture::Fixture;
use integration_tests::own_process;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::tools;
use profiler_parent::core::session::Features;

const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 256 << 20,
    in_files: true,
};
/// The crash of the command `segv`.
const TOLD: &str = "main: SIGSEGV: address not mapped, at 0x10";

#[test]
fn both_formats_name_a_recorded_crash_and_their_counts_add_up() -> anyhow::Result<()> {
    own_process!();
    let mut scene = Fixture::set(OPTIONS.child, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("crash-handlers")?;
    helper.ask("mark 200")?;
    helper.end("segv")?;
    for (report, profile) in scene.capture_both()? {
        let verdict = profile.verdict("faulty")?;
        let begin = "recovered: crashed with signal 11 (SIGSEGV";
        assert!(verdict.starts_with(begin), "{verdict}");
        assert!(verdict.ends_with(&format!("): {TOLD}")), "{verdict}");
        assert_eq!(profile.incomplete(), [("faulty".to_owned(), verdict)]);
        // The row of the crash is not listed, as that of the sampler.
        assert_eq!(profile.process("faulty")?.counts()?.recorded, 200);
        let text = tools::run(&["info", &report.path.to_string_lossy()])?.out;
        let first = text.lines().next().context("no lines")?;
        assert!(
            first.starts_with("faulty (") && first.ends_with(TOLD),
            "{text}"
        );
    }
    scene.end()
}

#[test]
fn info_shows_the_functions_of_the_crash_before_the_processes() -> anyhow::Result<()> {
    own_process!();
    let features = Features::STACK_WALK;
    let mut scene = Fixture::set(OPTIONS.child, |builder| builder.features(features))?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("crash-handlers")?;
    helper.end("segv")?;
    let (report, _) = scene.capture()?;
    let text = tools::run(&["info", &report.path.to_string_lossy()])?.out;
    let crash = text.split("\n\n").next().context("no paragraph")?;
    assert!(crash.contains("write_to_unmapped"), "{text}");
    scene.end()
}

#[test]
fn a_recovered_profile_and_its_pools_name_the_crash() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 1)?;
    tree.kids[0].ask("crash-handlers")?;
    tree.kids[0].ask("record 2 500")?;
    tree.kill_parent()?;
    tree.kids[0].tell("segv")?;
    tree.kids[0].wait()?;
    let pools = tree.pools.clone().context("no pools")?;
    let told = format!("recovered: ended, with unknown status, after {TOLD}");
    let text = tools::run(&["info", &pools.to_string_lossy()])?.out;
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.ends_with(&told)),
        "{text}"
    );
    let target = tree.path("processed.json");
    tools::recover(&pools, &target, &["--format", "processed"])?;
    assert!(std::fs::read_to_string(&target)?.contains(&told));
    Ok(())
}
