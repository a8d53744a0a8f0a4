//! Test of futures in a group that was not entered before: every poll is counted and none
//! allocates, while other threads change the registry.

#![cfg(not(loom))]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use profiler_core::groups::{self, Group, GroupKind, InGroups, Probes};
use profiler_core::internal::reader::groups::GroupReader;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::counting::allocations_of;
use test_support::own_process;

/// Polls a new future in the group once.
fn poll(group: &Group) {
    let mut future = pin!(async {}.in_group(group));
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
    );
}

#[test]
fn p3_every_poll_in_a_group_that_was_never_entered_is_a_tick_and_none_allocates()
-> anyhow::Result<()> {
    own_process!();
    const POLLS: u64 = 20_000;
    const MORE: u64 = 100;
    static POLLED: Group = Group::new(GroupKind::Task, "polled");
    groups::set_probes(Probes::JANK);
    session::start(SessionParams::default(), StartOptions::default())?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(Group::register(GroupKind::Plugin, "registers all the time"));
                }
            });
        }
        (0..POLLS).for_each(|_| poll(&POLLED));
        stop.store(true, Ordering::Relaxed);
    });
    (0..MORE).for_each(|_| poll(&POLLED)); // adds the ticks that were kept until the cell existed
    let allocations = allocations_of(|| (0..1000).for_each(|_| poll(&POLLED)));
    assert_eq!(allocations, 0, "allocations in 1000 polls");
    let found = GroupReader::open(session::pool_file()?)?.read()?;
    let polled = found
        .groups
        .iter()
        .find(|row| row.definition.name == "polled");
    assert_eq!(
        polled.map(|row| row.totals.ticks),
        Some(POLLS + MORE + 1000)
    );
    session::stop();
    Ok(())
}
