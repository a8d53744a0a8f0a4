//! A session that samples, a thread that runs beside the sampler, and the samples of that
//! thread.

#![allow(clippy::disallowed_methods)] // deadlines of its own

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader};
use profiler_core::sampler::SamplingStats;
use profiler_core::session::{self, Features, SampleSource, SessionParams, StartOptions};

/// How long a thread is sampled for one figure.
pub(super) const LONG: Duration = Duration::from_secs(3);

/// A running session. It stops when the value is dropped.
pub(super) struct Sampling;

impl Sampling {
    /// Starts a session with the default source of samples.
    pub(super) fn start() -> Result<Self> {
        Self::by(SampleSource::Automatic)
    }

    pub(super) fn by(source: SampleSource) -> Result<Self> {
        let features = Features::STACK_WALK.with(Features::CPU);
        session::start(
            SessionParams {
                features,
                source,
                ..SessionParams::default()
            },
            StartOptions::default(),
        )?;
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

/// A sample of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) failed: bool,
}

/// Returns all samples of a thread.
pub(super) fn samples_of(thread: ThreadId) -> Result<Vec<Seen>> {
    let reader = PoolReader::open(session::pool_file()?)?;
    let snapshot = reader.snapshot()?;
    let mut seen = Vec::new();
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer)? else {
            continue;
        };
        for entry in entries {
            if let Entry::Sample(sample) = entry
                && sample.foreign == Some(thread)
            {
                seen.push(Seen {
                    at: sample.at.raw(),
                    failed: sample.failed,
                });
            }
        }
    }
    Ok(seen)
}

/// Runs `work` on a new thread for [`LONG`]. Returns the thread and the result.
pub(super) fn beside<T: Send>(work: impl FnOnce(&AtomicBool) -> T + Send) -> Result<(ThreadId, T)> {
    beside_for(LONG, work, Duration::from_millis(10), |_| {})
}

/// Runs `work` on a new thread for `time`. Calls `meanwhile` with the thread repeatedly, after a
/// sleep of `pause`.
pub(super) fn beside_for<T: Send>(
    time: Duration,
    work: impl FnOnce(&AtomicBool) -> T + Send,
    pause: Duration,
    meanwhile: impl Fn(ThreadId),
) -> Result<(ThreadId, T)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let stopped = &stop;
        let worker = scope.spawn(move || {
            let _ = sender.send(profiler_core::thread::current());
            work(stopped)
        });
        let thread = receiver.recv()?;
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::thread::sleep(pause);
            meanwhile(thread);
        }
        stop.store(true, Ordering::Relaxed);
        Ok((
            thread,
            worker
                .join()
                .map_err(|_| anyhow!("the sampled thread panicked"))?,
        ))
    })
}

/// Runs `body` below `levels` more frames.
#[inline(never)]
pub(super) fn at_depth<T>(levels: u32, body: &mut dyn FnMut() -> T) -> T {
    if levels == 0 {
        return body();
    }
    let result = at_depth(levels - 1, body);
    std::hint::black_box(levels); // prevents a tail call
    result
}

/// Returns whether the work continues.
pub(super) fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}
