//! A session in which threads on small stacks record, and its result.
//!
//! Used by the program `small_stacks` and by the figures.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, PoolReader, Snapshot};
use profiler_core::marker;
use profiler_core::marker::{MarkerOptions, MarkerStack, category};
use profiler_core::session::{self, Features, SessionParams, StartOptions};

use super::Kind;
use super::kind::{ALLOCATED, MARKER};
use crate::patience::{HeldUp, until};

const PROBE: &str = "probe";

/// The smallest stack of an almost empty thread that is walked. On smaller stacks, the stack is
/// left out. The unwinder uses more if it is built without all optimizations.
pub const ENOUGH_TO_WALK: usize = if cfg!(debug_assertions) {
    24 * 1024
} else {
    16 * 1024
};

/// Starts a session that walks stacks and samples allocations, and waits until a marker has a
/// stack. `interval` is the sampling interval.
///
/// # Errors
/// When no session starts, or no stack is walked.
pub fn start(interval: Duration) -> Result<()> {
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NATIVE_ALLOCATIONS);
    let params = SessionParams {
        features,
        interval_ns: interval.as_nanos().try_into()?,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default())?;
    let is_walked = until(|| {
        marker!(
            PROBE,
            &category::TEST,
            MarkerOptions::default().with_stack(MarkerStack::Full)
        );
        probes().is_ok_and(|all| all.iter().any(|entry| entry.is_probe && entry.frames > 2))
    });
    ensure!(is_walked, "no stack is walked");
    Ok(())
}

/// The entries of the threads of [`super::thread::crowd`].
#[derive(Clone, Copy, Debug)]
pub struct RecordedEntries {
    /// How many there are.
    pub count: usize,
    /// How many show a stack of the thread's own functions.
    pub with_stack: usize,
    /// How many show less, and are marked as cut.
    pub cut: usize,
    /// How many entries of the whole process were dropped, and counted.
    pub dropped: usize,
}

/// Returns the entries that the threads of [`super::thread::crowd`] recorded.
///
/// # Errors
/// When the pool cannot be read.
pub fn recorded() -> Result<RecordedEntries> {
    let reader = PoolReader::open(session::pool_file().context("no pool")?)?;
    let snapshot = reader.snapshot()?;
    let all = entries(&reader, &snapshot)?;
    let own = all.iter().filter(|entry| !entry.is_probe);
    // The thread's function, the function of the kind, and their callers.
    let has_stack = |entry: &&Recorded| entry.frames >= 3;
    Ok(RecordedEntries {
        count: own.clone().count(),
        with_stack: own.clone().filter(has_stack).count(),
        cut: own
            .filter(|entry| !has_stack(entry) && entry.is_cut)
            .count(),
        dropped: usize::try_from(snapshot.counts().dropped.total())?,
    })
}

/// The result of [`play`].
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// Entries that were recorded.
    pub entries: usize,
    /// Entries that show a stack of native frames.
    pub with_stack: usize,
    /// Samples that were taken of all threads meanwhile.
    pub samples: u64,
}

/// Records on `count` threads with stacks of `bytes` bytes, `times` times on each, while they are
/// sampled.
///
/// # Errors
/// When entries or stacks are missing. [`HeldUp`] if most entries are dropped.
pub fn play(kind: Kind, bytes: usize, count: usize, times: u32) -> Result<Played> {
    start(Duration::from_millis(1))?;
    let before = recorded()?;
    super::thread::crowd(kind, bytes, count, times)?;
    let mut recorded = recorded()?;
    recorded.dropped -= before.dropped;
    let samples = session::sampling_stats()
        .context("nothing was sampled")?
        .taken;
    session::stop();
    let wanted = count * usize::try_from(times)? * kind.entries();
    // An entry that finds a lock in use is dropped and counted; one that finds all places for
    // captures in use is marked as cut. On a busy machine a thread that has no processor may hold
    // them for long, so the bounds are far below what is usual.
    ensure!(
        recorded.count + recorded.dropped >= wanted,
        "{recorded:?} of {wanted}"
    );
    if recorded.count * 2 < wanted {
        let thread = format!("a thread with a lock ({recorded:?} of {wanted})");
        return Err(HeldUp(thread).into());
    }
    let shows_stacks = kind.has_stack() && bytes >= ENOUGH_TO_WALK;
    let are_stacks_complete = recorded.with_stack * 4 >= recorded.count
        && recorded.with_stack + recorded.cut == recorded.count;
    ensure!(
        !shows_stacks || are_stacks_complete,
        "{recorded:?} of {wanted}"
    );
    Ok(Played {
        entries: recorded.count,
        with_stack: recorded.with_stack,
        samples,
    })
}

struct Recorded {
    is_probe: bool,
    frames: usize,
    is_cut: bool,
}

fn probes() -> Result<Vec<Recorded>> {
    let reader = PoolReader::open(session::pool_file().context("no pool")?)?;
    entries(&reader, &reader.snapshot()?)
}

/// Returns all markers and allocations of these threads, and all probes.
fn entries<S: ByteSource>(reader: &PoolReader<S>, snapshot: &Snapshot) -> Result<Vec<Recorded>> {
    let mut all = Vec::new();
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer)? else {
            continue;
        };
        for entry in entries {
            match entry {
                Entry::Marker(marker) => {
                    let site = snapshot.definitions.site(marker.site).context("no site")?;
                    let name = marker.name.unwrap_or(&site.name);
                    if name == MARKER || name == PROBE {
                        all.push(Recorded {
                            is_probe: name == PROBE,
                            frames: marker.stack.len(),
                            is_cut: marker.stack.is_cut(),
                        });
                    }
                }
                Entry::Allocation(found) if found.bytes.unsigned_abs() == ALLOCATED as u64 => {
                    all.push(Recorded {
                        is_probe: false,
                        frames: found.stack.len(),
                        is_cut: found.stack.is_cut(),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(all)
}
