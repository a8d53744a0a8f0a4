//! Tests of a program with the profiling allocator: the samples add up to the allocated bytes,
//! exactly the frees of sampled allocations are recorded, and the allocator does not recurse,
//! deadlock or leave resources behind.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use profiler_core::alloc::ProfilingAllocator;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, PoolReader, Snapshot};
use profiler_core::marker;
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use profiler_core::session::DropReason;
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use test_support::forks::in_forked_child;
use test_support::own_process;
use test_support::threads::{on_named_thread, on_thread};

/// The sampling interval in bytes.
const EVERY: u64 = 4096;

/// Counts the bytes that the program really allocates, on threads that request it.
struct TrueCount;

thread_local! {
    /// Bytes allocated since the thread began to count; `None` if it does not count.
    static TRUTH: Cell<Option<u64>> = const { Cell::new(None) };
}

fn note(size: usize) {
    TRUTH.set(TRUTH.get().map(|sum| sum + size as u64));
}

// SAFETY: every call is passed to the system's allocator unchanged, or fails.
unsafe impl GlobalAlloc for TrueCount {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if new_size > HUGE {
            return std::ptr::null_mut();
        }
        note(new_size);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.realloc(address, layout, new_size) }
    }
}

/// A reallocation to more than this number of bytes fails.
const HUGE: usize = 1 << 32;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator<TrueCount> = ProfilingAllocator::around(TrueCount)
    .sampling_every(EVERY as u32)
    .with_seed(20);

fn start(features: Features) {
    let params = SessionParams {
        limit: ByteLimit::new(64 << 20),
        features,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
}

/// A recorded allocation or free: the row of its thread, its address, its bytes.
type Recorded = (u32, u64, i64);

fn read() -> (Vec<Recorded>, Snapshot) {
    let reader = PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut seen = Vec::new();
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        for entry in entries {
            if let Entry::Allocation(found) = entry {
                seen.push((
                    found.at.raw(),
                    chunk.thread.get(),
                    found.address,
                    found.bytes,
                ));
            }
        }
    }
    seen.sort_by_key(|(at, ..)| *at);
    (
        seen.into_iter()
            .map(|(_, row, address, bytes)| (row, address, bytes))
            .collect(),
        snapshot,
    )
}

/// Checks that every free matches an earlier allocation, except for entries that were dropped and
/// counted. Returns the allocations that were not freed.
fn matched(recorded: &[Recorded], snapshot: &Snapshot) -> HashMap<u64, i64> {
    let mut live = HashMap::new();
    let mut twice = 0;
    for (_, address, bytes) in recorded {
        if *bytes > 0 {
            twice += u64::from(live.insert(*address, *bytes).is_some());
        } else {
            assert_eq!(
                live.remove(address),
                Some(-*bytes),
                "a free that matches nothing"
            );
        }
    }
    let dropped = snapshot.counts().dropped;
    assert!(
        twice <= dropped.total(),
        "{twice} addresses allocated twice without a free, {dropped:?}"
    );
    live
}

/// The value of the counter `malloc`; 0 before its first change.
fn malloc(snapshot: &Snapshot) -> i64 {
    let counter = snapshot
        .counters
        .iter()
        .find(|counter| counter.definition.name == "malloc");
    counter.map_or(0, |counter| counter.value)
}

/// Allocates, grows and frees memory, in sizes from 8 bytes to 2 KiB, so that a sample stands for
/// many allocations. Returns the number of bytes that it really allocated.
fn churn(rounds: usize) -> u64 {
    marker!("joins the session before it counts", &category::TEST);
    TRUTH.set(Some(0));
    let mut kept: Vec<Vec<u8>> = Vec::with_capacity(64);
    for round in 0..rounds {
        let size = 8_usize << (round % 8);
        let mut bytes = black_box(Vec::<u8>::with_capacity(size));
        if round % 3 == 0 {
            bytes.resize(size, 1);
            bytes.reserve(2 * size); // grows in place or moves
        }
        if kept.len() == 64 {
            kept.clear();
        }
        kept.push(black_box(bytes));
        if round % 500 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1)); // the manager prepares chunks
        }
    }
    drop(kept);
    TRUTH.take().unwrap()
}

/// The bytes allocated and the samples recorded on one thread. `None` if an entry was dropped
/// because no chunk was ready, which happens if the machine is too busy for the maintenance thread.
fn churned() -> Option<(u64, Vec<Recorded>, Snapshot)> {
    start(Features::NATIVE_ALLOCATIONS);
    let (truth, tid) = on_thread(|| {
        let truth = churn(60_000);
        (truth, profiler_core::thread::current())
    });
    let (mut recorded, snapshot) = read();
    session::stop();
    let row = snapshot
        .threads
        .iter()
        .find(|thread| thread.tid == tid)?
        .index
        .get();
    recorded.retain(|(thread, ..)| *thread == row);
    // The profiler allocates when a thread joins the session; these entries are reentrant.
    let dropped = snapshot.counts().dropped;
    let own_work = dropped.of(DropReason::Reentrant);
    assert!(own_work < 10, "{dropped:?}");
    (own_work == dropped.total()).then_some((truth, recorded, snapshot))
}

#[test]
fn samples_add_up_to_what_was_allocated_and_every_free_matches() {
    own_process!();
    let (truth, own, snapshot) = (0..20)
        .find_map(|_| churned())
        .expect("entries are dropped in every run");
    let sampled: i64 = own.iter().map(|(.., bytes)| (*bytes).max(0)).sum();
    let ratio = sampled as f64 / truth as f64;
    // There are at least 4,000 samples of equal weight, so one standard deviation is below 1.6 %.
    assert!(
        (0.93..1.07).contains(&ratio),
        "sampled {sampled} of {truth}"
    );
    assert!(own.len() > 4000, "{} samples", own.len());
    assert!(matched(&own, &snapshot).is_empty(), "frees are missing");
}

#[test]
fn the_counter_counts_every_byte_even_without_samples() {
    own_process!();
    start(Features::NONE);
    let kept = on_thread(|| (0..1000).map(|_| vec![1_u8; 10_000]).collect::<Vec<_>>());
    let (recorded, snapshot) = read();
    let grown = malloc(&snapshot);
    drop(kept);
    let left = malloc(&read().1);
    session::stop();
    assert!(recorded.is_empty(), "sampled without a request");
    assert!((9_700_000..11_000_000).contains(&grown), "{grown}");
    assert!(
        (grown - left - 10_000_000).abs() < 500_000,
        "{grown}, then {left}"
    );
}

#[test]
fn threads_that_come_and_go_leave_exact_counts() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    for _ in 0..20 {
        let body = || {
            drop(black_box(
                (0..50)
                    .map(|size| vec![1_u8; size * 97])
                    .collect::<Vec<_>>(),
            ))
        };
        let spawn = |_| std::thread::Builder::new().spawn(body).unwrap();
        let threads: Vec<_> = (0..20).map(spawn).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }
    // Allocated on one thread and freed on another.
    let moved = on_thread(|| (0..2000).map(|_| vec![1_u8; 100]).collect::<Vec<_>>());
    on_thread(move || drop(moved));
    let (recorded, snapshot) = read();
    session::stop();
    assert!(recorded.len() > 100, "{} recorded", recorded.len());
    let freed = recorded.iter().filter(|(.., bytes)| *bytes < 0).count();
    assert!(freed > 50, "{freed} freed");
    // A free may be dropped if no chunk is ready, and is then counted. A free that matches no
    // allocation is an error.
    let live = matched(&recorded, &snapshot);
    let counts = snapshot.counts();
    assert!(
        live.len() < 200 + usize::try_from(counts.dropped.total()).unwrap(),
        "{} live",
        live.len()
    );
}

/// Allocates and frees memory. Returns the number of bytes that were allocated in addition to the
/// requested ones. `None` if a chunk was not ready in time: then the profiler may allocate a
/// little.
fn allocate_late() -> Option<u64> {
    const COUNT: u64 = 2000;
    let not_ready = session::chunks_not_ready();
    TRUTH.set(Some(0));
    (0..COUNT).for_each(|_| drop(black_box(Vec::<u8>::with_capacity(500))));
    let more = TRUTH.take().unwrap() - COUNT * 500;
    (session::chunks_not_ready() == not_ready).then_some(more)
}

/// Bytes that the profiler allocated in calls of [`allocate_late`], and the number of measured
/// calls.
static PROFILER_BYTES: AtomicU64 = AtomicU64::new(0);
static MEASURED: AtomicU64 = AtomicU64::new(0);

struct Late(#[allow(dead_code)] Vec<Vec<u8>>);

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(bytes) = allocate_late() {
            PROFILER_BYTES.fetch_add(bytes, Ordering::Relaxed);
            MEASURED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

static LATE_KEY: AtomicU32 = AtomicU32::new(0);

/// Runs twice: the profiler's callback at the end of a thread is in the first round of such
/// callbacks, so the second run is after it.
extern "C" fn drop_in_the_second_round(late: *mut libc::c_void) {
    thread_local!(static IS_SECOND: Cell<bool> = const { Cell::new(false) });
    if IS_SECOND.replace(true) {
        // SAFETY: the pointer comes from `Box::into_raw` below. The system cleared the value before
        // this call, so the box is freed once.
        drop(unsafe { Box::from_raw(late.cast::<Late>()) });
    } else {
        // SAFETY: the key was created below.
        unsafe { libc::pthread_setspecific(LATE_KEY.load(Ordering::Relaxed), late) };
    }
}

#[test]
fn allocations_after_the_profilers_thread_destructor_are_counted_and_do_not_restart_it() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    let mut key = 0;
    // SAFETY: `key` is a live variable, and the destructor is a static function.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(drop_in_the_second_round)) };
    assert_eq!(failed, 0);
    LATE_KEY.store(key, Ordering::Relaxed);
    let mut threads = 0;
    while threads < 50 || MEASURED.load(Ordering::Relaxed) < 10 {
        threads += 1;
        assert!(threads < 10_000, "a chunk is never ready");
        on_thread(move || {
            marker!("joins the session", &category::TEST);
            let late = Box::into_raw(Box::new(Late((0..50).map(|_| vec![1_u8; 1000]).collect())));
            // SAFETY: the key was created above; its destructor takes ownership of the value.
            unsafe { libc::pthread_setspecific(key, late.cast::<libc::c_void>()) };
        });
    }
    let (recorded, snapshot) = read();
    session::stop();
    assert_eq!(
        PROFILER_BYTES.swap(0, Ordering::Relaxed),
        0,
        "bytes that the profiler allocated"
    );
    let live = matched(&recorded, &snapshot);
    let dropped = snapshot.counts().dropped;
    assert!(
        live.len() as u64 <= dropped.total(),
        "{} live, {dropped:?}",
        live.len()
    );
}

extern "C" fn allocate_at_the_end(_: *mut libc::c_void) {
    allocate_late();
}

#[test]
fn a_thread_that_allocates_only_after_its_std_thread_locals_are_gone_leaves_nothing_behind() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    let mut key = 0;
    // SAFETY: `key` is a live variable, and the destructor is a static function.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(allocate_at_the_end)) };
    assert_eq!(failed, 0);
    let threads: Vec<_> = (0..50)
        .map(|_| {
            on_thread(move || {
                // SAFETY: the key was created above, and the value is not dereferenced.
                unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
                profiler_core::thread::current()
            })
        })
        .collect();
    let (recorded, snapshot) = read();
    session::stop();
    let rows_of = |tid| snapshot.threads.iter().filter(move |row| row.tid == tid);
    let rows: Vec<_> = threads.into_iter().flat_map(rows_of).collect();
    assert!(
        rows.len() > 25,
        "{} of 50 threads recorded anything",
        rows.len()
    );
    assert!(
        rows.iter().all(|row| row.ended.is_some()),
        "the row of an ended thread has no end: {rows:?}"
    );
    matched(&recorded, &snapshot);
}

#[test]
fn a_thread_that_allocates_first_gets_its_full_name_with_its_first_marker() {
    own_process!();
    const NAME: &str = "a name of more than fifteen bytes";
    start(Features::NATIVE_ALLOCATIONS);
    let body = || {
        allocate_late();
        let named = |snapshot: &Snapshot| {
            let own = profiler_core::thread::current();
            let row = snapshot
                .threads
                .iter()
                .find(|row| row.tid == own)
                .expect("a row");
            row.name.clone()
        };
        let before = named(&read().1);
        marker!("now", &category::TEST);
        (before, named(&read().1))
    };
    let (before, after) = on_named_thread(NAME, body);
    session::stop();
    assert_eq!((before.as_str(), after.as_str()), (&NAME[..15], NAME));
}

#[derive(serde::Serialize)]
struct Allocating {
    #[serde(serialize_with = "allocate")]
    text: u32,
}

fn allocate<S: serde::Serializer>(count: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    let all: Vec<Vec<u8>> = (0..*count).map(|_| black_box(vec![1; 8192])).collect();
    serializer.serialize_u64(all.len() as u64)
}

impl ProfilerMarker for Allocating {
    const TYPE_NAME: &'static str = "Allocating";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
    }
}

#[test]
fn allocations_in_the_middle_of_an_entry_are_counted_as_dropped() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    on_thread(|| {
        marker!(
            "allocates",
            &category::TEST,
            MarkerOptions::default(),
            &Allocating { text: 50 }
        )
    });
    let (recorded, snapshot) = read();
    session::stop();
    let dropped = snapshot.counts().dropped.of(DropReason::Reentrant);
    assert!(dropped > 10, "{:?}", snapshot.counts());
    let is_free = |(_, _, bytes): &&Recorded| *bytes < 0;
    matched(&recorded, &snapshot);
    assert!(recorded.iter().filter(is_free).count() < 50);
}

#[test]
fn a_free_of_an_earlier_sessions_sample_is_not_recorded() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    let kept = on_thread(|| (0..1000).map(|_| vec![1_u8; 5000]).collect::<Vec<_>>());
    let (recorded, snapshot) = read();
    assert!(matched(&recorded, &snapshot).len() > 300);
    session::stop();
    start(Features::NATIVE_ALLOCATIONS);
    drop(kept);
    let (recorded, snapshot) = read();
    session::stop();
    matched(&recorded, &snapshot);
    assert!(
        recorded.iter().filter(|(.., bytes)| *bytes < -3000).count() < 20,
        "{} recorded",
        recorded.len()
    );
}

const LARGE: usize = 1 << 20;

#[test]
fn sizes_and_alignments_are_kept_and_a_failed_reallocation_changes_nothing() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    let before = malloc(&read().1);
    for align in [1, 16, 64, 4096, 1 << 16] {
        let layout = Layout::from_size_align(LARGE, align).unwrap();
        // SAFETY: the layout's size is not zero.
        let address = unsafe { ALLOCATOR.alloc_zeroed(layout) };
        assert!(address.addr().is_multiple_of(align));
        // SAFETY: the allocation succeeded, has `LARGE` bytes and is initialized with zeros.
        let zeroed = unsafe { std::slice::from_raw_parts(address, LARGE) };
        assert!(zeroed.iter().all(|byte| *byte == 0));
        // SAFETY: the address comes from this allocator, with this layout; the new size is not
        // zero.
        let grown = unsafe { ALLOCATOR.realloc(address, layout, HUGE + 1) };
        assert!(grown.is_null());
        // SAFETY: the reallocation failed, so the old allocation is still valid, with the old
        // layout.
        unsafe { ALLOCATOR.dealloc(address, layout) };
    }
    let (recorded, snapshot) = read();
    session::stop();
    let live = matched(&recorded, &snapshot);
    assert!(
        !live.values().any(|bytes| *bytes == LARGE as i64),
        "{live:?}"
    );
    let grown = malloc(&snapshot) - before;
    assert!(
        grown.abs() < LARGE as i64,
        "{grown} bytes more although everything was freed"
    );
}

#[test]
fn a_forked_child_only_allocates() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    let mut kept = black_box(vec![1_u8; 1 << 20]);
    let in_child = || {
        drop(std::mem::take(&mut kept)); // the parent keeps it
        (0..1000).for_each(|size| drop(black_box(vec![1_u8; size * 10])));
        7
    };
    // SAFETY: the child only allocates, which the C library supports after a fork.
    let status = unsafe { in_forked_child(in_child) };
    let (recorded, snapshot) = read();
    session::stop();
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "status {status}"
    );
    let live = matched(&recorded, &snapshot);
    assert!(
        live.values().any(|bytes| *bytes >= 1 << 20),
        "the child's free was recorded: {live:?}"
    );
}
