//! A session that samples at 1 kHz, a thread beside it, and what the samples say of that thread.

#![allow(clippy::disallowed_methods)] // deadlines of its own

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader};
use profiler_core::sampler::SamplingStats;
use profiler_core::session::{self, Features, SessionParams, StartOptions};

/// How long a thread is sampled for one figure.
pub(super) const LONG: Duration = Duration::from_secs(3);

/// A running session; stopped in the end.
pub(super) struct Sampling;

impl Sampling {
    pub(super) fn start() -> Result<Self> {
        let features = Features::STACK_WALK.with(Features::CPU);
        session::start(SessionParams { features, ..SessionParams::default() }, StartOptions::default())?;
        Ok(Self)
    }

    pub(super) fn stats(&self) -> Result<SamplingStats> {
        session::sampling_stats().context("nothing is sampled here")
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        session::stop();
    }
}

/// What one sample says of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) failed: bool,
}

/// All samples of a thread.
pub(super) fn samples_of(thread: ThreadId) -> Result<Vec<Seen>> {
    let reader = PoolReader::open(session::pool_file()?)?;
    let snapshot = reader.snapshot()?;
    let (mut seen, mut buffer) = (Vec::new(), ChunkBuffer::default());
    for chunk in snapshot.chunks() {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer)? else { continue };
        for entry in entries {
            if let Entry::Sample(sample) = entry
                && sample.foreign == Some(thread)
            {
                seen.push(Seen { at: sample.at.raw(), failed: sample.failed });
            }
        }
    }
    Ok(seen)
}

/// Runs `work` on a thread of its own for [`LONG`]; says which thread it was and what came of it.
pub(super) fn beside<T: Send>(work: impl FnOnce(&AtomicBool) -> T + Send) -> Result<(ThreadId, T)> {
    beside_for(LONG, work, Duration::from_millis(10), |_| {})
}

/// The same for so long; `meanwhile` is told the thread again and again, after so long a sleep.
pub(super) fn beside_for<T: Send>(
    time: Duration,
    work: impl FnOnce(&AtomicBool) -> T + Send,
    pause: Duration,
    meanwhile: impl Fn(ThreadId),
) -> Result<(ThreadId, T)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (say, said) = mpsc::channel();
        let stopped = &stop;
        let worker = scope.spawn(move || {
            let _ = say.send(profiler_core::thread::current());
            work(stopped)
        });
        let thread = said.recv()?;
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(pause);
            meanwhile(thread);
        }
        stop.store(true, Ordering::Relaxed);
        Ok((thread, worker.join().map_err(|_| anyhow!("the sampled thread panicked"))?))
    })
}

/// Runs `body` below so many frames.
#[inline(never)]
pub(super) fn at_depth<T>(levels: u32, body: &mut dyn FnMut() -> T) -> T {
    if levels == 0 {
        return body();
    }
    let result = at_depth(levels - 1, body);
    std::hint::black_box(levels); // no tail call
    result
}

/// Whether to go on.
pub(super) fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}
