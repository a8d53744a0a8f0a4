//! Tests of the first allowances of processes, and of their growth while memory is free.

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ReleasedChunk, Update};
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{Command, Controller, Event, Policy};

use super::child::key;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 128 * MIB;
const POLICY: Policy = Policy {
    floor: 132 << 10,
    page: 4096,
    initial: u64::MAX,
    reserve: 528 << 10,
};

const fn pages(bytes: u64) -> u64 {
    bytes - bytes % POLICY.page
}

/// A process joins. Returns its first allowance.
fn join(controller: &mut Controller, key: PoolId) -> u64 {
    let mut commands = Vec::new();
    controller.handle(Event::Join { key }, &mut commands);
    assert!(controller.charged() <= controller.limit().get());
    let [Command::Admit { allowance, .. }] = commands[..] else {
        panic!("{commands:?}");
    };
    allowance.get()
}

#[test]
fn fourteen_processes_begin_with_large_allowances() {
    let mut controller = Controller::new(ByteLimit::new(LIMIT), POLICY);
    for pid in 0..14 {
        let part = if pid < 4 { 11 } else { 20 };
        assert_eq!(
            join(&mut controller, key(pid, 1)),
            pages(LIMIT / part),
            "{pid}"
        );
    }
    join(&mut controller, key(14, 1)); // gets what is left of the large ones
    for pid in 15..20 {
        assert_eq!(join(&mut controller, key(pid, 1)), MIB, "{pid}");
    }
    for pid in 20..35 {
        let first = join(&mut controller, key(pid, 1));
        assert!((POLICY.floor..=MIB).contains(&first), "{pid}: {first}");
    }
}

#[test]
fn after_the_limit_was_lowered_first_allowances_are_smaller() {
    let mut controller = Controller::new(ByteLimit::new(2 * LIMIT), POLICY);
    assert_eq!(join(&mut controller, key(1, 1)), pages(2 * LIMIT / 11));
    let limit = ByteLimit::new(LIMIT);
    controller.handle(Event::LimitChanged { limit }, &mut Vec::new());
    assert_eq!(join(&mut controller, key(2, 1)), pages(LIMIT / 11));
}

/// What a process reports that holds `mib` released chunks of a mebibyte, one of which is new.
fn update(allowance: u64, mib: u64) -> Update {
    let chunk = |number: u64| ReleasedChunk {
        done: Timestamp::from_raw(100 + number),
        bytes: MIB,
    };
    Update {
        unreleased_bytes: 64 << 10,
        released_bytes: mib * MIB,
        oldest_done: (mib > 0).then(|| Timestamp::from_raw(100)),
        newly_released: vec![chunk(mib)],
        wanted_bytes: 0,
        allowance: ByteLimit::new(allowance),
    }
}

#[test]
fn a_process_grows_before_it_has_used_its_first_allowance() {
    let first = pages(LIMIT / 11);
    for (mib, grown) in [(7, first), (9, 2 * first)] {
        let mut controller = Controller::new(ByteLimit::new(LIMIT), POLICY);
        let key = key(1, 1);
        assert_eq!(join(&mut controller, key), first);
        controller.handle(Event::Connected { key }, &mut Vec::new());
        let update = update(first, mib);
        controller.handle(Event::Update { key, update }, &mut Vec::new());
        assert_eq!(
            controller.allowance(key),
            Some(ByteLimit::new(grown)),
            "{mib}"
        );
    }
}
