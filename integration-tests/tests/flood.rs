//! Tests of the memory limit while processes record at full speed.
//!
//! The memory of all pools never exceeds the limit while children start and die, the parent
//! records, or the limit changes. By default there are a few small floods; `FLOOD=long` runs all
//! numbers of children at all limits.

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
/// The time for which the pools are watched between two changes of the children.
const STEP: Duration = Duration::from_millis(100);
/// The pools must be measured at least this often, or the test shows nothing.
const SWEEPS: u64 = 100;

/// A flood must use at least this many bytes of its limit, or the test shows nothing.
fn used(limit: u64) -> u64 {
    limit.min(16 * MIB) / 4
}

/// The floods: a number of children and a limit each.
fn floods() -> Vec<(usize, u64)> {
    if std::env::var_os("FLOOD").is_none_or(|length| length != "long") {
        return vec![(1, MIB), (8, MIB), (8, 64 * MIB), (32, 4 * MIB)];
    }
    let limits = [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB];
    let all = [1, 8, 32, 100]
        .into_iter()
        .flat_map(|children| limits.map(|limit| (children, limit)));
    all.collect()
}

#[test]
fn no_flood_exceeds_its_limit_while_children_join_and_die_and_the_parent_floods_too()
-> anyhow::Result<()> {
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
        assert!(
            seen.peak <= limit,
            "{children} children, {limit} bytes: {seen:?}"
        );
        assert!(seen.sweeps > SWEEPS, "{seen:?}");
        assert!(
            seen.peak >= used(limit),
            "{children} children, {limit} bytes, hardly used: {seen:?}"
        );
    }
    Ok(())
}

/// Records in this process until the sender of `stopped` is dropped.
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

/// Lets children record without end, and replaces them in turn by new children.
fn churn(session: &TestSession, children: usize, limit: u64) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let mut helpers = Vec::new();
    for n in 0..children {
        helpers.push(flooding(session, &format!("first-{n}"))?);
        seen.look(session, limit);
    }
    for n in 0..children.clamp(4, 12) {
        seen.look_for(STEP, session, limit);
        let place = n % helpers.len();
        helpers[place] = flooding(session, &format!("later-{n}"))?; // kills the previous child
    }
    seen.look_until(STEP, session, limit, |seen| {
        seen.sweeps > SWEEPS && seen.peak >= used(limit)
    });
    Ok(seen)
}

/// Starts a child that records without end.
fn flooding(session: &TestSession, name: &str) -> anyhow::Result<HelperProcess> {
    let mut helper = HelperProcess::spawn(session, CHILD, name, "init")?;
    helper.ask("flood 2 500")?;
    Ok(helper)
}

#[test]
fn a_changed_limit_is_never_exceeded_once_all_processes_obey_it() -> anyhow::Result<()> {
    own_process!();
    const MAX: u64 = 8 * MIB; // a larger limit would make the captures at the end slow
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(MAX)))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    HelperProcess::ask_all(&mut helpers, "flood 3 300")?;
    for limit in [MAX, 2 * MIB, 6 * MIB, MIB, 4 * MIB, MIB / 2, MAX] {
        // On a busy machine a call may return before all processes obey.
        assert!(
            until(|| session.set_memory_limit(ByteLimit::new(limit)) == Ok(0)),
            "{:?}",
            session.processes()
        );
        assert_eq!(session.memory_limit().get(), limit);
        let mut seen = Seen::default();
        seen.look_until(2 * STEP, &session, limit, |seen| seen.sweeps > SWEEPS);
        println!("limit {limit}: {seen:?}");
        assert!(seen.peak <= limit, "limit {limit}: {seen:?}");
    }
    HelperProcess::ask_all(&mut helpers, "calm")?;
    // A child that got no processor time for a while has only old entries, which may all be
    // evicted. Its next entry is dropped and counted if the other processes use the whole limit at
    // that moment. So each child records until an entry is delivered.
    let is_delivered = until(|| {
        helpers
            .iter_mut()
            .for_each(|helper| drop(helper.ask("mark 1").unwrap()));
        let captures = session.capture_both().unwrap();
        let of_all = captures
            .iter()
            .flat_map(|(_, profile)| (0..4).map(move |n| (profile, n)));
        of_all.into_iter().all(|(profile, n)| {
            let process = profile.process(&format!("child-{n}")).unwrap();
            let numbers = process.numbers().unwrap();
            let is_sorted = numbers.values().all(|numbers| numbers.is_sorted());
            assert!(is_sorted, "child-{n}");
            process.counts().unwrap().delivered > 0
        })
    });
    assert!(is_delivered, "{:?}", session.processes());
    Ok(())
}
