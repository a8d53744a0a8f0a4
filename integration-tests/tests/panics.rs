//! Tests of processes that die of a panic, with the hook of `profiler-panic`: every way to a
//! profile names the panic. `integrations/panic/tests` has the kinds of panics.

use anyhow::Context;
use integration_tests::fixture::Fixture;
use integration_tests::own_process;
use integration_tests::process_tree::{ProcessTree, ProcessTreeOptions};
use integration_tests::profile::{KILLED, Profile};
use integration_tests::tools;

const OPTIONS: ProcessTreeOptions<'static> = ProcessTreeOptions {
    parent: env!("CARGO_BIN_EXE_parent"),
    child: env!("CARGO_BIN_EXE_child"),
    limit: 256 << 20,
    in_files: true,
};
const PLACE: &str = "main panicked at integration-tests/src/bin/child/end.rs:";

/// A child whose panics are recorded dies by `command`; the profile names the panic.
fn dies(command: &str, end: &str, message: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(OPTIONS.child, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("panic-hook")?;
    helper.ask("mark 200")?;
    helper.end(command)?;
    for (_, profile) in scene.capture_both()? {
        let verdict = profile.verdict("faulty")?;
        assert!(verdict.starts_with(end), "{verdict}");
        assert!(verdict.contains(&format!(": {PLACE}")), "{verdict}");
        assert!(verdict.ends_with(message), "{verdict}");
        assert_eq!(profile.incomplete(), [("faulty".to_owned(), verdict)]);
        assert!(profile.process("faulty")?.counts()?.recorded > 200);
    }
    scene.end()
}

#[test]
fn a_panic_of_the_main_thread_is_the_verdict() -> anyhow::Result<()> {
    own_process!();
    dies("panic", "recovered: exited with code 101: ", ": told to")
}

#[test]
fn a_panic_that_aborts_is_the_verdict() -> anyhow::Result<()> {
    own_process!();
    let end = "recovered: crashed with signal 6 (SIGABRT";
    dies("panic-abort", end, ": told to abort")
}

/// A child panics by `command` and goes on, then ends by `end`. Returns the verdict.
fn goes_on(command: &str, end: &str) -> anyhow::Result<String> {
    let mut scene = Fixture::set(OPTIONS.child, |builder| builder)?;
    let mut helper = scene.child("faulty", "init")?;
    helper.ask("panic-hook")?;
    helper.ask("mark 200")?;
    assert_eq!(helper.ask(command)?, "ok true");
    helper.end(end)?;
    let (_, profile) = scene.capture()?;
    scene.end()?;
    profile.verdict("faulty")
}

#[test]
fn a_panic_that_the_process_survives_is_not_the_verdict() -> anyhow::Result<()> {
    own_process!();
    assert_eq!(goes_on("panic-thread", "exit 0")?, "complete");
    assert_eq!(goes_on("panic-thread", "exit 101")?, "complete");
    assert_eq!(goes_on("panic-caught", "exit 3")?, "complete");
    let killed = goes_on("panic-caught", "kill")?;
    assert_eq!(killed, KILLED);
    Ok(())
}

#[test]
fn an_abort_is_after_the_latest_panic_of_the_main_thread() -> anyhow::Result<()> {
    own_process!();
    let verdict = goes_on("panic-caught", "abort")?;
    assert!(verdict.contains(&format!(") after {PLACE}")), "{verdict}");
    assert!(verdict.ends_with(": told to be caught"), "{verdict}");
    Ok(())
}

/// Recovers the pools of a session that has been killed.
fn recover(tree: &ProcessTree, format: &str) -> anyhow::Result<std::path::PathBuf> {
    let pools = tree.pools.clone().context("no pools")?;
    let target = tree.path(&format!("{format}.json"));
    tools::recover(&pools, &target, &["--format", format])?;
    Ok(target)
}

#[test]
fn a_recovered_profile_names_the_panic() -> anyhow::Result<()> {
    own_process!();
    let mut tree = ProcessTree::start(&OPTIONS, |_| {})?;
    tree.spawn_kids(&OPTIONS, 1)?;
    tree.kids[0].ask("panic-hook")?;
    tree.kids[0].ask("record 2 500")?;
    tree.kill_parent()?;
    tree.kids[0].tell("panic-abort")?;
    tree.kids[0].wait()?;
    let name = tree.kids[0].name.clone();
    let told = format!("recovered: ended, with unknown status: {PLACE}");
    let gecko = Profile::read(&recover(&tree, "gecko")?)?;
    let verdict = gecko.verdict(&name)?;
    assert!(verdict.starts_with(&told), "{verdict}");
    let processed = recover(&tree, "processed")?;
    assert!(std::fs::read_to_string(&processed)?.contains(&told));
    let info = tools::info(&processed)?;
    let rows = info["processes"].as_array().context("no processes")?;
    let is_told = |verdict: &str| verdict.starts_with(&told);
    assert!(
        rows.iter()
            .any(|row| row["verdict"].as_str().is_some_and(is_told)),
        "{info}"
    );
    Ok(())
}
