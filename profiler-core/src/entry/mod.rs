//! Encoding and decoding of one entry.
//!
//! Written by `record`, read by `reader`. All fields are in whole 8-byte words, native-endian.
//!
//! ```text
//! word 0   bits  0…23  length of the entry in words, this one included
//!          bits 24…25  phase: 0 instant, 1 interval, 2 interval start, 3 interval end
//!          bit  26     a lengths word, then name and payload bytes, follow
//!          bit  27     a thread number follows: the entry belongs to another thread
//!          bits 28…31  kind: 1 marker, 2 with stack, 3 sample, 4 allocation, 5 counters,
//!                      6 overhead, 7 trace
//!          bits 32…63  definition of the call site; 0 if there is none
//! word 1   time; start of an interval
//!   then   end time          if the phase is "interval"
//!   then   thread number     if bit 27
//!   then   lengths           if bit 26: bytes of name (low 32), bytes of payload (high 32)
//!   then   name bytes, payload bytes, padding to a whole word
//! ```
//!
//! A marker with a stack has the stack before its payload, see [`stack`]. [`sample`] and
//! [`periodic`] describe the payloads of the other kinds; those are instants without a name. An
//! entry "trace" has a form of its own, see [`trace`].
//!
//! Invariant: [`decode`] accepts any bytes and never reads past the length that it checked.

pub(crate) mod periodic;
pub(crate) mod sample;
pub(crate) mod stack;
pub(crate) mod trace;

use self::periodic::{CountersEntry, OverheadEntry};
use self::sample::{AllocationEntry, SampleEntry};
use self::stack::Stack;
use self::trace::TraceEntry;
use crate::ids::{DefinitionId, ThreadId};
use crate::time::Timestamp;
use profiler_trace::TraceContext;

/// Largest entry, in bytes: one chunk of the largest size with 4 KiB pages.
pub(crate) const MAX_ENTRY_BYTES: usize = 1 << 20;

const PHASE_SHIFT: u32 = 24;
const TAIL: u64 = 1 << 26;
const FOREIGN: u64 = 1 << 27;
const KIND_SHIFT: u32 = 28;
const LENGTH_MASK: u64 = 0xff_ffff;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Marker = 1,
    MarkerWithStack = 2,
    Sample = 3,
    Allocation = 4,
    Counters = 5,
    Overhead = 6,
    Trace = 7,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Marker,
        Self::MarkerWithStack,
        Self::Sample,
        Self::Allocation,
        Self::Counters,
        Self::Overhead,
        Self::Trace,
    ];

    fn of(head: u64) -> Option<Self> {
        let number = (head >> KIND_SHIFT) & 0xf;
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// When a marker happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At one instant.
    Instant(Timestamp),
    /// From one instant to another.
    Interval(Timestamp, Timestamp),
    /// Started here; its end is another marker of the same name.
    Start(Timestamp),
    /// Ended here; its start is another marker of the same name.
    End(Timestamp),
}

impl Timing {
    const fn phase(self) -> u64 {
        match self {
            Self::Instant(_) => 0,
            Self::Interval(..) => 1,
            Self::Start(_) => 2,
            Self::End(_) => 3,
        }
    }

    /// The later of the two times.
    pub const fn last(self) -> Timestamp {
        match self {
            Self::Instant(at) | Self::Start(at) | Self::End(at) | Self::Interval(_, at) => at,
        }
    }
}

/// First word of a marker entry of `words` words.
#[inline(always)]
pub(crate) const fn head(
    words: usize,
    timing: Timing,
    tail: bool,
    foreign: bool,
    site: DefinitionId,
) -> u64 {
    let flags = if tail { TAIL } else { 0 } | if foreign { FOREIGN } else { 0 };
    (words as u64 & LENGTH_MASK)
        | (timing.phase() << PHASE_SHIFT)
        | flags
        | ((Kind::Marker as u64) << KIND_SHIFT)
        | ((site.get() as u64) << 32)
}

/// First word of an entry that is not a plain marker; always with a tail.
pub(crate) const fn head_of(kind: Kind, timing: Timing, foreign: bool, site: DefinitionId) -> u64 {
    with_kind(head(0, timing, true, foreign, site), kind)
}

/// Replaces the kind in a first word.
pub(crate) const fn with_kind(head: u64, kind: Kind) -> u64 {
    head & !(0xf << KIND_SHIFT) | ((kind as u64) << KIND_SHIFT)
}

/// Replaces the length in a first word.
#[inline(always)]
pub(crate) const fn with_length(head: u64, words: usize) -> u64 {
    head & !LENGTH_MASK | (words as u64 & LENGTH_MASK)
}

/// Adds a site to a first word that was made without one.
#[inline(always)]
pub(crate) const fn with_site(head: u64, site: DefinitionId) -> u64 {
    head | ((site.get() as u64) << 32)
}

/// The number of words between the first word and the lengths word, or the end of an entry without
/// a lengths word.
#[inline(always)]
pub(crate) const fn fixed_words(head: u64) -> usize {
    let is_interval = (head >> PHASE_SHIFT) & 3 == 1;
    1 + is_interval as usize + (head & FOREIGN != 0) as usize
}

/// Whether the entry belongs to another thread.
#[inline(always)]
pub(crate) const fn is_foreign(head: u64) -> bool {
    head & FOREIGN != 0
}

/// The bits of a first word that hold the length.
#[inline(always)]
pub(crate) const fn length_bits(word: u64) -> u64 {
    word & LENGTH_MASK
}

/// A decoded marker entry, borrowing from the chunk's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkerEntry<'a> {
    /// The definition of its call site.
    pub site: DefinitionId,
    /// When it happened.
    pub timing: Timing,
    /// The thread that it belongs to, if not the recording thread.
    pub foreign: Option<ThreadId>,
    /// The entry's own name, if the call site has none.
    pub name: Option<&'a str>,
    /// Encoded payload; empty if it has none.
    pub payload: &'a [u8],
    /// The stack at which it was recorded; empty if none was requested.
    pub stack: Stack<'a>,
    /// The trace that its recorder worked for, if the entries before it in its chunk are known.
    pub trace: Option<TraceContext>,
}

impl<'a> MarkerEntry<'a> {
    /// Decodes the marker at the start of `bytes`. `None` if there is none.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        match decode(bytes) {
            Ok((Entry::Marker(marker), _)) => Some(marker),
            _ => None,
        }
    }
}

/// One decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A marker.
    Marker(MarkerEntry<'a>),
    /// The stack of a thread at one instant.
    Sample(SampleEntry<'a>),
    /// Memory allocated or freed.
    Allocation(AllocationEntry<'a>),
    /// The values of counters at one instant.
    Counters(CountersEntry<'a>),
    /// The costs of one tick of the sampler.
    Overhead(OverheadEntry),
    /// The trace of the markers that follow.
    Trace(TraceEntry),
    /// An entry of a kind that this build does not know.
    Unknown(u8),
}

impl Entry<'_> {
    /// The latest instant in the entry.
    pub const fn last(&self) -> Option<Timestamp> {
        match self {
            Self::Marker(marker) => Some(marker.timing.last()),
            Self::Sample(sample) => Some(sample.at),
            Self::Allocation(allocation) => Some(allocation.at),
            Self::Counters(counters) => Some(counters.at),
            Self::Overhead(overhead) => Some(overhead.at),
            Self::Trace(trace) => Some(trace.at),
            Self::Unknown(_) => None,
        }
    }
}

/// Why bytes are not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged entry: {0}")]
pub struct DamagedEntry(pub &'static str);

/// Decodes the entry at the start of `bytes`; returns it with its length in bytes.
///
/// # Errors
/// [`DamagedEntry`] for bytes that no writer of this version writes.
pub fn decode(bytes: &[u8]) -> Result<(Entry<'_>, usize), DamagedEntry> {
    let mut words = Words { bytes };
    let head = words.next("no room for an entry")?;
    let len = usize::try_from(head & LENGTH_MASK)
        .unwrap_or(0)
        .saturating_mul(8);
    if len < 16 || len > bytes.len() {
        return Err(DamagedEntry("length"));
    }
    let body = bytes.get(8..len).ok_or(DamagedEntry("length"))?;
    let entry = match Kind::of(head) {
        Some(kind) => decode_body(kind, head, Words { bytes: body })?,
        None => Entry::Unknown(u8::try_from((head >> KIND_SHIFT) & 0xf).unwrap_or(0)),
    };
    Ok((entry, len))
}

fn decode_body(kind: Kind, head: u64, words: Words<'_>) -> Result<Entry<'_>, DamagedEntry> {
    if kind == Kind::Trace {
        return Ok(Entry::Trace(TraceEntry::decode(words)?));
    }
    let marker = decode_marker(head, words)?;
    let at = marker.timing.last();
    let body = marker.payload;
    Ok(match kind {
        Kind::Marker => Entry::Marker(marker),
        Kind::MarkerWithStack => {
            let (stack, payload) = Stack::split(body)?;
            Entry::Marker(MarkerEntry {
                stack,
                payload,
                ..marker
            })
        }
        Kind::Sample => Entry::Sample(SampleEntry::decode(at, marker.foreign, body)?),
        Kind::Allocation => Entry::Allocation(AllocationEntry::decode(at, body)?),
        Kind::Counters => Entry::Counters(CountersEntry::decode(at, body)?),
        Kind::Overhead => Entry::Overhead(OverheadEntry::decode(at, body)?),
        Kind::Trace => Entry::Unknown(Kind::Trace as u8), // decoded above
    })
}

fn decode_marker(head: u64, mut words: Words<'_>) -> Result<MarkerEntry<'_>, DamagedEntry> {
    let at = Timestamp::from_raw(words.next("time")?);
    let timing = match (head >> PHASE_SHIFT) & 3 {
        0 => Timing::Instant(at),
        1 => Timing::Interval(at, Timestamp::from_raw(words.next("end time")?)),
        2 => Timing::Start(at),
        _ => Timing::End(at),
    };
    let foreign = if head & FOREIGN == 0 {
        None
    } else {
        Some(ThreadId::new(words.next("thread")?))
    };
    let site = DefinitionId::new(u32::try_from(head >> 32).unwrap_or(0));
    let (name, payload) = if head & TAIL == 0 {
        (None, &[][..])
    } else {
        decode_tail(words)?
    };
    Ok(MarkerEntry {
        site,
        timing,
        foreign,
        name,
        payload,
        stack: Stack::EMPTY,
        trace: None,
    })
}

fn decode_tail(mut words: Words<'_>) -> Result<(Option<&str>, &[u8]), DamagedEntry> {
    let lengths = words.next("lengths")?;
    let name_len = usize::try_from(lengths & 0xffff_ffff).unwrap_or(usize::MAX);
    let payload_len = usize::try_from(lengths >> 32).unwrap_or(usize::MAX);
    let name = words
        .bytes
        .get(..name_len)
        .ok_or(DamagedEntry("name length"))?;
    let end = name_len
        .checked_add(payload_len)
        .ok_or(DamagedEntry("payload length"))?;
    let payload = words
        .bytes
        .get(name_len..end)
        .ok_or(DamagedEntry("payload length"))?;
    let name = std::str::from_utf8(name).map_err(|_| DamagedEntry("name"))?;
    Ok(((!name.is_empty()).then_some(name), payload))
}

/// The bytes that are not decoded yet.
#[derive(Clone, Copy, Debug)]
struct Words<'a> {
    bytes: &'a [u8],
}

impl Words<'_> {
    fn next(&mut self, what: &'static str) -> Result<u64, DamagedEntry> {
        let (word, rest) = self
            .bytes
            .split_first_chunk::<8>()
            .ok_or(DamagedEntry(what))?;
        self.bytes = rest;
        Ok(u64::from_ne_bytes(*word))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn an_interval_for_another_thread_with_name_and_payload_survives() {
        let timing = Timing::Interval(Timestamp::from_raw(5), Timestamp::from_raw(9));
        let head = head(7, timing, true, true, DefinitionId::new(77));
        let mut raw = bytes(&[head, 5, 9, 1234, 3 | (2 << 32)]);
        raw.extend_from_slice(b"abcxy\0\0\0");
        raw.extend_from_slice(&[0; 8]);
        let (entry, len) = decode(&raw).unwrap();
        assert_eq!(len, 56);
        let expected = MarkerEntry {
            site: DefinitionId::new(77),
            timing,
            foreign: Some(ThreadId::new(1234)),
            name: Some("abc"),
            payload: b"xy",
            stack: Stack::EMPTY,
            trace: None,
        };
        assert_eq!(entry, Entry::Marker(expected));
    }

    #[test]
    fn a_length_beyond_the_bytes_is_damage() {
        let timing = Timing::Instant(Timestamp::ZERO);
        let raw = bytes(&[head(3, timing, false, false, DefinitionId::NONE), 0]);
        assert_eq!(decode(&raw), Err(DamagedEntry("length")));
        assert!(decode(&raw[..7]).is_err());
        assert!(
            decode(&bytes(&[
                head(1, timing, false, false, DefinitionId::NONE),
                0
            ]))
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_entry_or_damage(raw in prop::collection::vec(any::<u8>(), 0..200), head in any::<u64>()) {
            let _ = decode(&raw);
            let mut stacks = sample::Stacks::default();
            let mut with_head = (head & !LENGTH_MASK | (raw.len() as u64 / 8)).to_ne_bytes().to_vec();
            with_head.extend_from_slice(&raw);
            if let Ok((entry, len)) = decode(&with_head) {
                prop_assert!(len <= with_head.len());
                if let Entry::Sample(sample) = entry {
                    let _ = stacks.of(&sample);
                }
            }
        }
    }
}
