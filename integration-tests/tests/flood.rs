//! The limit under flood: never exceeded by true bytes, whoever records, joins, dies or is cut short meanwhile.
//!
//! A few small floods by default; `FLOOD=long` runs all numbers of children at all limits.

use profiler_core::ids::ByteLimit;
use std::time::Duration;

use integration_tests::helper_process::HelperProcess;
use integration_tests::marks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use integration_tests::watch::Seen;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const MIB: u64 = 1 << 20;
/// One look at the flood, between two changes of who takes part.
const LOOK: Duration = Duration::from_millis(100);
/// Fewer looks at a flood would show nothing.
const SWEEPS: u64 = 100;

/// A flood that used less of its limit would show nothing.
fn used(limit: u64) -> u64 {
    limit.min(16 * MIB) / 4
}

/// Numbers of children and limits.
fn floods() -> Vec<(usize, u64)> {
    if std::env::var_os("FLOOD").is_none_or(|length| length != "long") {
        return vec![(1, MIB), (8, MIB), (8, 64 * MIB), (32, 4 * MIB)];
    }
    let limits = [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB];
    let all = [1, 8, 32, 100].into_iter().flat_map(|children| limits.map(|limit| (children, limit)));
    all.collect()
}

#[test]
fn no_flood_exceeds_its_limit_while_children_join_and_die_and_the_parent_floods_too() -> anyhow::Result<()> {
    own_process!();
    for (children, limit) in floods() {
        let session = session::start(|builder| builder.memory_limit(ByteLimit::new(limit)))?;
        let seen = std::thread::scope(|scope| {
            let (stop, stopped) = std::sync::mpsc::channel();
            scope.spawn(move || flood_until(&stopped));
            let seen = churn(&session, children, limit);
            drop(stop);
            seen
        })?;
        println!("{children} children, {limit} bytes: {seen:?}");
        assert!(seen.peak <= limit, "{children} children, {limit} bytes: {seen:?}");
        assert!(seen.sweeps > SWEEPS, "{seen:?}");
        assert!(seen.peak >= used(limit), "{children} children, {limit} bytes, hardly used: {seen:?}");
    }
    Ok(())
}

/// Records in this process until told to stop.
fn flood_until(stopped: &std::sync::mpsc::Receiver<()>) {
    for sequence in 0.. {
        marks::record(7, sequence);
        if sequence % 100 == 0 {
            std::thread::sleep(Duration::from_micros(200));
            if stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                return;
            }
        }
    }
}

/// Children flood; one after the other is killed, and another one takes its place.
fn churn(session: &TestSession, children: usize, limit: u64) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let mut helpers = Vec::new();
    for n in 0..children {
        helpers.push(flooding(session, &format!("first-{n}"))?);
        seen.look(session, limit);
    }
    for n in 0..children.clamp(4, 12) {
        seen.look_for(LOOK, session, limit);
        let place = n % helpers.len();
        helpers[place] = flooding(session, &format!("later-{n}"))?; // the old one is killed
    }
    seen.look_until(LOOK, session, limit, |seen| seen.sweeps > SWEEPS && seen.peak >= used(limit));
    Ok(seen)
}

/// A child that records without end, if the limit holds one more.
fn flooding(session: &TestSession, name: &str) -> anyhow::Result<HelperProcess> {
    let mut helper = HelperProcess::spawn(session, CHILD, name, "init")?;
    helper.ask("flood 2 500")?;
    Ok(helper)
}

#[test]
fn a_limit_that_goes_up_and_down_is_never_exceeded_once_it_was_said_to_be_obeyed() -> anyhow::Result<()> {
    own_process!();
    const MOST: u64 = 8 * MIB; // what is captured in the end takes its time
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(MOST)))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    helpers.iter_mut().try_for_each(|helper| helper.ask("flood 3 300").map(drop))?;
    for limit in [MOST, 2 * MIB, 6 * MIB, MIB, 4 * MIB, MIB / 2, MOST] {
        // On a busy machine one call may end before all have obeyed.
        assert!(
            until(|| session.set_memory_limit(ByteLimit::new(limit)) == Ok(0)),
            "{:?}",
            session.processes()
        );
        assert_eq!(session.memory_limit().get(), limit);
        let mut seen = Seen::default();
        seen.look_until(2 * LOOK, &session, limit, |seen| seen.sweeps > SWEEPS);
        println!("limit {limit}: {seen:?}");
        assert!(seen.peak <= limit, "limit {limit}: {seen:?}");
    }
    helpers.iter_mut().try_for_each(|helper| helper.ask("calm").map(drop))?;
    // A child that had no processor for a while has only old entries, which may all be evicted.
    helpers.iter_mut().try_for_each(|helper| helper.ask("mark 1").map(drop))?;
    let (_, profile) = session.capture()?;
    for n in 0..4 {
        let process = profile.process(&format!("child-{n}"))?;
        assert!(process.books()?.delivered > 0, "{:?}", process.books()?);
        let numbers = process.numbers()?;
        assert!(numbers.values().all(|numbers| numbers.is_sorted()), "child-{n}");
    }
    Ok(())
}
