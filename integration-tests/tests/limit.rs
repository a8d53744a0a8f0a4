//! Tests of the memory limit over all processes of a session.
//!
//! The limit is never exceeded, live and dead processes and the parent share it fairly, and a limit
//! that is too small is an error or a verdict. `flood` and `limit_edges` contain further tests.

use std::time::Duration;

use anyhow::ensure;
use integration_tests::assert_matches;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::Stopwatch;
use integration_tests::session::{self, TestSession};
use integration_tests::watch::Seen;
use profiler_core::ids::ByteLimit;
use profiler_parent::{CapturedProcess, Session, SessionError};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const LIMIT: u64 = 8 << 20;
/// A flood lasts at least this long, and until the limit is reached and was checked `SWEEPS` times.
const FLOOD: Duration = Duration::from_millis(1000);
const SWEEPS: u64 = 200;

#[test]
fn eight_flooding_children_never_exceed_the_limit_and_keep_similar_spans() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 8)?;
    let mut ratios = Vec::new();
    // A measurement depends on the scheduling of the machine, so two good ones of six are enough.
    let is_even = |ratio: &&f64| **ratio >= 0.4;
    while ratios.iter().filter(is_even).count() < 2 {
        assert!(ratios.len() < 6, "shortest to longest span: {ratios:.2?}");
        HelperProcess::ask_all(&mut helpers, "flood 2 4000")?;
        let Seen { peak, sweeps, .. } = watch(&session);
        assert!(sweeps > SWEEPS, "only {sweeps} sweeps");
        assert!(peak <= LIMIT, "peak {peak}");
        assert!(
            peak > LIMIT / 2,
            "peak {peak}: the limit is hardly used, so the test shows nothing"
        );
        helpers
            .iter_mut()
            .try_for_each(|helper| helper.tell("calm"))?;
        ratios.push(shortest_to_longest_span(&session)?);
    }
    println!("shortest to longest span: {ratios:.2?}");
    Ok(())
}

/// The shortest span of time that a child keeps, divided by the longest.
fn shortest_to_longest_span(session: &TestSession) -> anyhow::Result<f64> {
    let [(_, profile), (_, gecko)] = session.capture_both()?;
    // Children write their parts while the limit takes their chunks.
    let delivered = |n: u32| {
        Some(
            gecko
                .process(&format!("child-{n}"))
                .ok()?
                .counts()
                .ok()?
                .delivered,
        )
    };
    ensure!((0..8).filter_map(delivered).sum::<u64>() > 0, "no part");
    let spans: Vec<f64> = (0..8)
        .map(|n| {
            profile
                .process(&format!("child-{n}"))
                .map(|process| process.span())
        })
        .collect::<anyhow::Result<_>>()?;
    let longest = spans.iter().copied().fold(0.0, f64::max);
    Ok(spans.iter().copied().fold(f64::MAX, f64::min) / longest)
}

/// Measures the pools during a flood, until more than half of the limit is used.
fn watch(session: &TestSession) -> Seen {
    let mut seen = Seen::default();
    seen.look_until(FLOOD, session, LIMIT, |seen| {
        seen.sweeps > SWEEPS && seen.peak > LIMIT / 2
    });
    seen
}

#[test]
fn the_dead_are_inside_the_limit_and_make_room() -> anyhow::Result<()> {
    own_process!();
    const EACH: u64 = 2 * 20_000;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(2 << 20)))?;
    let mut seen = Seen::default();
    for round in 0..6 {
        let mut helper = HelperProcess::spawn(&session, CHILD, &format!("dead-{round}"), "init")?;
        helper.ask("burst 2 20000")?;
        let before = seen.sweeps;
        let is_enough = |seen: &Seen| seen.sweeps > before + 20;
        seen.look_until(Duration::from_millis(100), &session, 2 << 20, is_enough);
        assert!(seen.peak <= 2 << 20, "{seen:?} in round {round}");
        helper.end("kill")?;
    }
    assert!(seen.sweeps > 100, "{seen:?}");
    let (report, profile) = session.capture()?;
    assert!(profile.process("dead-5")?.counts()?.delivered > 0);
    let dead = &report.processes[1..];
    let evicted = |p: &&CapturedProcess| p.counts.evicted > 0;
    assert!(
        dead.iter().filter(evicted).count() > 2,
        "hardly any data was evicted, so the test shows nothing"
    );
    for process in dead {
        // The number of entries that the child recorded by command, not a sum of counts.
        assert_eq!(
            process.counts.recorded(),
            EACH,
            "{}: {:?}",
            process.name,
            process.counts
        );
    }
    Ok(())
}

#[test]
fn the_parent_is_inside_the_limit_like_any_process() -> anyhow::Result<()> {
    own_process!();
    // A share is meaningful only if every process got processor time, so the best of three counts.
    let mut best = 0.0_f64;
    for _ in 0..3 {
        best = best.max(share_of_a_flooding_parent()?);
        if best > 0.2 {
            break;
        }
    }
    assert!(best > 0.2, "the parent's span is {best:.2} of a child's");
    Ok(())
}

/// Records without pause while two children do. Returns the span of time that the parent keeps,
/// divided by that of a child.
fn share_of_a_flooding_parent() -> anyhow::Result<f64> {
    let limit = 2 << 20;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(limit)))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 2)?;
    HelperProcess::ask_all(&mut helpers, "flood 1 500")?;
    let watch = Stopwatch::start();
    let mut seen = Seen::default();
    for sequence in 0.. {
        integration_tests::marks::record(7, sequence);
        if sequence % 100 == 0 {
            seen.look(&session, limit);
        }
        if watch.elapsed() > Duration::from_secs(1) && seen.sweeps > 20 {
            break;
        }
    }
    let (_, profile) = session.capture()?;
    assert!(seen.sweeps > 20 && seen.peak <= limit, "{seen:?}");
    let counts = profile.parent().counts()?;
    assert!(counts.evicted > 0, "{counts:?}");
    if counts.delivered == 0 {
        return Ok(0.0);
    }
    Ok(profile.parent().span() / profile.process("child-0")?.span())
}

#[test]
fn a_limit_that_does_not_hold_this_process_is_an_error_that_says_what_is_needed() {
    own_process!();
    for limit in [0, 1, 4096, 8 * 4096 - 1] {
        let error = Session::builder()
            .memory_limit(ByteLimit::new(limit))
            .start()
            .unwrap_err();
        assert_matches!(error, SessionError::LimitTooSmall { .. });
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
    }
    let Ok(session) = Session::builder()
        .memory_limit(ByteLimit::new(8 * 4096))
        .start()
    else {
        panic!("the smallest possible limit is refused")
    };
    assert!(matches!(
        Session::builder().start(),
        Err(SessionError::AlreadyRunning)
    ));
    drop(session);
}

#[test]
fn a_child_that_the_limit_does_not_hold_runs_unprofiled() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(3 * 8 * 4096)))?;
    let mut first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let mut second = HelperProcess::spawn(&session, CHILD, "second", "init")?;
    let mut third = HelperProcess::spawn(&session, CHILD, "third", "init")?;
    let profiled = [&first, &second, &third].map(|helper| helper.child.is_profiled());
    assert_eq!(profiled, [true, true, false]);
    assert_eq!(third.status, "NoParent");
    let reports = session.processes();
    assert!(reports[3].unprofiled.is_some() && reports[2].unprofiled.is_none());
    for helper in [&mut first, &mut second, &mut third] {
        helper.ask("mark 3")?;
    }
    assert_eq!(third.end("exit 4")?.code(), Some(4));
    let (_, profile) = session.capture()?;
    assert_eq!(profile.process("first")?.counts()?.delivered, 3);
    let verdict = profile.verdict("third")?;
    assert!(verdict.starts_with("missing: not profiled: "), "{verdict}");
    assert_eq!(profile.incomplete(), [("third".to_owned(), verdict)]);
    Ok(())
}
