//! The application's trace, in entries.
//!
//! ```text
//! trace    words 0, 1  as in each entry
//!          words 2, 3  trace id; 0: the next markers belong to no trace
//!          word 4      span id
//!          word 5      flags
//! context  word 0      bits  0…31 number of the group's cell + 1; 0: no group
//!                      bits 32…39 flags of the trace
//!                      bit  40    a trace follows
//!          words 1…3   trace id and span id, if a trace follows
//! ```
//!
//! An entry "trace" precedes the markers of its thread in the same chunk. It is written before the
//! first marker after a change, and before the first marker of a chunk, so no marker depends on
//! another chunk. A context is a part of a sample.

use profiler_trace::TraceContext;

use super::{DamagedEntry, Kind, Timing, Words, head, with_kind};
use crate::ids::{DefinitionId, GroupIndex};
use crate::time::Timestamp;

/// The words of an entry.
pub(crate) const TRACE_WORDS: usize = 6;
/// The most words of a context.
pub const CONTEXT_WORDS: usize = 4;

const FLAGS_SHIFT: u32 = 32;
const HAS_TRACE: u64 = 1 << 40;

/// States the trace of the next markers of its thread in the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// The instant at which it was recorded.
    pub at: Timestamp,
    /// The trace; `None` ends the one before.
    pub trace: Option<TraceContext>,
}

/// Encodes an entry.
pub(crate) fn encode_trace(at: Timestamp, trace: Option<TraceContext>) -> [u64; TRACE_WORDS] {
    let timing = Timing::Instant(at);
    let head = head(TRACE_WORDS, timing, false, false, DefinitionId::NONE);
    let [high, low, span] = trace.map_or([0; 3], TraceContext::to_words);
    let flags = trace.map_or(0, TraceContext::flags);
    let head = with_kind(head, Kind::Trace);
    [head, at.raw(), high, low, span, u64::from(flags)]
}

impl TraceEntry {
    pub(super) fn decode(mut words: Words<'_>) -> Result<Self, DamagedEntry> {
        let at = Timestamp::from_raw(words.next("time")?);
        let ids = ids(&mut words)?;
        let flags = u8::try_from(words.next("flags")?).unwrap_or(0);
        let trace = TraceContext::from_words(ids, flags);
        Ok(Self { at, trace })
    }
}

/// What a thread worked for when a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleContext {
    /// The application's trace.
    pub trace: Option<TraceContext>,
    /// The innermost performance group.
    pub group: Option<GroupIndex>,
}

impl SampleContext {
    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.trace.is_none() && self.group.is_none()
    }

    /// Its words, and how many of them an entry needs.
    pub fn encode(self) -> ([u64; CONTEXT_WORDS], usize) {
        let group = self.group.map_or(0, |group| u64::from(group.get()) + 1);
        let Some(trace) = self.trace else {
            return ([group, 0, 0, 0], usize::from(self.group.is_some()));
        };
        let [high, low, span] = trace.to_words();
        let first = group | u64::from(trace.flags()) << FLAGS_SHIFT | HAS_TRACE;
        ([first, high, low, span], CONTEXT_WORDS)
    }

    /// The context with these words.
    pub fn of_words([first, ids @ ..]: [u64; CONTEXT_WORDS]) -> Self {
        let group = u32::try_from(first & u64::from(u32::MAX)).ok();
        let group = group.and_then(|group| group.checked_sub(1));
        let flags = u8::try_from((first >> FLAGS_SHIFT) & 0xff).unwrap_or(0);
        let trace = TraceContext::from_words(ids, flags);
        Self {
            trace: trace.filter(|_| first & HAS_TRACE != 0),
            group: group.map(GroupIndex::new),
        }
    }

    pub(super) fn decode(words: &mut Words<'_>) -> Result<Self, DamagedEntry> {
        let first = words.next("context")?;
        let [high, low, span] = match first & HAS_TRACE {
            0 => [0; 3],
            _ => ids(words)?,
        };
        Ok(Self::of_words([first, high, low, span]))
    }
}

fn ids(words: &mut Words<'_>) -> Result<[u64; 3], DamagedEntry> {
    Ok([
        words.next("trace id")?,
        words.next("trace id")?,
        words.next("span id")?,
    ])
}
