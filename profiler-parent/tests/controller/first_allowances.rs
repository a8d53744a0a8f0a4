//! Tests of the first allowances of processes, and of their growth while memory is free.

use std::collections::HashMap;

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

/// Carries out commands as processes do that record nothing more: they answer each request and
/// obey.
fn carry_out(controller: &mut Controller, mut commands: Vec<Command>) {
    let mut obeyed = HashMap::new();
    while !commands.is_empty() {
        let key = match commands.remove(0) {
            Command::Await { key, allowance } => {
                obeyed.insert(key, allowance);
                key
            }
            Command::Destroy { key, .. } => key,
            other => panic!("{other:?}"),
        };
        let figures = controller.figures(key).unwrap();
        let charged = ByteLimit::new(figures.charged);
        let allowance = obeyed.get(&key).copied().unwrap_or(charged);
        if figures.allowance != charged || figures.destroying {
            let update = Update {
                newly_released: Vec::new(),
                ..update(allowance.get(), figures.released / MIB)
            };
            controller.handle(Event::Update { key, update }, &mut commands);
        }
    }
}

/// A process joins. Returns its first allowance, and the further commands.
fn admit(controller: &mut Controller, key: PoolId) -> (u64, Vec<Command>) {
    let mut commands = Vec::new();
    controller.handle(Event::Join { key }, &mut commands);
    assert!(controller.charged() <= controller.limit().get());
    let Command::Admit { allowance, .. } = commands.remove(0) else {
        panic!("{commands:?}");
    };
    (allowance.get(), commands)
}

/// A process joins and connects. Returns its first allowance.
fn join(controller: &mut Controller, key: PoolId) -> u64 {
    let (first, mut commands) = admit(controller, key);
    controller.handle(Event::Connected { key }, &mut commands);
    carry_out(controller, commands);
    first
}

/// The smallest allowance of all processes.
fn smallest(controller: &Controller) -> u64 {
    let all = controller.all_figures();
    all.map(|(_, figures)| figures.allowance.get())
        .min()
        .unwrap()
}

fn controller(limit: u64) -> Controller {
    Controller::new(ByteLimit::new(limit), POLICY)
}

#[test]
fn the_first_process_may_record_a_quarter_of_the_limit() {
    assert!(join(&mut controller(LIMIT), key(0, 1)) > LIMIT / 4);
}

#[test]
fn each_of_ten_processes_is_lent_a_twelfth_of_the_limit() {
    let mut controller = controller(LIMIT);
    for pid in 0..10 {
        let first = join(&mut controller, key(pid, 1));
        assert!(first >= pages(LIMIT / 12), "{pid}: {first}");
        assert!(smallest(&controller) >= pages(LIMIT / 12), "{pid}");
    }
    let later = (10..40).map(|pid| join(&mut controller, key(pid, 1)));
    let later: Vec<u64> = later.collect();
    assert!(later.iter().all(|first| *first >= POLICY.floor));
    assert!(later.contains(&MIB), "{later:?}");
}

#[test]
fn processes_that_begin_together_are_lent_as_much_once_they_have_connected() {
    let mut controller = controller(LIMIT);
    let keys: Vec<PoolId> = (0..10).map(|pid| key(pid, 1)).collect();
    let mut commands = Vec::new();
    for key in &keys {
        commands.extend(admit(&mut controller, *key).1);
    }
    assert!(smallest(&controller) < pages(LIMIT / 12));
    for key in keys {
        controller.handle(Event::Connected { key }, &mut commands);
    }
    carry_out(&mut controller, commands);
    let all: Vec<_> = controller.all_figures().collect();
    assert!(smallest(&controller) >= pages(LIMIT / 12), "{all:?}");
}

#[test]
fn what_a_process_holds_is_not_taken_back_for_those_that_join() {
    let mut controller = controller(LIMIT);
    let key_of_first = key(0, 1);
    let first = join(&mut controller, key_of_first);
    let mut commands = Vec::new();
    let event = Event::Update {
        key: key_of_first,
        update: update(first, 20),
    };
    controller.handle(event, &mut commands);
    carry_out(&mut controller, commands);
    for pid in 1..8 {
        join(&mut controller, key(pid, 1));
    }
    let left = controller.allowance(key_of_first).unwrap().get();
    assert!(left >= 20 * MIB + pages(LIMIT / 12), "{left}");
}

#[test]
fn after_the_limit_was_lowered_first_allowances_are_smaller() {
    let mut controller = controller(2 * LIMIT);
    let first = join(&mut controller, key(1, 1));
    let limit = ByteLimit::new(LIMIT);
    let mut commands = Vec::new();
    controller.handle(Event::LimitChanged { limit }, &mut commands);
    carry_out(&mut controller, commands);
    assert!(join(&mut controller, key(2, 1)) < first / 2);
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
    for (left, grows) in [(3, false), (2, true)] {
        let mut controller = controller(LIMIT);
        let key = key(1, 1);
        let first = join(&mut controller, key);
        let update = update(first, first / MIB - left);
        controller.handle(Event::Update { key, update }, &mut Vec::new());
        let now = controller.allowance(key).unwrap().get();
        assert_eq!(now > first, grows, "{left} MiB are left");
    }
}
