//! Tests of the edges of the memory limit.
//!
//! The limit is full when a child starts, larger than the memory of the machine, changed while
//! processes record, below the floors of all processes, owed by a stopped child, or broken by a
//! child that writes all over its pool.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::reports::report_of;
use integration_tests::session::{self, TestSession};
use integration_tests::watch::{Seen, sweep};
use profiler_core::ids::ByteLimit;
use profiler_parent::LimitError;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const MIB: u64 = 1 << 20;

/// Starts `count` children that record without pause, and waits until they fill most of the limit.
fn filled(session: &TestSession, count: usize, limit: u64) -> anyhow::Result<Vec<HelperProcess>> {
    let mut helpers = HelperProcess::spawn_many(session, CHILD, count)?;
    HelperProcess::ask_all(&mut helpers, "flood 2 500")?;
    anyhow::ensure!(
        until(|| sweep(session) > limit / 4 * 3),
        "the limit does not fill up"
    );
    Ok(helpers)
}

/// Sets the limit until all processes obey. On a busy machine a call may return earlier.
fn obeyed(session: &TestSession, limit: u64) -> bool {
    until(|| session.set_memory_limit(ByteLimit::new(limit)) == Ok(0))
}

#[test]
fn a_child_that_starts_while_the_limit_is_full_gets_its_floor_and_then_its_share()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(8 * MIB)))?;
    let _others = filled(&session, 8, 8 * MIB)?;
    let mut late = HelperProcess::spawn(&session, CHILD, "late", "init")?;
    assert!(late.child.is_profiled());
    late.ask("flood 2 500")?;
    assert!(
        until(|| report_of(&session, "late").true_bytes > 256 << 10),
        "{:?}",
        report_of(&session, "late")
    );
    // While it gets no processor, the others may evict all of its entries.
    let is_delivered = until(|| {
        let (_, profile) = session.capture().unwrap();
        profile.process("late").unwrap().counts().unwrap().delivered > 0
    });
    assert!(is_delivered, "{:?}", report_of(&session, "late"));
    Ok(())
}

#[test]
fn a_limit_above_what_the_machine_has_costs_nothing_until_it_is_filled() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(1 << 40)))?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("record 2 500")?;
    assert!(sweep(&session) < 8 * MIB);
    let (_, profile) = session.capture()?;
    assert_eq!(profile.process("child")?.counts()?.delivered, 1000);
    Ok(())
}

#[test]
fn a_limit_can_be_lowered_and_raised_up_to_what_was_reserved() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(8 * MIB))
            .max_memory_limit(ByteLimit::new(24 * MIB))
    })?;
    let mut helpers = filled(&session, 2, 8 * MIB)?;
    let refused = session.set_memory_limit(ByteLimit::new(24 * MIB + 1));
    assert_eq!(
        refused,
        Err(LimitError::TooLarge {
            limit: 24 * MIB + 1,
            most: 24 * MIB
        })
    );
    let refused = session.set_memory_limit(ByteLimit::new(8 * 4096 - 1));
    assert_eq!(
        refused,
        Err(LimitError::TooSmall {
            limit: 8 * 4096 - 1,
            needed: 8 * 4096
        })
    );
    assert_eq!(
        session.memory_limit().get(),
        8 * MIB,
        "a refused limit changes nothing"
    );
    assert_eq!(session.set_memory_limit(ByteLimit::new(24 * MIB)), Ok(0));
    assert!(
        until(|| sweep(&session) > 18 * MIB),
        "the added memory is not used: {}",
        sweep(&session)
    );
    helpers.push(HelperProcess::spawn(&session, CHILD, "third", "init")?);
    helpers[2].ask("flood 2 500")?;
    assert!(obeyed(&session, 2 * MIB));
    let mut seen = Seen::default();
    (0..200).for_each(|_| seen.look(&session, 2 * MIB));
    assert!(seen.peak <= 2 * MIB, "{seen:?}");
    Ok(())
}

#[test]
fn a_limit_below_all_floors_leaves_the_floors_and_admits_no_child() -> anyhow::Result<()> {
    own_process!();
    const FLOOR: u64 = 8 * 4096;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(8 * MIB)))?;
    let mut helpers = filled(&session, 3, 8 * MIB)?;
    helpers
        .iter_mut()
        .try_for_each(|helper| helper.tell("calm"))?;
    let over = session.set_memory_limit(ByteLimit::new(2 * FLOOR))?;
    assert!(
        over >= 2 * FLOOR,
        "four floors are held, and only {over} bytes are reported beyond the limit"
    );
    let allowances: Vec<u64> = session
        .processes()
        .iter()
        .map(|process| process.allowance.get())
        .collect();
    assert!(
        allowances.iter().all(|allowance| *allowance >= FLOOR),
        "{allowances:?}"
    );
    let fourth = HelperProcess::spawn_as(&session, CHILD, "fourth", "init")?;
    assert!(!fourth.child.is_profiled());
    assert_eq!(session.set_memory_limit(ByteLimit::new(8 * MIB)), Ok(0));
    let fifth = HelperProcess::spawn(&session, CHILD, "fifth", "init")?;
    assert!(fifth.child.is_profiled());
    Ok(())
}

#[test]
fn other_processes_make_room_for_a_frozen_child_until_it_goes_on_and_obeys() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(32 * MIB)))?;
    let helpers = filled(&session, 2, 32 * MIB)?;
    assert!(helpers[0].freeze());
    // What it may hold: a frozen child cannot confirm a smaller allowance.
    let frozen = report_of(&session, "child-0");
    let held = frozen.true_bytes.max(frozen.allowance.get());
    let limit = held + 4 * MIB;
    assert!(
        obeyed(&session, limit),
        "the other child does not make room"
    );
    assert!(sweep(&session) <= limit);
    assert!(
        report_of(&session, "child-0").owed_bytes > 0,
        "{:?}",
        report_of(&session, "child-0")
    );
    let over = session.set_memory_limit(ByteLimit::new(held / 2))?;
    assert!(
        over > 0,
        "no excess is reported, although the frozen child alone may hold more than the limit"
    );
    helpers[0].signal(libc::SIGCONT);
    let obeys = || sweep(&session) <= held / 2 && report_of(&session, "child-0").owed_bytes == 0;
    assert!(until(obeys), "{:?}", session.processes());
    Ok(())
}

#[test]
fn a_child_that_writes_all_over_its_pool_is_detected_and_the_limit_still_holds()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(32 * MIB)))?;
    let _honest = filled(&session, 2, 32 * MIB)?;
    let mut wild = HelperProcess::spawn(&session, CHILD, "wild", "init")?;
    wild.ask(&format!("sprawl {}", 8 * MIB))?;
    let excess = report_of(&session, "wild").excess_bytes;
    assert!(excess >= 4 * MIB, "{:?}", report_of(&session, "wild"));
    // Detects the whole excess, and waits until the other processes have freed as much.
    assert!(obeyed(&session, 32 * MIB), "{:?}", session.processes());
    let mut holds = Seen::default();
    (0..200).for_each(|_| holds.look(&session, 32 * MIB));
    assert!(holds.peak <= 32 * MIB, "{holds:?}");
    assert!(
        session.processes()[..3]
            .iter()
            .all(|process| process.excess_bytes == 0)
    );
    wild.end("kill")?;
    Ok(())
}
