//! A session in which threads on small stacks record, and its result.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader};
use profiler_core::marker;
use profiler_core::marker::{MarkerOptions, MarkerStack, category};
use profiler_core::session::{self, Features, SessionParams, StartOptions};

use super::Kind;
use super::kind::{ALLOCATED, MARKER};
use crate::patience::until;

const PROBE: &str = "probe";

/// On stacks of at least this size the stack of an almost empty thread is walked; on smaller ones
/// it is left out. The unwinder uses more if it is built without all optimizations.
pub const ENOUGH_TO_WALK: usize = if cfg!(debug_assertions) { 24 * 1024 } else { 16 * 1024 };

/// Starts a session that walks stacks and samples allocations, and waits until it does both.
/// Threads are sampled at this interval.
///
/// # Errors
/// When no session starts, or no stack is walked.
pub fn start(interval: Duration) -> Result<()> {
    let features = Features::STACK_WALK.with(Features::CPU).with(Features::NATIVE_ALLOCATIONS);
    let params =
        SessionParams { features, interval_ns: interval.as_nanos().try_into()?, ..SessionParams::default() };
    session::start(params, StartOptions::default())?;
    let is_walked = until(|| {
        marker!(PROBE, &category::TEST, MarkerOptions::default().with_stack(MarkerStack::Full));
        entries().is_ok_and(|all| all.iter().any(|entry| entry.is_probe && entry.frames > 2))
    });
    ensure!(is_walked, "no stack is walked");
    Ok(())
}

/// How many entries the threads of [`super::thread::crowd`] left, and how many of them show a stack
/// of their own functions.
///
/// # Errors
/// When the pool cannot be read.
pub fn recorded() -> Result<(usize, usize)> {
    let all = entries()?;
    let own = all.iter().filter(|entry| !entry.is_probe);
    // The thread's function, the function of the kind, and their callers.
    Ok((own.clone().count(), own.filter(|entry| entry.frames >= 3).count()))
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
/// When entries or stacks are missing.
pub fn play(kind: Kind, bytes: usize, count: usize, times: u32) -> Result<Played> {
    start(Duration::from_millis(1))?;
    super::thread::crowd(kind, bytes, count, times)?;
    let (entries, with_stack) = recorded()?;
    let samples = session::sampling_stats().context("nothing was sampled")?.taken;
    session::stop();
    let wanted = count * usize::try_from(times)? * kind.entries();
    // A few may find a lock or a room in use. They are dropped and counted, or have no stack.
    let few = wanted / 10;
    ensure!(entries + few >= wanted, "{entries} of {wanted} entries");
    let shows_stacks = kind.has_stack() && bytes >= ENOUGH_TO_WALK;
    ensure!(!shows_stacks || with_stack + few >= wanted, "{with_stack} of {wanted} stacks");
    Ok(Played { entries, with_stack, samples })
}

struct Recorded {
    is_probe: bool,
    frames: usize,
}

/// All markers and allocations of these threads.
fn entries() -> Result<Vec<Recorded>> {
    let reader = PoolReader::open(session::pool_file().context("no pool")?)?;
    let snapshot = reader.snapshot()?;
    let (mut all, mut buffer) = (Vec::new(), ChunkBuffer::default());
    for chunk in snapshot.chunks() {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer)? else { continue };
        for entry in entries {
            match entry {
                Entry::Marker(marker) => {
                    let site = snapshot.definitions.site(marker.site).context("no site")?;
                    let name = marker.name.unwrap_or(&site.name);
                    if name == MARKER || name == PROBE {
                        all.push(Recorded { is_probe: name == PROBE, frames: marker.stack.len() });
                    }
                }
                Entry::Allocation(found) if found.bytes.unsigned_abs() == ALLOCATED as u64 => {
                    all.push(Recorded { is_probe: false, frames: found.stack.len() });
                }
                _ => {}
            }
        }
    }
    Ok(all)
}
