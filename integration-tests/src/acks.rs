//! Acknowledged markers: threads that say of each marker when it is committed, and what must
//! therefore be in a profile whenever the process dies.
//!
//! Used by both helper processes and by tests. A thread's acknowledgement is its number and the
//! marker's as 16 bytes, written whole.

use std::collections::BTreeMap;
use std::fs::File;

use anyhow::{Context, ensure};

use crate::marks;
use crate::profile::Process;

/// What each thread has acknowledged: so many markers, from the first on.
pub type Counts = BTreeMap<u32, u64>;

/// Starts threads that record markers without end, and after each one write thread and number to
/// `out`.
///
/// # Errors
/// When there is no thread or descriptor left.
pub fn flood(threads: u32, out: &File) -> std::io::Result<()> {
    for thread in 0..threads {
        let out = out.try_clone()?;
        std::thread::Builder::new().name(format!("worker-{thread}")).spawn(move || {
            for sequence in 0.. {
                marks::record(thread, sequence);
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&u64::from(thread).to_ne_bytes());
                bytes[8..].copy_from_slice(&u64::to_ne_bytes(sequence));
                // Whole, as every write of so few bytes; not through std's line buffer.
                let _ = rustix::io::write(&out, &bytes);
            }
        })?;
    }
    Ok(())
}

/// What was acknowledged, by the bytes that were written.
pub fn counts(bytes: &[u8]) -> Counts {
    let mut threads = Counts::new();
    for record in bytes.chunks_exact(16) {
        let word = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let counted: &mut u64 = threads.entry(word(0) as u32).or_default();
        assert_eq!(*counted, word(8), "the acknowledgements themselves are in order");
        *counted += 1;
    }
    threads
}

/// Checks that every acknowledged number is there, in order, but those that were dropped or
/// evicted and counted, and that the books agree. Of a process that is dead (`is_all`) at most one more per
/// thread, which was committed but not acknowledged.
///
/// # Errors
/// What is missing, torn, doubled or too much.
pub fn check(process: &Process, acknowledged: &Counts, is_all: bool) -> anyhow::Result<()> {
    let numbers = process.numbers()?;
    for (thread, count) in acknowledged {
        let who = format!("{}, thread {thread}", process.name);
        // A thread that had no processor for a while may have lost all its entries to younger ones.
        let found = numbers.get(thread).map_or(&[][..], Vec::as_slice);
        ensure!(found.is_sorted_by(|a, b| a < b), "{who}: out of order");
        let row = process.threads.iter().find(|row| row.name == format!("worker-{thread}"));
        let books = row.and_then(|row| row.books.as_ref()).with_context(|| format!("{who}: no books"))?;
        ensure!(books.delivered == found.len() as u64, "{who}: {books:?}");
        let missing = found.last().map_or(0, |last| last + 1 - books.delivered);
        ensure!(missing <= books.evicted + books.dropped, "{who}: {missing} missing, {books:?}");
        let there = books.delivered + books.evicted + books.dropped;
        ensure!(there >= *count && !(is_all && there > count + 1), "{who}: {books:?} of {count}");
    }
    process.books()?;
    Ok(())
}
