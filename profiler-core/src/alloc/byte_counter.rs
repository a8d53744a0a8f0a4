//! The counter of allocated memory, sharded so that threads rarely write to the same word.
//!
//! Called by the allocator at every call while a session runs. A thread adds to one of 16 words. A
//! word is added to the counter when it exceeds a bound, and at every tick of the sampler.
//! Invariant: the counter is exact after a tick, and within 256 KiB between two ticks.
//!
//! ```text
//! word   bits 0…15 calls · bits 16…63 bytes, signed
//! ```

use std::cell::Cell;

use crate::counter::Counter;
use crate::sync::fixed::{AtomicU64, Ordering};

/// The counter: the viewer's memory track.
static MALLOC: Counter = Counter::new(
    "malloc",
    "Memory",
    "Memory that the program has allocated and not given back",
);

const SHARDS: usize = 16;
/// Bytes that a word may hold before they are added to the counter.
const MAX_BYTES: u64 = 16 * 1024;
/// Calls that a word may hold before they are added to the counter; twice as many fit.
const MAX_CALLS: u64 = 1 << 15;
const CALLS_MASK: u64 = 0xffff;
const BYTES_SHIFT: u32 = 16;

/// Aligned to two cache lines, because the processor fetches them in pairs.
#[repr(align(128))]
struct Shard(AtomicU64);

static GATHERED: [Shard; SHARDS] = [const { Shard(AtomicU64::new(0)) }; SHARDS];
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's shard + 1. Constant initial value and no destructor, so it can be read at any
    /// point of a thread's life.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Counts a call that allocated these bytes, or freed them if negative.
#[inline]
pub(super) fn add(bytes: i64) {
    let Some(Shard(word)) = GATHERED.get(own_shard()) else {
        return;
    };
    let change = (bytes.cast_unsigned() << BYTES_SHIFT).wrapping_add(1);
    let now = word
        .fetch_add(change, Ordering::Relaxed)
        .wrapping_add(change);
    let (bytes, calls) = split(now);
    if bytes.unsigned_abs() >= MAX_BYTES || calls >= MAX_CALLS {
        flush(word);
    }
}

#[inline]
fn own_shard() -> usize {
    let own = OWN.get();
    if own == 0 { first_shard() } else { own - 1 }
}

#[cold]
fn first_shard() -> usize {
    let turn = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS as u64;
    let shard = usize::try_from(turn).unwrap_or(0);
    OWN.set(shard + 1);
    shard
}

/// The bytes and calls of a word.
const fn split(word: u64) -> (i64, u64) {
    (word.cast_signed() >> BYTES_SHIFT, word & CALLS_MASK)
}

#[cold]
fn flush(word: &AtomicU64) {
    let (bytes, calls) = split(word.swap(0, Ordering::Relaxed));
    if calls > 0 {
        MALLOC.add_many(bytes, calls);
    }
}

/// Adds all words to the counter. The sampler calls it at every tick.
pub(crate) fn flush_counters() {
    GATHERED
        .iter()
        .filter(|shard| shard.0.load(Ordering::Relaxed) != 0)
        .for_each(|shard| flush(&shard.0));
}

/// Discards the words of the previous session when a session starts.
pub(super) fn clear() {
    GATHERED
        .iter()
        .for_each(|shard| shard.0.store(0, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_bytes_and_calls_share_a_word() {
        let mut word = 0_u64;
        for bytes in [100, -300, 50] {
            word = word.wrapping_add((i64::cast_unsigned(bytes) << BYTES_SHIFT).wrapping_add(1));
        }
        assert_eq!(split(word), (-150, 3));
    }
}
