//! Chunks of idle threads: they do not stay where nobody uses them, and nothing is lost by that.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use integration_tests::helper_process::HelperProcess;
use integration_tests::marks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use profiler_core::ids::ByteLimit;
use profiler_core::internal::sys::spawn_quiet;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const MIB: u64 = 1 << 20;
const THREADS: u32 = 8;
const BUSY: u64 = 40_000;
const AGAIN: u64 = 1000;

fn own_bytes(session: &TestSession) -> u64 {
    session.processes().first().map_or(0, |parent| parent.true_bytes)
}

/// Records, with short pauses: a machine that is busy elsewhere must not make it lose entries.
fn record(thread: u32, numbers: std::ops::Range<u64>) {
    for sequence in numbers {
        marks::record(thread, sequence);
        if sequence % 50 == 49 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

#[test]
fn large_chunks_of_threads_that_fell_idle_go_by_age_when_another_process_needs_memory() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(24 * MIB)))?;
    let again = Arc::new(Barrier::new(THREADS as usize + 1));
    let rested = Arc::new(Barrier::new(THREADS as usize + 1));
    let threads = (0..THREADS).map(|thread| {
        let (again, rested) = (Arc::clone(&again), Arc::clone(&rested));
        spawn_quiet("worker", move || {
            record(thread, 0..BUSY);
            rested.wait();
            again.wait();
            record(thread, BUSY..BUSY + AGAIN);
        })
    });
    let threads: Vec<_> = threads.collect::<std::io::Result<_>>()?;
    rested.wait();
    let busy = own_bytes(&session);
    let mut other = HelperProcess::spawn(&session, CHILD, "other", "init")?;
    other.ask("flood 2 100")?;
    // Header, tables and the smallest chunks stay; one chunk of one thread would be more.
    let gone = until(|| own_bytes(&session) < 256 << 10);
    println!("busy {busy} bytes, idle {} bytes", own_bytes(&session));
    assert!(busy > 8 * MIB, "{busy} bytes: the threads held little, so nothing was tested");
    assert!(gone, "{} bytes stay in idle hands", own_bytes(&session));
    other.ask("calm")?;
    let refilled = refill(&session);
    again.wait();
    threads.into_iter().for_each(|thread| drop(thread.join()));
    check(&session, refilled)
}

/// Records until this process may hold enough again, and returns how many entries that took. These
/// entries are older than those that follow, and are evicted before them, even if the controller
/// has no processor for a while.
fn refill(session: &TestSession) -> u64 {
    let mut recorded = 0;
    assert!(until(|| {
        record(THREADS, recorded..recorded + 1000);
        recorded += 1000;
        own_bytes(session) > 4 * MIB
    }));
    recorded
}

/// What the threads recorded after their rest is all there, and every book adds up.
fn check(session: &TestSession, refilled: u64) -> anyhow::Result<()> {
    let (_, profile) = session.capture()?;
    let (books, numbers) = (profile.parent().books()?, profile.parent().numbers()?);
    assert_eq!(books.recorded, u64::from(THREADS) * (BUSY + AGAIN) + refilled, "{books:?}");
    assert!(books.evicted > 0, "{books:?}");
    let mut missing = 0;
    for thread in 0..THREADS {
        let after: Vec<u64> = numbers[&thread].iter().copied().filter(|number| *number >= BUSY).collect();
        assert!(after.is_sorted_by(|a, b| a < b), "thread {thread}: {after:?}");
        missing += AGAIN - after.len() as u64;
    }
    // A loaded machine may lose an entry, which is counted.
    assert!(missing <= books.dropped && missing < AGAIN / 10, "{missing} are missing: {books:?}");
    Ok(())
}

#[test]
fn threads_that_record_in_bursts_lose_nothing_to_the_looks_at_their_chunks() -> anyhow::Result<()> {
    own_process!();
    const BURST: u64 = 4000;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 * MIB)))?;
    let pauses = [5, 300, 900, 1100, 1000, 2100];
    let threads: Vec<_> = (0..4_u32)
        .map(|thread| {
            spawn_quiet("worker", move || {
                for (burst, pause) in (0..).zip(pauses) {
                    record(thread, burst * BURST..(burst + 1) * BURST);
                    std::thread::sleep(Duration::from_millis(pause + u64::from(thread) * 7));
                }
            })
        })
        .collect::<std::io::Result<_>>()?;
    let held = || session.processes()[0].true_bytes;
    let mut samples = vec![held()];
    while threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(10));
        samples.push(held());
    }
    let gave_back = samples.windows(2).any(|pair| pair[1] < pair[0]);
    assert!(gave_back, "nothing was taken from anybody: {samples:?}");
    threads.into_iter().for_each(|thread| drop(thread.join()));
    let (_, profile) = session.capture()?;
    let (books, numbers) = (profile.parent().books()?, profile.parent().numbers()?);
    assert_eq!((books.recorded, books.dropped), (4 * 6 * BURST, 0), "{books:?}");
    for thread in 0..4 {
        // The oldest may have gone before the session's first megabytes were granted; the rest is whole.
        let kept = &numbers[&thread];
        let first = 6 * BURST - kept.len() as u64;
        assert!(kept.len() as u64 > 3 * BURST && kept.iter().copied().eq(first..6 * BURST), "{books:?}");
    }
    Ok(())
}
