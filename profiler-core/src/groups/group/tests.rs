//! Tests of handles, and of entries made while the registry or the manager is locked.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::groups::{Groups, Probes};
use crate::reader::groups::GroupReader;
use crate::session::{self, Features, SessionParams, StartOptions};

#[test]
fn all_handles_of_one_identity_are_one_group() {
    static BY_TEXT: Group = Group::named("plugin:same");
    static BY_KIND: Group = Group::new(GroupKind::Plugin, "same");
    let by_register = Group::register(GroupKind::Plugin, "same");
    let found =
        [&BY_TEXT, &BY_KIND, &by_register, &by_register.clone()].map(|group| group.registered());
    assert!(
        found
            .iter()
            .all(|group| std::ptr::eq(group.unwrap(), found[0].unwrap()))
    );
    let other = Group::register_with(GroupKind::Plugin, "same", &[("version", "2")]);
    assert!(
        !std::ptr::eq(other.registered().unwrap(), found[0].unwrap()),
        "labels are part of the identity"
    );
}

#[test]
fn p3_missed_entries_are_handed_over_by_the_registering_thread_and_by_late_threads() {
    let _alone = session::alone_in_tests();
    static LATE: Group = Group::named("plugin:late");
    LATE.miss();
    let found = LATE.resolve().unwrap();
    assert_eq!(
        (found.kept(), LATE.missed.peek()),
        (1, 0),
        "handed over by the registering thread"
    );
    LATE.miss(); // by a thread that has not yet seen the registration
    assert_eq!(
        (found.kept(), LATE.missed.peek()),
        (2, 0),
        "handed over by the late thread"
    );
}

#[test]
fn p3_several_groups_entered_while_the_registry_is_busy_miss_one_entry_each() {
    let _alone = session::alone_in_tests();
    static BUSY: [Group; 2] = [Group::named("plugin:busy 1"), Group::named("plugin:busy 2")];
    let params = SessionParams {
        features: Features::NO_SAMPLING,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    let known = registry::lock().unwrap();
    drop(Groups::of([&BUSY[0], &BUSY[1]]).enter());
    drop(known);
    session::stop();
    assert_eq!(BUSY.each_ref().map(|group| group.missed.peek()), [1, 1]);
}

#[test]
fn a_clone_and_its_original_are_registered_together() {
    static ORIGINAL: Group = Group::named("plugin:original");
    assert!(ORIGINAL.clone().registered.get().is_some() && ORIGINAL.registered.get().is_some());
}

#[test]
fn the_first_run_of_a_group_is_counted_while_the_managers_lock_is_held_briefly() {
    const GROUPS: usize = 64;
    let _alone = session::alone_in_tests();
    let params = SessionParams {
        features: Features::NO_SAMPLING,
        ..SessionParams::default()
    };
    crate::groups::set_probes(Probes::ALL);
    session::start(params, StartOptions::default()).unwrap();
    let name = |number: usize| format!("while the lock is held {number}");
    for number in 0..GROUPS {
        // Not registered, because that would give it a cell at once.
        let group: &'static Group = Box::leak(Box::new(Group::new(
            GroupKind::Plugin,
            Box::leak(name(number).into_boxed_str()),
        )));
        let is_held = AtomicBool::new(false);
        let has_begun = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| hold_the_lock(&is_held, &has_begun));
            while !is_held.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            has_begun.store(true, Ordering::Release);
            drop(group.enter());
        });
    }
    let mut reader = GroupReader::open(session::pool_file().unwrap()).unwrap();
    let read = reader.read().unwrap();
    session::stop();
    crate::groups::set_probes(Probes::NONE);
    let is_counted = |number: &usize| {
        let mut rows = read
            .groups
            .iter()
            .filter(|row| row.definition.name == name(*number));
        rows.any(|row| row.totals.runs == 1)
    };
    // Not all runs are counted: the thread with the lock may lose its processor for longer than a
    // first entry waits.
    let counted = (0..GROUPS).filter(is_counted).count();
    assert!(counted > GROUPS / 4, "{counted} of {GROUPS}");
}

/// Holds the manager's lock from before a first entry until some tens of microseconds later.
fn hold_the_lock(is_held: &AtomicBool, has_begun: &AtomicBool) {
    crate::record::local::with_manager(|manager| {
        let held = manager.lock();
        is_held.store(true, Ordering::Release);
        while !has_begun.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        (0..1000).for_each(|_| std::hint::spin_loop());
        drop(held);
        Some(())
    });
}
