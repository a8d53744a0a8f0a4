//! Tests that every marker of every process is delivered once, in order, and counted.
//!
//! They cover many processes and threads at once, threads and processes that have ended, and
//! threads that begin at the same moment.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::profile::Profile;
use integration_tests::session;
use profiler_parent::CaptureReport;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Markers of a thread.
const COUNT: u64 = 2_000;

#[test]
fn markers_of_8_processes_with_4_threads_arrive_exactly() -> anyhow::Result<()> {
    own_process!();
    // Thirty-two threads begin at once. A thread that gets neither a chunk nor the manager drops an
    // entry, which is counted. The machine determines how many entries that are. At most a tenth of
    // a thread's entries may be dropped, in the best of three tries.
    let mut most_dropped = Vec::new();
    while most_dropped.iter().all(|dropped| *dropped > COUNT / 10) {
        assert!(most_dropped.len() < 3, "{most_dropped:?} of {}", 4 * COUNT);
        most_dropped.push(markers_arrive_exactly()?);
    }
    Ok(())
}

/// Has 8 processes record on 4 threads each. Returns the highest number of entries that a process
/// dropped.
fn markers_arrive_exactly() -> anyhow::Result<u64> {
    let mut most_dropped = 0;
    let session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 8)?;
    for helper in &mut helpers {
        assert_eq!(helper.status, "Recording");
        helper.tell(&format!("hold-burst 4 {COUNT}"))?;
    }
    for helper in &mut helpers {
        assert_eq!(helper.line()?, "ok");
    }
    for (report, profile) in session.capture_both()? {
        most_dropped = most_dropped.max(arrived_exactly(&report, &profile)?);
    }
    Ok(most_dropped)
}

/// Checks the markers of the 8 processes. Returns the highest number of entries that a process
/// dropped.
fn arrived_exactly(report: &CaptureReport, profile: &Profile) -> anyhow::Result<u64> {
    let mut most_dropped = 0;
    assert_eq!((report.processes.len(), profile.processes.len()), (9, 9));
    for n in 0..8 {
        let name = format!("child-{n}");
        let process = profile.process(&name)?;
        let numbers = process.numbers()?;
        assert_eq!(
            numbers.keys().copied().collect::<Vec<_>>(),
            [0, 1, 2, 3],
            "{name}"
        );
        let counts = process.counts()?;
        assert_eq!(counts.recorded, 4 * COUNT, "{name}: {counts:?}");
        most_dropped = most_dropped.max(counts.dropped);
        assert_eq!(
            counts.delivered + counts.dropped,
            4 * COUNT,
            "{name}: {counts:?}"
        );
        let there: usize = numbers.values().map(Vec::len).sum();
        assert_eq!(there as u64, counts.delivered, "{name}: {counts:?}");
        for numbers in numbers.values() {
            assert!(
                numbers.is_sorted_by(|a, b| a < b) && numbers.last() < Some(&COUNT),
                "{name}"
            );
            assert!(
                counts.dropped > 0 || numbers.iter().copied().eq(0..COUNT),
                "{name}: a marker is missing and not counted"
            );
        }
        assert_eq!(profile.verdict(&name)?, "complete");
    }
    assert!(profile.incomplete().is_empty());
    Ok(most_dropped)
}

#[test]
fn threads_that_have_ended_are_delivered_like_those_that_live() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("record 4 500")?;
    helper.ask("mark 10")?;
    for (_, profile) in session.capture_both()? {
        let numbers = profile.process("child")?.numbers()?;
        assert_eq!(numbers.len(), 5);
        assert!((0..4).all(|thread| numbers[&thread].iter().copied().eq(0..500)));
        assert!(numbers[&1000].iter().copied().eq(0..10));
    }
    Ok(())
}

#[test]
fn a_child_that_exits_in_order_is_complete() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    for (name, end, code) in [("exits", "exit 3", 3), ("quits", "quit 0", 0)] {
        let mut helper = HelperProcess::spawn(&session, CHILD, name, "init")?;
        helper.ask("record 2 300")?;
        assert_eq!(helper.end(end)?.code(), Some(code));
    }
    for (_, profile) in session.capture_both()? {
        for name in ["exits", "quits"] {
            profile.holds(name, "complete", 600)?;
        }
    }
    Ok(())
}

#[test]
fn every_entry_of_threads_that_begin_at_once_is_counted_once() -> anyhow::Result<()> {
    own_process!();
    const BURST: u64 = 8 * 400;
    let session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    for round in 1..=5 {
        for helper in &mut helpers {
            helper.tell("burst 8 400")?;
        }
        for helper in &mut helpers {
            assert_eq!(helper.line()?, "ok");
        }
        let [(report, _), (gecko, _)] = session.capture_both()?;
        for child in report.processes[1..].iter().chain(&gecko.processes[1..]) {
            // Includes the entries of threads that could not join the session.
            assert_eq!(
                child.counts.recorded(),
                round * BURST,
                "{}: {:?}",
                child.name,
                child.counts
            );
        }
    }
    Ok(())
}
