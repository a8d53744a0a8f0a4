//! A session that samples, a thread that runs beside the sampler, and the samples of that
//! thread.

#![allow(clippy::disallowed_methods)] // deadlines of its own

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::{SampleEntry, Stacks};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader};
use profiler_core::sampler::{Frame, SamplingStats};
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

/// Passes all samples of a pool to `take`, with the addresses of their stacks, outermost first; 0
/// where an address is not known.
pub(super) fn each_sample(
    pool: File,
    mut take: impl FnMut(&SampleEntry<'_>, &[u64]),
) -> Result<()> {
    let reader = PoolReader::open(pool)?;
    let snapshot = reader.snapshot()?;
    let address = |frame: &Frame| match frame {
        Frame::Code(module, relative) => snapshot
            .definitions
            .module(*module)
            .map_or(0, |module| module.base.wrapping_add(*relative)),
        Frame::Unknown(address) => *address,
        _ => 0,
    };
    let mut buffer = ChunkBuffer::default();
    let mut stacks = Stacks::default();
    let mut addresses = Vec::new();
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer)? else {
            continue;
        };
        stacks.begin_chunk();
        for entry in entries {
            let Entry::Sample(sample) = entry else {
                continue;
            };
            addresses.clear();
            addresses.extend(stacks.of(&sample).iter().map(address));
            take(&sample, &addresses);
        }
    }
    Ok(())
}

/// Returns all samples of a thread.
pub(super) fn samples_of(thread: ThreadId) -> Result<Vec<Seen>> {
    let mut seen = Vec::new();
    each_sample(session::pool_file()?, |sample, _| {
        if sample.foreign == Some(thread) {
            seen.push(Seen {
                at: sample.at.raw(),
                failed: sample.failed,
            });
        }
    })?;
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
