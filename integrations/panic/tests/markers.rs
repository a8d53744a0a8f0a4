//! What is recorded of the panics of a process that lives on.

#![allow(unsafe_code)]

use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::{marker, session};
use recorded_session::{RunningSession, dropped, named, pool};
use serde::{Serialize, Serializer};
use test_support::forks::in_forked_child;
use test_support::own_process;

/// The messages of the recorded markers of panics.
fn panics() -> Vec<String> {
    let panics = named("Panic").into_iter();
    panics.map(|seen| seen.text("message").unwrap()).collect()
}

/// The messages of the panics that a verdict would know.
fn noted() -> Vec<String> {
    let panics = pool().panics().unwrap().into_iter();
    panics.map(|noted| noted.message).collect()
}

/// Panics with a message, and catches the panic.
fn panic_with(message: &str) {
    assert!(catch_unwind(|| panic!("{message}")).is_err());
}

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Installs a hook that counts its calls, and then the one of the crate.
fn install_around_counting() {
    let printing = take_hook();
    set_hook(Box::new(move |info| {
        CALLS.fetch_add(1, Ordering::SeqCst);
        printing(info);
    }));
    profiler_panic::install();
}

fn calls() -> usize {
    CALLS.load(Ordering::SeqCst)
}

#[test]
fn the_previous_hook_is_called_after_the_panic_is_recorded() {
    own_process!();
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    set_hook(Box::new(|_| SEEN.store(panics().len(), Ordering::SeqCst)));
    profiler_panic::install();
    let _session = RunningSession::start();
    panic_with("one");
    assert_eq!(SEEN.load(Ordering::SeqCst), 1);
    let noted = pool().panics().unwrap();
    assert_eq!(noted.len(), 1);
    assert!(noted[0].hook_returned.is_some() && !noted[0].ends_process);
    assert_eq!(noted[0].message, "one");
}

#[test]
fn a_second_installation_changes_nothing_while_the_first_exists() {
    own_process!();
    install_around_counting();
    profiler_panic::install();
    let _session = RunningSession::start();
    panic_with("one");
    assert_eq!((panics().len(), calls()), (1, 1));
    drop(take_hook());
    set_hook(Box::new(|_| {}));
    panic_with("between");
    profiler_panic::install();
    panic_with("two");
    assert_eq!(panics(), ["one", "two"]);
}

#[test]
fn without_a_session_only_the_previous_hook_runs() {
    own_process!();
    install_around_counting();
    panic_with("early");
    let session = RunningSession::start();
    assert_eq!((panics().len(), noted().len(), calls()), (0, 0, 1));
    panic_with("one");
    assert_eq!((panics().len(), noted().len()), (1, 1));
    drop(session);
    panic_with("late");
    let _session = RunningSession::start();
    assert_eq!((panics().len(), noted().len(), calls()), (0, 0, 3));
}

#[test]
fn a_pause_drops_the_marker_and_keeps_the_note() {
    own_process!();
    install_around_counting();
    let _session = RunningSession::start();
    session::pause();
    panic_with("one");
    session::resume();
    assert_eq!((panics().len(), noted().len()), (0, 1));
}

/// A payload whose serialisation panics.
struct Fragile;

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("within an entry");
    }
}

impl ProfilerMarker for Fragile {
    const TYPE_NAME: &'static str = "Fragile";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
    }
}

/// Records a marker whose payload panics.
pub(crate) fn record_fragile() {
    marker!(
        "fragile",
        &category::OTHER,
        MarkerOptions::default(),
        &Fragile
    );
}

#[test]
fn a_caught_panic_within_an_entry_leaves_the_recorder_usable() {
    own_process!();
    install_around_counting();
    let _session = RunningSession::start();
    panic_with("before");
    assert!(catch_unwind(record_fragile).is_err());
    panic_with("after");
    assert_eq!(panics(), ["before", "after"]);
    assert_eq!(noted(), ["before", "within an entry", "after"]);
    assert_eq!(
        (dropped(), calls()),
        (2, 3),
        "the entry and the marker of the panic"
    );
}

#[test]
fn threads_that_panic_at_the_same_time_are_all_recorded() {
    own_process!();
    const THREADS: usize = 4;
    install_around_counting();
    let _session = RunningSession::start();
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let panicking = |number: usize| {
            let barrier = &barrier;
            scope.spawn(move || {
                let text = number.to_string().repeat(200);
                barrier.wait();
                panic_with(&text);
            })
        };
        let threads: Vec<_> = (1..=THREADS).map(panicking).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    let expected: Vec<String> = (1..=THREADS)
        .map(|one| one.to_string().repeat(200))
        .collect();
    for mut messages in [panics(), noted()] {
        messages.sort_unstable();
        assert_eq!(messages, expected);
    }
}

#[test]
fn a_forked_child_records_nothing() {
    own_process!();
    install_around_counting();
    let _session = RunningSession::start();
    let in_child = || i32::from(catch_unwind(|| panic!("in the child")).is_ok());
    // SAFETY: the child uses the allocator, which works there with this C library.
    assert_eq!(unsafe { in_forked_child(in_child) }, 0);
    assert_eq!((panics().len(), noted().len()), (0, 0));
}

/// Panics when its thread ends.
struct LateGuard;

impl Drop for LateGuard {
    fn drop(&mut self) {
        panic_with("while the thread ends");
    }
}

thread_local! {
    static LATE: LateGuard = const { LateGuard };
}

#[test]
fn a_panic_while_a_thread_ends_does_no_harm() {
    own_process!();
    install_around_counting();
    let _session = RunningSession::start();
    let ending = std::thread::Builder::new().spawn(|| LATE.with(|_| ()));
    ending.unwrap().join().unwrap();
    assert_eq!(calls(), 1);
    assert_eq!(noted().len(), 1);
}
