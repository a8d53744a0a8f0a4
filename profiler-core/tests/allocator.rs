//! Tests of a program whose global allocator records: every kind of recording, at every allocation
//! and every free, without a session, in a session and after it.
//!
//! The profiler allocates where something is used for the first time: by the process, or by a
//! thread. So the allocator is called in the middle of the profiler's own work. No call may recurse
//! without end, and no lock may be taken twice.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_core::counter::Counter;
use profiler_core::groups::{self, Group, GroupKind};
use profiler_core::internal::reader::PoolReader;
use profiler_core::marker::{MarkerOptions, MarkerStack, add_text_marker, category};
use profiler_core::session::DropReason;
use profiler_core::session::{self, EntryCounts, SessionParams, StartOptions};
use profiler_core::{group, label, marker, scope, span, thread};
use test_support::own_process_tests;
use test_support::threads::on_thread;

static ALLOCATED: Counter = Counter::new("Allocated", "Memory", "Bytes from the global allocator");

/// What the allocator can do at each call.
static RECORDS: [fn(usize); 11] = [
    add_marker,
    add_marker_with_stack,
    add_named_marker,
    open_scope,
    open_span,
    change_counter,
    open_label,
    enter_group,
    name_thread,
    register_group,
    leave_session,
];
/// What the allocator does: a bit for each function.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

fn add_marker(_: usize) {
    marker!("alloc");
}

fn add_marker_with_stack(_: usize) {
    let options = MarkerOptions::default().with_stack(MarkerStack::Full);
    marker!("alloc with stack", &category::OTHER, options);
}

fn add_named_marker(_: usize) {
    add_text_marker(
        "alloc by name",
        &category::OTHER,
        MarkerOptions::default(),
        "a text",
    );
}

fn open_scope(_: usize) {
    let _scope = scope!("alloc scope");
}

fn open_span(_: usize) {
    let _span = span!("alloc span");
}

fn change_counter(bytes: usize) {
    ALLOCATED.add(i64::try_from(bytes).unwrap_or(0));
}

fn open_label(_: usize) {
    let _label = label!("alloc label");
}

fn enter_group(_: usize) {
    let _guard = group!("component:allocator").enter();
    groups::turn();
}

fn register_group(_: usize) {
    let _guard = Group::register(GroupKind::Component, "registered").enter();
}

fn name_thread(_: usize) {
    thread::register("named by the allocator");
}

fn leave_session(_: usize) {
    thread::unregister();
}

struct Recording;

impl Recording {
    fn record(bytes: usize) {
        let chosen = CHOSEN.load(Ordering::Relaxed);
        let all = RECORDS.iter().enumerate();
        all.filter(|(bit, _)| chosen >> bit & 1 == 1)
            .for_each(|(_, record)| record(bytes));
    }
}

// SAFETY: every call is passed to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Recording {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::record(layout.size());
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        Self::record(0);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Recording = Recording;

/// Allocates on new threads, some hundred times on each.
fn allocate_on_threads() {
    for _ in 0..3 {
        on_thread(|| {
            let kept: Vec<Vec<u8>> = (0..300).map(|_| vec![1; 100]).collect();
            drop(std::hint::black_box(kept));
        });
    }
}

fn counts() -> EntryCounts {
    PoolReader::open(session::pool_file().unwrap())
        .unwrap()
        .snapshot()
        .unwrap()
        .counts()
}

/// Runs `body` without recording in the allocator: a thread that leaves at each allocation gets a new
/// row for each allocation of a snapshot, which then has more rows to read.
fn unrecorded<T>(body: impl FnOnce() -> T) -> T {
    let chosen = CHOSEN.swap(0, Ordering::Relaxed);
    let result = body();
    CHOSEN.store(chosen, Ordering::Relaxed);
    result
}

fn choose(kinds: &[fn(usize)]) {
    let bit = |kind: &fn(usize)| {
        let is_it = |known: &fn(usize)| std::ptr::fn_addr_eq(*known, *kind);
        1 << RECORDS.iter().position(is_it).unwrap()
    };
    CHOSEN.store(kinds.iter().map(bit).sum(), Ordering::Relaxed);
}

/// Records these kinds at every allocation, and returns what a session counts.
fn in_allocator(kinds: &[fn(usize)]) -> EntryCounts {
    choose(kinds);
    allocate_on_threads();
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
    allocate_on_threads();
    let counts = unrecorded(counts);
    session::stop();
    allocate_on_threads();
    CHOSEN.store(0, Ordering::Relaxed);
    counts
}

/// On a busy machine a chunk may not be ready in time; the dropped entries are counted.
fn are_recorded(counts: &EntryCounts) -> anyhow::Result<()> {
    let full = counts.dropped.of(DropReason::Full);
    anyhow::ensure!(
        counts.delivered > 0 && counts.delivered + full >= 900,
        "{counts:?}"
    );
    Ok(())
}

/// Nothing but markers and samples are entries: nothing else may count one as dropped.
fn are_no_entries(counts: &EntryCounts) -> anyhow::Result<()> {
    let reentrant = counts.dropped.of(DropReason::Reentrant);
    anyhow::ensure!(reentrant == 0, "{counts:?}");
    Ok(())
}

fn counter_holds_all_bytes() -> anyhow::Result<()> {
    choose(&[change_counter]);
    session::start(SessionParams::default(), StartOptions::default())?;
    allocate_on_threads();
    let counted = ALLOCATED.get();
    session::stop();
    anyhow::ensure!(counted >= 90_000, "{counted} bytes counted");
    Ok(())
}

own_process_tests! {
    a_marker_in_the_allocator_is_recorded: are_recorded(&in_allocator(&[add_marker]));
    a_marker_with_stack_in_the_allocator_is_recorded:
        are_recorded(&in_allocator(&[add_marker_with_stack]));
    a_named_marker_in_the_allocator_is_recorded: are_recorded(&in_allocator(&[add_named_marker]));
    a_scope_in_the_allocator_is_recorded: are_recorded(&in_allocator(&[open_scope]));
    a_span_in_the_allocator_is_recorded: are_recorded(&in_allocator(&[open_span]));
    a_counter_in_the_allocator_holds_all_bytes: counter_holds_all_bytes();
    a_label_in_the_allocator_does_not_recurse: are_no_entries(&in_allocator(&[open_label]));
    a_group_in_the_allocator_does_not_recurse: are_no_entries(&in_allocator(&[enter_group]));
    a_group_is_registered_in_the_allocator_without_a_deadlock:
        are_no_entries(&in_allocator(&[register_group]));
    a_thread_is_named_in_the_allocator_without_recursion:
        are_no_entries(&in_allocator(&[name_thread]));
    a_thread_leaves_in_the_allocator_without_a_deadlock:
        are_no_entries(&in_allocator(&[leave_session]));
    a_thread_that_leaves_and_records_in_the_allocator_does_not_recurse: {
        in_allocator(&[add_marker, name_thread, leave_session]);
        Ok(())
    };
    all_kinds_together_are_recorded_in_the_allocator: are_recorded(&in_allocator(&RECORDS[..9]));
}
