//! Samples of threads, and sampled allocations.
//!
//! The sampler's thread writes samples into its own chunks, for the thread that the entry names; an
//! allocation is written by the allocating thread.
//!
//! ```text
//! sample      word 0  bits 0…15  frames shared with the thread's previous sample, outermost first
//!                     bits 16…23 flags: 1 frames further out are missing, 2 unwinding failed,
//!                     4 the thread waits there until its next sample, 8 it waited there,
//!                     16 it stands for the time since the thread's previous sample,
//!                     32 a context precedes the stack, see `trace`
//!                     bits 24…55 further ticks that it stands for
//!             word 1  processor time since the thread's previous sample, ns; all ones: unknown
//!             word 2… context, if there is one; then the stack: the frames that are not shared,
//!                     see `stack`
//! allocation  word 0  bytes; negative: freed
//!             word 1  address
//!             word 2… stack
//! ```
//!
//! Invariant: a sample shares frames only with a sample of the same chunk. A chunk begins with
//! whole samples, so no sample refers to an evicted one. A sample that shares all its frames and
//! adds none is "same as before".

use std::collections::HashMap;

use super::stack::{Frame, MAX_FRAMES, Stack, write};
use super::trace::{CONTEXT_WORDS, SampleContext};
use super::{DamagedEntry, Words};
use crate::ids::ThreadId;
use crate::time::Timestamp;

const CUT: u64 = 1 << 16;
const FAILED: u64 = 1 << 17;
const WAITS: u64 = 1 << 18;
const WAITED: u64 = 1 << 19;
const SINCE_PREVIOUS: u64 = 1 << 20;
const CONTEXT: u64 = 1 << 21;
const NOT_MEASURED: u64 = u64::MAX;
const TICKS_SHIFT: u32 = 24;

/// The stack of a thread at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleEntry<'a> {
    /// The instant of the sample.
    pub at: Timestamp,
    /// The sampled thread, if not the one that recorded it.
    pub foreign: Option<ThreadId>,
    /// Processor time since the thread's previous sample, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Whether frames further out are missing.
    pub cut: bool,
    /// Whether unwinding reached a frame that it could not leave.
    pub failed: bool,
    /// Whether the thread waits there from then on, until its next sample or the end of the
    /// recording.
    pub waits: bool,
    /// Whether the thread waited there at all of the sample's ticks.
    pub waited: bool,
    /// The number of ticks that this sample stands for; the thread did the same at each of them.
    /// The last tick is the sample's own. At least 1.
    pub ticks: u64,
    /// Whether the sample stands for the time since the thread's previous sample, and not for
    /// `ticks`. True for the samples of a program's own sampler.
    pub since_previous: bool,
    /// What the thread worked for.
    pub context: SampleContext,
    shared: u16,
    own: Stack<'a>,
}

impl<'a> SampleEntry<'a> {
    pub(super) fn decode(
        at: Timestamp,
        foreign: Option<ThreadId>,
        body: &'a [u8],
    ) -> Result<Self, DamagedEntry> {
        let mut words = Words { bytes: body };
        let head = words.next("sample")?;
        let cpu = words.next("processor time")?;
        let context = match head & CONTEXT {
            0 => SampleContext::default(),
            _ => SampleContext::decode(&mut words)?,
        };
        let (own, _) = Stack::split(words.bytes)?;
        Ok(Self {
            at,
            foreign,
            cpu_ns: (cpu != NOT_MEASURED).then_some(cpu),
            cut: head & CUT != 0,
            failed: head & FAILED != 0,
            waits: head & WAITS != 0,
            waited: head & WAITED != 0,
            since_previous: head & SINCE_PREVIOUS != 0,
            context,
            ticks: 1 + ((head >> TICKS_SHIFT) & u64::from(u32::MAX)),
            shared: u16::try_from(head & 0xffff).unwrap_or(0),
            own,
        })
    }

    /// Whether the thread used no processor time since its previous sample. If processor time is
    /// not measured, whether the thread waited.
    pub fn is_idle(&self) -> bool {
        self.cpu_ns.map_or(self.waited, |ns| ns == 0)
    }

    /// The number of outermost frames shared with the thread's previous sample in the same chunk;
    /// at most the number of frames of that sample.
    pub const fn shared(&self) -> usize {
        self.shared as usize
    }

    /// The frames after the shared ones.
    pub const fn own(&self) -> Stack<'a> {
        self.own
    }

    /// Changes the frames of the thread's previous sample in the same chunk, as [`Frame::encode`]
    /// encodes them, into those of this sample. A sample that claims to share more frames than
    /// exist shares those that exist.
    pub fn apply_to(&self, words: &mut Vec<u64>) {
        self.apply(words, self.own.words());
    }

    fn apply<F>(&self, frames: &mut Vec<F>, own: impl Iterator<Item = F>) {
        frames.truncate(self.shared());
        let room = MAX_FRAMES.saturating_sub(frames.len());
        frames.extend(own.take(room));
    }
}

/// The fields of a sample besides its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleHead {
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) cut: bool,
    pub(crate) failed: bool,
    pub(crate) waits: bool,
    pub(crate) waited: bool,
    pub(crate) since_previous: bool,
    pub(crate) context: SampleContext,
    /// The number of ticks that it stands for besides its own.
    pub(crate) more_ticks: u32,
}

/// Writes a sample's body to the start of `room`: `shared` frames of the previous sample in the
/// same chunk, followed by `own`. Returns the number of bytes, or `None` if there is no room.
pub(crate) fn write_sample(
    room: &mut [u8],
    head: SampleHead,
    shared: usize,
    own: impl ExactSizeIterator<Item = Frame>,
) -> Option<usize> {
    let (words, rest) = room.split_first_chunk_mut::<16>()?;
    let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
    let flags = flag(head.cut, CUT)
        | flag(head.failed, FAILED)
        | flag(head.waits, WAITS)
        | flag(head.waited, WAITED)
        | flag(head.since_previous, SINCE_PREVIOUS)
        | flag(!head.context.is_empty(), CONTEXT);
    let first =
        (shared.min(MAX_FRAMES) as u64) | flags | (u64::from(head.more_ticks) << TICKS_SHIFT);
    words[..8].copy_from_slice(&first.to_ne_bytes());
    words[8..].copy_from_slice(&head.cpu_ns.unwrap_or(NOT_MEASURED).to_ne_bytes());
    let (context, used) = head.context.encode();
    let context: [[u8; 8]; CONTEXT_WORDS] = context.map(u64::to_ne_bytes);
    let context = context.as_flattened().get(..used * 8)?;
    let (place, rest) = rest.split_at_mut_checked(context.len())?;
    place.copy_from_slice(context);
    write(rest, own, head.cut).map(|len| len + 16 + context.len())
}

/// Maximum number of threads whose stacks' memory is reused from chunk to chunk.
const MAX_KEPT: usize = 1024;

/// Restores the whole stacks of one chunk's samples, in order.
#[derive(Debug, Default)]
pub struct Stacks {
    last: HashMap<Option<ThreadId>, Vec<Frame>>,
}

impl Stacks {
    /// Begins a new chunk: discards the stacks of the previous one.
    pub fn begin_chunk(&mut self) {
        // The memory for a few threads is reused. If the pool claims more threads, it is freed.
        if self.last.len() > MAX_KEPT {
            self.last.clear();
        }
        self.last.values_mut().for_each(Vec::clear);
    }

    /// The frames of a sample, outermost first. Must be called for every sample of the chunk, in
    /// order. A sample that claims to share more frames than exist shares those that exist.
    pub fn of(&mut self, sample: &SampleEntry<'_>) -> &[Frame] {
        let frames = self.last.entry(sample.foreign).or_default();
        sample.apply(frames, sample.own.frames());
        frames
    }
}

/// Memory allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationEntry<'a> {
    /// The instant of the call.
    pub at: Timestamp,
    /// Bytes; negative if freed.
    pub bytes: i64,
    /// The address of the memory.
    pub address: u64,
    /// The stack of the allocating call.
    pub stack: Stack<'a>,
}

impl<'a> AllocationEntry<'a> {
    pub(super) fn decode(at: Timestamp, body: &'a [u8]) -> Result<Self, DamagedEntry> {
        let mut words = Words { bytes: body };
        let bytes = words.next("bytes")?.cast_signed();
        let address = words.next("address")?;
        let (stack, _) = Stack::split(words.bytes)?;
        Ok(Self {
            at,
            bytes,
            address,
            stack,
        })
    }
}

/// Writes an allocation's body to the start of `room`; returns the number of bytes, or `None` if
/// there is no room.
pub(crate) fn write_allocation(
    room: &mut [u8],
    bytes: i64,
    address: u64,
    stack: impl ExactSizeIterator<Item = Frame>,
    cut: bool,
) -> Option<usize> {
    let (words, rest) = room.split_first_chunk_mut::<16>()?;
    words[..8].copy_from_slice(&bytes.to_ne_bytes());
    words[8..].copy_from_slice(&address.to_ne_bytes());
    write(rest, stack, cut).map(|len| len + 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{DefinitionId, GroupIndex};
    use profiler_trace::TraceContext;

    fn frame(number: u64) -> Frame {
        Frame::Code(DefinitionId::new(3), number)
    }

    fn body(shared: usize, own: &[u64], head: SampleHead) -> Vec<u8> {
        let mut room = vec![0; 1024];
        let len = write_sample(
            &mut room,
            head,
            shared,
            own.iter().map(|number| frame(*number)),
        )
        .unwrap();
        room.truncate(len);
        room
    }

    fn stack(stacks: &mut Stacks, thread: u64, body: &[u8]) -> Vec<Frame> {
        let sample =
            SampleEntry::decode(Timestamp::ZERO, Some(ThreadId::new(thread)), body).unwrap();
        stacks.of(&sample).to_vec()
    }

    #[test]
    fn a_sample_shares_frames_with_the_previous_sample_of_its_thread() {
        let mut stacks = Stacks::default();
        let head = SampleHead::default();
        assert_eq!(
            stack(&mut stacks, 1, &body(0, &[1, 2, 3], head)),
            [frame(1), frame(2), frame(3)]
        );
        assert_eq!(stack(&mut stacks, 2, &body(0, &[9], head)), [frame(9)]);
        assert_eq!(
            stack(&mut stacks, 1, &body(2, &[4], head)),
            [frame(1), frame(2), frame(4)]
        );
        assert_eq!(
            stack(&mut stacks, 1, &body(3, &[], head)),
            [frame(1), frame(2), frame(4)],
            "same as before"
        );
    }

    #[test]
    fn nothing_is_shared_across_chunks() {
        let mut stacks = Stacks::default();
        let head = SampleHead::default();
        stack(&mut stacks, 1, &body(0, &[1, 2], head));
        stacks.begin_chunk();
        assert_eq!(
            stack(&mut stacks, 1, &body(2, &[7], head)),
            [frame(7)],
            "a forged count shares no more frames than exist"
        );
    }

    #[test]
    fn the_fields_of_a_sample_survive() {
        let head = SampleHead {
            cpu_ns: Some(12),
            cut: true,
            failed: true,
            waits: true,
            waited: true,
            more_ticks: u32::MAX,
            since_previous: true,
            context: SampleContext {
                trace: TraceContext::from_words([1, 2, 3], 0xff),
                group: Some(GroupIndex::new(0)),
            },
        };
        let bytes = body(0, &[], head);
        let sample = SampleEntry::decode(Timestamp::from_raw(5), None, &bytes).unwrap();
        assert!(sample.since_previous);
        assert_eq!(sample.context, head.context);
        assert_eq!(
            (sample.cpu_ns, sample.cut, sample.failed),
            (Some(12), true, true)
        );
        assert_eq!((sample.waits, sample.waited), (true, true));
        assert_eq!(sample.ticks, 1 + u64::from(u32::MAX));
        let unmeasured = body(0, &[], SampleHead::default());
        assert_eq!(
            SampleEntry::decode(Timestamp::ZERO, None, &unmeasured)
                .unwrap()
                .cpu_ns,
            None
        );
    }

    #[test]
    fn a_sample_is_idle_if_no_processor_time_was_used() {
        let is_idle = |cpu_ns, waited| {
            let head = SampleHead {
                cpu_ns,
                waited,
                ..SampleHead::default()
            };
            let bytes = body(0, &[1], head);
            SampleEntry::decode(Timestamp::ZERO, None, &bytes)
                .unwrap()
                .is_idle()
        };
        assert_eq!(
            [(Some(0), false), (Some(0), true), (None, true)]
                .map(|(cpu, waited)| is_idle(cpu, waited)),
            [true; 3]
        );
        assert!(!is_idle(Some(1), false) && !is_idle(None, false));
        assert!(!is_idle(Some(1), true), "measured processor time counts");
    }

    #[test]
    fn an_allocation_survives() {
        let mut room = [0; 64];
        let len = write_allocation(&mut room, -64, 0xdead, [frame(1)].into_iter(), false).unwrap();
        let entry = AllocationEntry::decode(Timestamp::from_raw(3), &room[..len]).unwrap();
        assert_eq!(
            (entry.at, entry.bytes, entry.address),
            (Timestamp::from_raw(3), -64, 0xdead)
        );
        assert_eq!(entry.stack.frames().collect::<Vec<_>>(), [frame(1)]);
    }
}
