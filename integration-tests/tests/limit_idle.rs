//! Tests of the chunks of idle threads.
//!
//! A large chunk of an idle thread is released, and evicted by age when another process needs
//! memory. No entry is lost, also when the thread records again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use integration_tests::helper_process::HelperProcess;
use integration_tests::marks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use profiler_core::ids::ByteLimit;
use profiler_sys::spawn_quiet;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const MIB: u64 = 1 << 20;
const THREADS: u32 = 8;
const BUSY: u64 = 40_000;
const AGAIN: u64 = 1000;

fn own_bytes(session: &TestSession) -> u64 {
    session
        .processes()
        .first()
        .map_or(0, |parent| parent.true_bytes)
}

/// Records with pauses of this length, so that the manager keeps up also on a busy machine.
fn record_with_pauses(thread: u32, numbers: std::ops::Range<u64>, pause: Duration) {
    for sequence in numbers {
        marks::record(thread, sequence);
        if sequence % 50 == 49 {
            std::thread::sleep(pause);
        }
    }
}

fn record(thread: u32, numbers: std::ops::Range<u64>) {
    record_with_pauses(thread, numbers, Duration::from_micros(100));
}

#[test]
fn large_chunks_of_threads_that_fell_idle_go_by_age_when_another_process_needs_memory()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(24 * MIB)))?;
    let again = Arc::new(Barrier::new(THREADS as usize + 1));
    let idle = Arc::new(Barrier::new(THREADS as usize + 1));
    let threads = (0..THREADS).map(|thread| {
        let again = Arc::clone(&again);
        let idle = Arc::clone(&idle);
        spawn_quiet("worker", move || {
            record(thread, 0..BUSY);
            idle.wait();
            again.wait();
            record_with_pauses(thread, BUSY..BUSY + AGAIN, Duration::from_millis(1));
        })
    });
    let threads: Vec<_> = threads.collect::<std::io::Result<_>>()?;
    idle.wait();
    let busy = own_bytes(&session);
    let mut other = HelperProcess::spawn(&session, CHILD, "other", "init")?;
    other.ask("flood 2 100")?;
    // The header, the tables and the smallest chunks remain. A single large chunk would be more.
    let gone = until(|| own_bytes(&session) < 256 << 10);
    println!("busy {busy} bytes, idle {} bytes", own_bytes(&session));
    assert!(
        busy > 8 * MIB,
        "{busy} bytes: the threads held little, so the test shows nothing"
    );
    assert!(
        gone,
        "{} bytes remain with idle threads",
        own_bytes(&session)
    );
    other.ask("calm")?;
    let refilled = refill(&session);
    again.wait();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    check(&session, refilled)
}

/// Records until this process holds 4 MiB again, and returns the number of entries. These entries
/// are older than those that follow, and are evicted before them, even if the controller gets no
/// processor time for a while.
fn refill(session: &TestSession) -> u64 {
    let mut recorded = 0;
    assert!(until(|| {
        record(THREADS, recorded..recorded + 1000);
        recorded += 1000;
        own_bytes(session) > 4 * MIB
    }));
    recorded
}

/// Checks that every thread's entries after its idle time are delivered or counted as dropped, and
/// that all counts add up.
fn check(session: &TestSession, refilled: u64) -> anyhow::Result<()> {
    let (_, profile) = session.capture()?;
    let counts = profile.parent().counts()?;
    let numbers = profile.parent().numbers()?;
    assert_eq!(
        counts.recorded,
        u64::from(THREADS) * (BUSY + AGAIN) + refilled,
        "{counts:?}"
    );
    assert!(counts.evicted > 0, "{counts:?}");
    let mut missing = 0;
    for thread in 0..THREADS {
        let after: Vec<u64> = numbers[&thread]
            .iter()
            .copied()
            .filter(|number| *number >= BUSY)
            .collect();
        assert!(
            after.is_sorted_by(|a, b| a < b),
            "thread {thread}: {after:?}"
        );
        assert!(!after.is_empty(), "thread {thread} records nothing again");
        missing += AGAIN - after.len() as u64;
    }
    // On a loaded machine the manager may be late. The entries are dropped then, and counted.
    assert!(
        missing <= counts.dropped,
        "{missing} are missing: {counts:?}"
    );
    Ok(())
}

#[test]
fn threads_that_record_in_bursts_lose_nothing_when_idle_chunks_are_released() -> anyhow::Result<()>
{
    own_process!();
    const BURST: u64 = 4000;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 * MIB)))?;
    let pauses = [5, 300, 900, 1100, 1000, 2100];
    let gave_back = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4_u32)
        .map(|thread| {
            let gave_back = Arc::clone(&gave_back);
            spawn_quiet("worker", move || {
                for (burst, pause) in (0..).zip(pauses) {
                    record(thread, burst * BURST..(burst + 1) * BURST);
                    std::thread::sleep(Duration::from_millis(pause + u64::from(thread) * 7));
                    // On a busy machine all pauses may pass before a chunk is released.
                    if burst == 3 {
                        until(|| gave_back.load(Ordering::Relaxed));
                    }
                }
            })
        })
        .collect::<std::io::Result<_>>()?;
    let held = || session.processes()[0].true_bytes;
    let mut most = held();
    while threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(10));
        let now = held();
        gave_back.fetch_or(now < most, Ordering::Relaxed);
        most = most.max(now);
    }
    assert!(
        gave_back.load(Ordering::Relaxed),
        "no chunk was released of {most} bytes"
    );
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let (_, profile) = session.capture()?;
    let counts = profile.parent().counts()?;
    let numbers = profile.parent().numbers()?;
    assert_eq!(counts.recorded, 4 * 6 * BURST, "{counts:?}");
    let mut missing = 0;
    for thread in 0..4 {
        // The oldest entries may have been evicted before the session granted the first megabytes.
        let kept = &numbers[&thread];
        assert!(kept.is_sorted_by(|a, b| a < b), "thread {thread}: {kept:?}");
        assert!(kept.len() as u64 > 3 * BURST, "{counts:?}");
        missing += 6 * BURST - kept[0] - kept.len() as u64;
    }
    // On a loaded machine the manager may be late. The entries are dropped then, and counted.
    assert!(
        missing <= counts.dropped,
        "{missing} are missing: {counts:?}"
    );
    Ok(())
}
