//! Acknowledged markers: threads that acknowledge each marker after it is committed, and a check
//! that a profile contains what was acknowledged.
//!
//! Used by both helper processes (`src/bin/child` and `src/bin/parent`), and by tests that kill
//! them. An acknowledgement is the number of the thread and the number of the marker, written as 16
//! bytes in one write.

use std::collections::BTreeMap;
use std::fs::File;

use anyhow::{Context, ensure};

use crate::marks;
use crate::profile::Process;

/// The number of markers that each thread has acknowledged, counted from its first one.
pub type Counts = BTreeMap<u32, u64>;

/// Starts threads that record markers without end. After each marker, a thread writes its own
/// number and the marker's number to `out`.
///
/// # Errors
/// When the system has no thread or descriptor left.
pub fn flood(threads: u32, out: &File) -> std::io::Result<()> {
    for thread in 0..threads {
        let out = out.try_clone()?;
        std::thread::Builder::new()
            .name(format!("worker-{thread}"))
            .spawn(move || {
                for sequence in 0.. {
                    marks::record(thread, sequence);
                    let mut bytes = [0; 16];
                    bytes[..8].copy_from_slice(&u64::from(thread).to_ne_bytes());
                    bytes[8..].copy_from_slice(&u64::to_ne_bytes(sequence));
                    // The kernel does not split a write of 16 bytes. The line buffer of std's
                    // stdout could.
                    let _ = rustix::io::write(&out, &bytes);
                }
            })?;
    }
    Ok(())
}

/// Counts the acknowledgements in the bytes that [`flood`] wrote. Ignores an incomplete one at the
/// end.
///
/// # Panics
/// When the acknowledgements of a thread are out of order.
pub fn counts(bytes: &[u8]) -> Counts {
    let mut threads = Counts::new();
    for record in bytes.chunks_exact(16) {
        let word =
            |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let counted: &mut u64 = threads.entry(word(0) as u32).or_default();
        assert_eq!(*counted, word(8), "the acknowledgements are out of order");
        *counted += 1;
    }
    threads
}

/// Checks that every acknowledged marker is in the profile, in order, or is counted as dropped or
/// evicted, and that the counts agree with the markers.
///
/// `is_all` says that the process is dead, so `acknowledged` is complete. Each thread may then have
/// at most one marker more, which it committed but did not acknowledge.
///
/// # Errors
/// When markers are missing, torn, doubled or out of order, or when there are too many.
pub fn check(process: &Process, acknowledged: &Counts, is_all: bool) -> anyhow::Result<()> {
    let numbers = process.numbers()?;
    for (thread, count) in acknowledged {
        let who = format!("{}, thread {thread}", process.name);
        // All entries of a thread that did not run for a while may be evicted for newer ones.
        let found = numbers.get(thread).map_or(&[][..], Vec::as_slice);
        ensure!(found.is_sorted_by(|a, b| a < b), "{who}: out of order");
        let row = process
            .threads
            .iter()
            .find(|row| row.name == format!("worker-{thread}"));
        let counts = row
            .and_then(|row| row.counts.as_ref())
            .with_context(|| format!("{who}: no counts"))?;
        ensure!(counts.delivered == found.len() as u64, "{who}: {counts:?}");
        let missing = found.last().map_or(0, |last| last + 1 - counts.delivered);
        ensure!(
            missing <= counts.evicted + counts.dropped,
            "{who}: {missing} missing, {counts:?}"
        );
        let accounted = counts.delivered + counts.evicted + counts.dropped;
        ensure!(
            accounted >= *count && !(is_all && accounted > count + 1),
            "{who}: {counts:?}, but {count} were acknowledged"
        );
    }
    process.counts()?;
    Ok(())
}
