//! The edges of the memory limit: full when somebody starts, changed while everybody records, held by
//! who cannot obey, broken by who does not want to.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use integration_tests::watch::{Seen, sweep};
use profiler_core::ids::ByteLimit;
use profiler_parent::{LimitError, ProcessReport};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const MIB: u64 = 1 << 20;

fn report(session: &TestSession, name: &str) -> ProcessReport {
    let found = session.processes().into_iter().find(|process| process.name == name);
    found.unwrap_or_else(|| panic!("no process {name}"))
}

/// `count` children that flood, once they have filled most of the limit.
fn filled(session: &TestSession, count: usize, limit: u64) -> anyhow::Result<Vec<HelperProcess>> {
    let mut helpers = HelperProcess::spawn_many(session, CHILD, count)?;
    helpers.iter_mut().try_for_each(|helper| helper.ask("flood 2 500").map(drop))?;
    anyhow::ensure!(until(|| sweep(session) > limit / 4 * 3), "the limit does not fill up");
    Ok(helpers)
}

/// Lowers the limit until that is obeyed: on a busy machine one call may end before.
fn obeyed(session: &TestSession, limit: u64) -> bool {
    until(|| session.set_memory_limit(ByteLimit::new(limit)) == Ok(0))
}

#[test]
fn a_child_that_starts_while_the_limit_is_full_gets_its_floor_and_then_its_share() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(8 * MIB)))?;
    let _others = filled(&session, 8, 8 * MIB)?;
    let mut late = HelperProcess::spawn(&session, CHILD, "late", "init")?;
    assert!(late.child.is_profiled());
    late.ask("flood 2 500")?;
    assert!(until(|| report(&session, "late").true_bytes > 256 << 10), "{:?}", report(&session, "late"));
    late.tell("calm")?;
    let (_, profile) = session.capture()?;
    assert!(profile.process("late")?.books()?.delivered > 0);
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
    assert_eq!(profile.process("child")?.books()?.delivered, 1000);
    Ok(())
}

#[test]
fn a_limit_can_be_lowered_and_raised_up_to_what_was_reserved() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| {
        builder.memory_limit(ByteLimit::new(8 * MIB)).max_memory_limit(ByteLimit::new(24 * MIB))
    })?;
    let mut helpers = filled(&session, 2, 8 * MIB)?;
    let refused = session.set_memory_limit(ByteLimit::new(24 * MIB + 1));
    assert_eq!(refused, Err(LimitError::TooLarge { limit: 24 * MIB + 1, most: 24 * MIB }));
    let refused = session.set_memory_limit(ByteLimit::new(8 * 4096 - 1));
    assert_eq!(refused, Err(LimitError::TooSmall { limit: 8 * 4096 - 1, needed: 8 * 4096 }));
    assert_eq!(session.memory_limit().get(), 8 * MIB, "a refused limit changes nothing");
    assert_eq!(session.set_memory_limit(ByteLimit::new(24 * MIB)), Ok(0));
    assert!(until(|| sweep(&session) > 18 * MIB), "what is new is not used: {}", sweep(&session));
    helpers.push(HelperProcess::spawn(&session, CHILD, "third", "init")?);
    helpers[2].ask("flood 2 500")?;
    assert!(obeyed(&session, 2 * MIB));
    let mut seen = Seen::default();
    (0..200).for_each(|_| seen.look(&session, 2 * MIB));
    assert!(seen.peak <= 2 * MIB, "{seen:?}");
    Ok(())
}

#[test]
fn a_limit_below_all_floors_leaves_the_floors_and_admits_nobody() -> anyhow::Result<()> {
    own_process!();
    const FLOOR: u64 = 8 * 4096;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(8 * MIB)))?;
    let mut helpers = filled(&session, 3, 8 * MIB)?;
    helpers.iter_mut().try_for_each(|helper| helper.tell("calm"))?;
    let over = session.set_memory_limit(ByteLimit::new(2 * FLOOR))?;
    assert!(over >= 2 * FLOOR, "four floors are held, {over} bytes beyond the limit");
    let allowances: Vec<u64> = session.processes().iter().map(|process| process.allowance.get()).collect();
    assert!(allowances.iter().all(|allowance| *allowance >= FLOOR), "{allowances:?}");
    let fourth = HelperProcess::spawn_as(&session, CHILD, "fourth", "init")?;
    assert!(!fourth.child.is_profiled());
    assert_eq!(session.set_memory_limit(ByteLimit::new(8 * MIB)), Ok(0));
    let fifth = HelperProcess::spawn(&session, CHILD, "fifth", "init")?;
    assert!(fifth.child.is_profiled());
    Ok(())
}

#[test]
fn what_a_frozen_child_cannot_give_the_others_give_and_it_pays_when_it_goes_on() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(32 * MIB)))?;
    let helpers = filled(&session, 2, 32 * MIB)?;
    assert!(helpers[0].freeze());
    let held = report(&session, "child-0").true_bytes;
    let limit = held + 4 * MIB;
    assert!(obeyed(&session, limit), "the other one makes room");
    assert!(sweep(&session) <= limit);
    assert!(report(&session, "child-0").owed_bytes > 0, "{:?}", report(&session, "child-0"));
    let over = session.set_memory_limit(ByteLimit::new(held / 2))?;
    assert!(over > 0, "nobody else holds as much as it does");
    helpers[0].signal(libc::SIGCONT);
    let obeys = || sweep(&session) <= held / 2 && report(&session, "child-0").owed_bytes == 0;
    assert!(until(obeys), "{:?}", session.processes());
    Ok(())
}

#[test]
fn a_child_that_writes_all_over_its_pool_is_seen_and_the_limit_holds_all_the_same() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(32 * MIB)))?;
    let _honest = filled(&session, 2, 32 * MIB)?;
    let mut wild = HelperProcess::spawn(&session, CHILD, "wild", "init")?;
    wild.ask(&format!("sprawl {}", 8 * MIB))?;
    // All of it: what the others give follows what was seen of the excess.
    let is_seen = || {
        let wild = report(&session, "wild");
        let excess = wild.true_bytes.saturating_sub(wild.allowance.get());
        wild.excess_bytes >= excess.max(4 * MIB)
    };
    assert!(until(is_seen), "{:?}", report(&session, "wild"));
    let mut holds = Seen::default();
    let have_obeyed = || session.processes().iter().all(|process| process.owed_bytes == 0);
    let settled = || sweep(&session) <= 32 * MIB && have_obeyed();
    assert!(until(settled), "{:?}", session.processes());
    (0..200).for_each(|_| holds.look(&session, 32 * MIB));
    assert!(holds.peak <= 32 * MIB, "{holds:?}");
    assert!(session.processes()[..3].iter().all(|process| process.excess_bytes == 0));
    wild.end("kill")?;
    Ok(())
}
