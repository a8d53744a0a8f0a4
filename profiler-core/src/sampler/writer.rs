//! Writes samples as entries.
//!
//! Used by the sampler's thread, and by programs with a sampler of their own (an interpreter, a
//! virtual machine). A writer belongs to one thread and one session. It allocates only when a
//! thread is first sampled or a stack is deeper than all before.

use std::collections::HashMap;

use crate::entry::periodic::{COUNTER_VALUE_BYTES, CounterValue, OverheadEntry, write_counter};
use crate::entry::sample::{SampleHead, write_sample};
use crate::entry::trace::SampleContext;
use crate::entry::{Kind, Timing, head_of, with_length};
use crate::ids::{DefinitionId, ThreadId};
use crate::pool::tag::pool_tag;
use crate::record::local;
use crate::record::pool_writer::PoolWriter;
use crate::record::writer::{ChunkLife, Front, PayloadBuffer};
use crate::sample_types::{Frame, MAX_FRAMES, Sample};
use crate::time::Timestamp;

/// Where a sample writer adds its entries.
pub(crate) trait EntryTarget {
    /// Adds an entry with the payload that `encode` writes.
    fn add<F>(&mut self, front: Front, encode: F)
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>;
}

/// The chunks of the calling thread.
#[derive(Debug)]
struct OwnChunks;

impl EntryTarget for OwnChunks {
    fn add<F>(&mut self, front: Front, encode: F)
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        local::with_recorder(|recorder| recorder.with_tail(front, "", encode));
    }
}

impl EntryTarget for PoolWriter {
    fn add<F>(&mut self, front: Front, encode: F)
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        self.with_tail(front, encode);
    }
}

/// Records samples of any thread of this process in the calling thread's chunks.
#[derive(Debug, Default)]
pub struct SampleWriter {
    place: Place,
    threads: HashMap<ThreadId, LastStack>,
}

/// What a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleSpan {
    /// The number of ticks, at least 1; the sample's own is the last one.
    pub(crate) ticks: u64,
    /// Whether the thread waited there at all of these ticks.
    pub(crate) waited: bool,
    /// Whether the thread waits there until its next sample.
    pub(crate) waits: bool,
    /// Whether it stands for the time since the thread's previous sample instead of ticks.
    pub(crate) since_previous: bool,
    /// What the thread worked for.
    pub(crate) context: SampleContext,
}

impl SampleSpan {
    /// A sample of one tick.
    pub(crate) const TICK: Self = Self {
        ticks: 1,
        waited: false,
        waits: false,
        since_previous: false,
        context: SampleContext {
            trace: None,
            group: None,
        },
    };

    /// A sample that stands for the time since the thread's previous sample.
    const SINCE_PREVIOUS: Self = Self {
        since_previous: true,
        ..Self::TICK
    };

    /// A sample with this number of ticks, in which the thread ran.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no samples on these systems
    pub(crate) const fn run(ticks: u64) -> Self {
        Self {
            ticks,
            ..Self::TICK
        }
    }

    /// The first sample of a wait, with this number of ticks.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no samples on these systems
    pub(crate) const fn wait(ticks: u64) -> Self {
        Self {
            ticks,
            waited: true,
            waits: true,
            ..Self::TICK
        }
    }

    /// The same in this context.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no samples on these systems
    pub(crate) const fn within(self, context: SampleContext) -> Self {
        Self { context, ..self }
    }

    fn more_ticks(self) -> u32 {
        u32::try_from(self.ticks.saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// The destination of the next entry.
#[derive(Debug)]
struct Place {
    /// The pool whose definitions the frames refer to.
    tag: u64,
    /// The last chunk written to.
    last: Option<ChunkLife>,
    /// The number of that chunk among the chunks written to.
    chunk: u64,
}

/// The stack of a thread's previous sample, and the chunk that holds it.
#[derive(Debug, Default)]
struct LastStack {
    chunk: u64,
    frames: Vec<Frame>,
    /// Whether outer frames are missing.
    cut: bool,
    /// Whether unwinding reached a frame that it could not leave.
    failed: bool,
    context: SampleContext,
}

impl SampleWriter {
    /// Makes a writer for the current session. In later sessions it writes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a writer for the pool with this tag.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn of_pool(tag: u64) -> Self {
        Self {
            place: Place {
                tag,
                ..Place::default()
            },
            threads: HashMap::new(),
        }
    }

    /// Records a sample, which stands for the time since the thread's previous one; false if it was
    /// dropped, which is counted.
    pub fn sample(&mut self, thread: ThreadId, sample: &Sample<'_>) -> bool {
        self.sample_for(thread, sample, SampleSpan::SINCE_PREVIOUS)
    }

    /// Like [`Self::sample`], for a sample that stands for `span`.
    pub(crate) fn sample_for(
        &mut self,
        thread: ThreadId,
        sample: &Sample<'_>,
        span: SampleSpan,
    ) -> bool {
        self.add_sample(&mut OwnChunks, thread, sample, span)
    }

    /// Like [`Self::sample_for`], for a sample of a process whose pool `target` writes.
    pub(crate) fn add_sample(
        &mut self,
        target: &mut impl EntryTarget,
        thread: ThreadId,
        sample: &Sample<'_>,
        span: SampleSpan,
    ) -> bool {
        let frames = sample
            .frames
            .get(sample.frames.len().saturating_sub(MAX_FRAMES)..)
            .unwrap_or_default();
        let cut = sample.cut || frames.len() < sample.frames.len();
        let head = SampleHead {
            cpu_ns: sample.cpu_ns,
            cut,
            failed: sample.failed,
            waits: span.waits,
            waited: span.waited,
            since_previous: span.since_previous,
            context: span.context,
            more_ticks: span.more_ticks(),
        };
        let last = self.threads.entry(thread).or_default();
        let written = self.place.write(
            target,
            Kind::Sample,
            sample.at,
            Some(thread),
            |chunk, room| {
                let shared = last.shared(chunk, frames);
                write_sample(room, head, shared, frames.get(shared..)?.iter().copied())
            },
        );
        if written {
            last.chunk = self.place.chunk;
            last.frames.clear();
            last.frames.extend_from_slice(frames);
            (last.cut, last.failed, last.context) = (head.cut, head.failed, head.context);
        }
        written
    }

    /// Records that a thread still has the stack of its last sample and used no processor time
    /// since. False if it has no sample, or if this one was dropped.
    pub fn same_as_before(&mut self, thread: ThreadId, at: Timestamp) -> bool {
        self.repeat(thread, at, Some(0))
    }

    /// Records that a thread still has the stack of its last sample, with the processor time used
    /// since.
    pub fn repeat(&mut self, thread: ThreadId, at: Timestamp, cpu_ns: Option<u64>) -> bool {
        self.repeat_for(thread, at, cpu_ns, SampleSpan::SINCE_PREVIOUS)
    }

    /// Like [`Self::repeat`], for a sample that stands for `span`.
    pub(crate) fn repeat_for(
        &mut self,
        thread: ThreadId,
        at: Timestamp,
        cpu_ns: Option<u64>,
        span: SampleSpan,
    ) -> bool {
        self.add_repeated(&mut OwnChunks, thread, (at, cpu_ns), span)
    }

    /// Like [`Self::repeat_for`], for a process whose pool `target` writes.
    pub(crate) fn add_repeated(
        &mut self,
        target: &mut impl EntryTarget,
        thread: ThreadId,
        (at, cpu_ns): (Timestamp, Option<u64>),
        span: SampleSpan,
    ) -> bool {
        let Some(last) = self.threads.get_mut(&thread).filter(|last| last.chunk > 0) else {
            return false;
        };
        let head = SampleHead {
            cpu_ns,
            cut: last.cut,
            failed: last.failed,
            waits: span.waits,
            waited: span.waited,
            since_previous: span.since_previous,
            context: last.context,
            more_ticks: span.more_ticks(),
        };
        let written = self
            .place
            .write(target, Kind::Sample, at, Some(thread), |chunk, room| {
                // The previous stack is in another chunk, which may be dropped before this one:
                // write it again.
                let shared = if last.chunk == chunk {
                    last.frames.len()
                } else {
                    0
                };
                write_sample(
                    room,
                    head,
                    shared,
                    last.frames.get(shared..)?.iter().copied(),
                )
            });
        if written {
            last.chunk = self.place.chunk;
        }
        written
    }

    /// Forgets all threads for which `is_there` returns false, because they have ended.
    pub fn keep_only(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.threads.retain(|thread, _| is_there(*thread));
    }

    /// Records the values of counters.
    pub(crate) fn counters(&mut self, at: Timestamp, values: &[CounterValue]) -> bool {
        self.add_counters(&mut OwnChunks, at, values)
    }

    /// Like [`Self::counters`], for a process whose pool `target` writes.
    pub(crate) fn add_counters(
        &mut self,
        target: &mut impl EntryTarget,
        at: Timestamp,
        values: &[CounterValue],
    ) -> bool {
        self.place
            .write(target, Kind::Counters, at, None, |_, room| {
                let len = values.len().saturating_mul(COUNTER_VALUE_BYTES);
                let (places, _) = room.get_mut(..len)?.as_chunks_mut::<COUNTER_VALUE_BYTES>();
                places
                    .iter_mut()
                    .zip(values)
                    .for_each(|(place, value)| write_counter(place, *value));
                Some(len)
            })
    }

    /// Records the cost of a tick.
    pub(crate) fn overhead(&mut self, overhead: &OverheadEntry) -> bool {
        let body = overhead.encode();
        self.place.write(
            &mut OwnChunks,
            Kind::Overhead,
            overhead.at,
            None,
            |_, room| {
                room.get_mut(..body.len())?.copy_from_slice(&body);
                Some(body.len())
            },
        )
    }
}

impl LastStack {
    /// The number of outermost frames shared with the previous sample, if that is in this chunk.
    fn shared(&self, chunk: u64, frames: &[Frame]) -> usize {
        let same = self
            .frames
            .iter()
            .zip(frames)
            .take_while(|(before, now)| before == now);
        if self.chunk == chunk { same.count() } else { 0 }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self {
            tag: pool_tag(),
            last: None,
            chunk: 0,
        }
    }
}

impl Place {
    /// Writes an entry; `fill` writes its body and gets the number of its chunk.
    fn write(
        &mut self,
        target: &mut impl EntryTarget,
        kind: Kind,
        at: Timestamp,
        thread: Option<ThreadId>,
        mut fill: impl FnMut(u64, &mut [u8]) -> Option<usize>,
    ) -> bool {
        let head = head_of(
            kind,
            Timing::Instant(at),
            thread.is_some(),
            DefinitionId::NONE,
        );
        let tagged = with_length(head, usize::try_from(self.tag).unwrap_or(0));
        let front = Front {
            head: tagged,
            fixed: [at.raw(), thread.map_or(0, ThreadId::get), 0],
        };
        let chunk = self.chunk;
        let last = self.last;
        let mut committed = None;
        let encode = |room: PayloadBuffer<'_>| {
            // The thread may record other entries in between, and change chunks for them.
            let now = room.chunk();
            let number = if last == Some(now) { chunk } else { chunk + 1 };
            let len = fill(number, room.bytes);
            committed = len.map(|_| (number, now));
            Ok(len)
        };
        target.add(front, encode);
        if let Some(at) = committed {
            self.chunk = at.0;
            self.last = Some(at.1);
        }
        committed.is_some()
    }
}
