//! The numbers of spans, and the thread on which a number was drawn.
//!
//! Used by `span`, and by the packages under `integrations/`, which keep only the number of an open
//! span. A number is unique in its process. Threads draw numbers in blocks, so drawing one needs no
//! contended store.
//!
//! Invariants: blocks are aligned, so a number determines its block. A table has the threads of the
//! latest [`KNOWN_BLOCKS`] blocks; of a number that was drawn earlier, the thread is not known any
//! more, except to the thread itself while it uses the block.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{MarkerOptions, MarkerTiming};
use crate::ids::ThreadId;
use crate::sys;

/// The count of numbers that a thread draws at once.
const BLOCK: u64 = 4096;
/// The number of blocks whose thread is kept: those of the latest 67 million numbers.
const KNOWN_BLOCKS: usize = 1 << 14;
/// The first number that no thread has drawn.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(FIRST);
/// The first number of all. 0 is no number.
const FIRST: u64 = 1;
/// The threads of blocks: the low half of the block's index (high 32), the thread (low 32).
static BLOCK_THREADS: [AtomicU64; KNOWN_BLOCKS] = [const { AtomicU64::new(0) }; KNOWN_BLOCKS];

thread_local! {
    /// The thread's number (0 before it is known), its next span, and the end of its block.
    static THREAD: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

/// Draws a number for a span, and returns it with the calling thread.
#[inline]
pub(super) fn draw() -> (u64, ThreadId) {
    let (mut tid, mut next, mut end) = THREAD.get();
    if next == end {
        (tid, next, end) = draw_block();
    }
    THREAD.set((tid, next.wrapping_add(1), end));
    (next, ThreadId::new(tid))
}

/// Draws a block: the calling thread, the first number, and the number after the last.
#[cold]
fn draw_block() -> (u64, u64, u64) {
    let first = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
    let tid = sys::current_thread_id().get();
    let block = block_of(first);
    if let Some(place) = BLOCK_THREADS.get(place_of(block)) {
        let thread = u32::try_from(tid).unwrap_or(0);
        place.store((block << 32) | u64::from(thread), Ordering::Relaxed);
    }
    (tid, first, first.wrapping_add(BLOCK))
}

const fn block_of(number: u64) -> u64 {
    number.wrapping_sub(FIRST) / BLOCK
}

fn place_of(block: u64) -> usize {
    usize::try_from(block % KNOWN_BLOCKS as u64).unwrap_or(0)
}

/// The calling thread, if it has drawn a number.
pub(super) fn here() -> Option<ThreadId> {
    let (tid, ..) = THREAD.get();
    (tid != 0).then(|| ThreadId::new(tid))
}

/// The calling thread. A thread that has drawn no number draws one, which is cheaper than a system
/// call per call.
#[inline]
pub(crate) fn this_thread() -> ThreadId {
    here().unwrap_or_else(|| draw().1)
}

/// In a forked child that begins anew: the calling thread draws a block of its own, and the threads
/// of the parent are forgotten.
pub(crate) fn forget_parent() {
    forget_block();
    for place in &BLOCK_THREADS {
        place.store(0, Ordering::Relaxed);
    }
}

/// Lets the calling thread draw a new block next.
fn forget_block() {
    THREAD.set((0, 0, 0));
}

/// Draws a number for a span.
#[inline]
pub fn draw_span_number() -> u64 {
    draw().0
}

/// An identifier for a flow that this number of this process stands for; see [`crate::flow_ids`].
pub fn flow_of(number: u64) -> u64 {
    crate::flow_ids::flow_of(number)
}

/// The thread on which a number was drawn, if that is another thread than the calling one.
#[inline]
pub(crate) fn other_thread_of(number: u64) -> Option<ThreadId> {
    let (_, _, end) = THREAD.get();
    if end.wrapping_sub(number).wrapping_sub(1) < BLOCK {
        return None; // of the block that this thread uses
    }
    other_thread_of_block(block_of(number))
}

#[inline(never)]
fn other_thread_of_block(block: u64) -> Option<ThreadId> {
    let word = BLOCK_THREADS.get(place_of(block))?.load(Ordering::Relaxed);
    let thread = word & u64::from(u32::MAX);
    let is_its = word >> 32 == block & u64::from(u32::MAX);
    let thread = (is_its && thread != 0).then(|| ThreadId::new(thread))?;
    (thread != sys::current_thread_id()).then_some(thread)
}

/// The options of a marker of a numbered span: it belongs to the thread on which the span began.
#[inline]
pub fn options_of_span(number: u64, timing: MarkerTiming) -> MarkerOptions {
    MarkerOptions {
        thread: other_thread_of(number),
        ..MarkerOptions::from(timing)
    }
}

#[cfg(test)]
mod tests {
    use test_support::threads::on_thread;

    use super::*;

    #[test]
    fn no_number_is_drawn_twice_on_several_threads() {
        let many = || (0..3 * BLOCK).map(|_| draw().0).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::Builder::new().spawn(many).unwrap())
            .collect();
        let mut all: Vec<u64> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        let drawn = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), drawn);
        assert!(!all.contains(&0));
    }

    #[test]
    fn the_thread_of_a_number_is_known_on_other_threads() {
        let draw_of_two_blocks = || {
            let numbers: Vec<u64> = (0..=BLOCK).map(|_| draw_span_number()).collect();
            let own = [numbers[0], numbers[numbers.len() - 1]];
            assert_eq!(own.map(other_thread_of), [None; 2], "on its own thread");
            (own, sys::current_thread_id())
        };
        let (own, tid) = on_thread(draw_of_two_blocks);
        assert_eq!(own.map(other_thread_of), [Some(tid); 2]);
    }

    #[test]
    fn a_forked_child_draws_numbers_of_its_own() {
        on_thread(|| {
            let before = draw_span_number();
            forget_block();
            let after = draw_span_number();
            assert_ne!(block_of(before), block_of(after));
            assert_eq!(here(), Some(sys::current_thread_id()));
        });
    }

    #[test]
    fn a_number_that_was_never_drawn_has_no_thread() {
        let never = [0, u64::MAX, u64::MAX / 2];
        assert_eq!(never.map(other_thread_of), [None; 3]);
    }
}
