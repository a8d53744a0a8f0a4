//! Tests of a child that reaches a limit of the system: descriptors, threads, file size or address
//! space.
//!
//! If the limit exists before `init`, the profiler is off and tells why. If it is set later, the
//! child cannot write its part in the Gecko format, and the parent reads its memory, as it does in
//! the default format. The child's program continues.

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::{own_process, own_process_tests};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// A limit that exists before `init`: the profiler is off with the reason, and the child continues.
fn is_off_and_continues(limit: &str, why: &str, verdict: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = HelperProcess::spawn_as(&scene, CHILD, "poor", &format!("without-{limit}"))?;
    assert!(
        helper.status.starts_with("off: ") && helper.status.contains(why),
        "{}",
        helper.status
    );
    helper.ask("mark 100")?;
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("poor")?, verdict);
    assert!(helper.end("exit 0")?.success());
    scene.capture()?;
    scene.end()
}

/// A limit that exists before `init` and does not keep the profiler off: all entries are delivered,
/// and the child continues. `verdict` is that in the Gecko format.
fn records(limit: &str, verdict: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = HelperProcess::spawn(&scene, CHILD, "poor", &format!("without-{limit}"))?;
    assert_eq!(helper.status, "Recording");
    helper.ask("hold 2 500")?;
    has_all(&mut scene, 1000, verdict)?;
    assert!(
        helper.end("exit 0")?.success(),
        "the child's program is harmed"
    );
    scene.end()
}

/// Checks that the child's entries are all delivered in both formats, with this verdict in the
/// Gecko format.
fn has_all(scene: &mut Fixture, entries: u64, verdict: &str) -> anyhow::Result<()> {
    let (_, profile) = scene.capture_gecko()?;
    let found = profile.verdict("poor")?;
    assert!(found.starts_with(verdict), "{found}");
    assert_eq!(profile.process("poor")?.counts()?.delivered, entries);
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("poor")?, "complete");
    assert_eq!(profile.process("poor")?.counts()?.delivered, entries);
    Ok(())
}

/// A limit that is set after the first entries: all entries before and after it are delivered.
/// `verdict` is that in the Gecko format.
fn is_recovered(limit: &str, verdict: &str) -> anyhow::Result<()> {
    let mut scene = Fixture::set(CHILD, |builder| builder)?;
    let mut helper = scene.child("poor", "init")?;
    helper.ask("hold 2 500")?;
    helper.ask(&format!("without {limit}"))?;
    for round in 1..=2 {
        helper.ask("mark 100")?;
        has_all(&mut scene, 1000 + round * 100, verdict)?;
    }
    assert!(
        helper.end("exit 0")?.success(),
        "the child's program is harmed"
    );
    let (_, profile) = scene.capture()?;
    assert_eq!(profile.verdict("poor")?, "complete");
    scene.end()
}

own_process_tests! {
    a_child_without_descriptors_runs_without_a_profiler:
        is_off_and_continues("descriptors", "Too many open files", "missing: never connected");
    /// The profiler has a descriptor table of its own.
    a_child_whose_program_has_no_free_descriptor_is_recorded:
        records("free-descriptors", "complete");
    a_child_that_runs_out_of_descriptors_is_recovered:
        is_recovered("descriptors", "recovered: refused: Too many open files");
    a_child_without_threads_runs_without_a_profiler:
        is_off_and_continues(
            "threads",
            "Resource temporarily unavailable",
            "missing: never connected",
        );
    a_child_that_runs_out_of_threads_is_recovered:
        is_recovered("threads", "recovered: refused: Resource temporarily unavailable");
}

#[test]
fn a_child_that_may_write_no_file_still_records() -> anyhow::Result<()> {
    own_process!();
    // The program would have been ended by SIGXFSZ.
    records("file-size", "recovered: refused: ")
}

own_process_tests! {
    a_child_that_may_write_no_file_any_more_is_recovered:
        is_recovered("file-size", "recovered: refused: ");
    a_child_without_address_space_runs_without_a_profiler:
        is_off_and_continues("memory", "Cannot allocate memory", "missing: never connected");
    a_child_that_runs_out_of_address_space_goes_on: is_recovered("memory", "");
}
