//! The handshake by which a thread's chunk can be taken away without a fence on its fast way.
//!
//! Held by every `record::recorder`. The *owner* is the thread that records, the *seizer* the one
//! that stops the session. Model-checked with loom below, with the barrier as a fence on both sides.
//!
//! ```text
//! owner:   busy = 1 · compiler fence · armed == gate? · write entry · commit · busy = 0 (release)
//! seizer:  gate = 0 · armed = NEVER · barrier on all threads · busy == 0 (acquire)? · take the chunk by CAS
//! ```
//!
//! The barrier makes the owner's plain stores and loads as good as sequentially consistent for
//! the seizer: if it sees `busy == 0`, the owner's next turn sees that it is not armed. So a stop can
//! take a chunk away from a thread that sleeps for ever.
//!
//! Invariants: [`NEVER`] equals no word of the gate, also not the closed one, so a disarmed owner
//! always goes the slow way; whoever takes the number out of [`OpenChunk`] (owner by swap, seizer
//! by CAS) hands the chunk over, and nobody else does.

use crate::ids::ChunkIndex;
use crate::sync::{AtomicU32, AtomicU64, Ordering, light_fence};

/// Armed for no session.
const NEVER: u64 = u64::MAX;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The gate's word that the owner is set up for.
    armed: AtomicU64,
    busy: AtomicU32,
}

impl Handshake {
    pub(crate) fn new() -> Self {
        Self { armed: AtomicU64::new(NEVER), busy: AtomicU32::new(0) }
    }

    /// Begins the owner's turn; false if it is within one already.
    #[inline(always)]
    pub(crate) fn begin(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.busy.store(1, Ordering::Relaxed);
        light_fence();
        true
    }

    /// Ends the owner's turn. What it wrote is visible to a seizer that sees it ended.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// Whether the owner is within a turn. Asked by the owner's own thread.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) != 0
    }

    /// Whether the owner is set up for exactly this word of the gate.
    #[inline(always)]
    pub(crate) fn is_armed_for(&self, gate: u64) -> bool {
        self.armed.load(Ordering::Relaxed) == gate
    }

    /// Sets the owner up for a word of the gate. Called by the owner within its turn.
    pub(crate) fn arm(&self, gate: u64) {
        self.armed.store(gate, Ordering::Relaxed);
    }

    /// Makes the owner's next turn go the slow way. Called by a seizer.
    pub(crate) fn disarm(&self) {
        self.armed.store(NEVER, Ordering::SeqCst);
    }

    /// Whether the owner is between turns. Called by a seizer after `disarm` and the barrier.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }
}

/// The number of the owner's open chunk, or none: tag of its pool (high 32), number + 1 (low 32).
///
/// The tag keeps a seizer's hands off the chunk of an owner that was held up in the middle of an
/// entry while its session stopped and another one, with another pool, ran.
#[derive(Debug)]
pub(crate) struct OpenChunk(AtomicU64);

impl OpenChunk {
    pub(crate) fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Names the chunk that the owner has opened.
    pub(crate) fn put(&self, tag: u64, index: ChunkIndex) {
        self.0.store((tag << 32) | u64::from(index.get().wrapping_add(1)), Ordering::Release);
    }

    /// The owner takes its chunk out, unless a seizer was faster.
    pub(crate) fn take(&self) -> Option<ChunkIndex> {
        unpack(self.0.swap(0, Ordering::AcqRel))
    }

    /// A seizer takes the chunk out if it belongs to the pool with this tag, unless the owner is
    /// faster.
    pub(crate) fn seize(&self, tag: u64) -> Option<ChunkIndex> {
        let word = self.0.load(Ordering::Acquire);
        if word >> 32 != tag & 0xffff_ffff {
            return None;
        }
        let index = unpack(word)?;
        self.0.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire).ok().map(|_| index)
    }
}

fn unpack(word: u64) -> Option<ChunkIndex> {
    let number = u32::try_from(word & 0xffff_ffff).ok()?;
    number.checked_sub(1).map(ChunkIndex::new)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_disarmed_owner_is_not_armed_for_a_closed_gate() {
        let handshake = Handshake::new();
        assert!(!handshake.is_armed_for(0), "new");
        handshake.arm(5);
        assert!(handshake.is_armed_for(5));
        handshake.disarm();
        assert!(!handshake.is_armed_for(0) && !handshake.is_armed_for(5), "disarmed");
    }

    #[test]
    fn a_chunk_of_another_pool_is_not_seized() {
        let open = OpenChunk::none();
        open.put(3, ChunkIndex::new(7));
        assert_eq!(open.seize(4), None);
        assert_eq!(open.seize(3), Some(ChunkIndex::new(7)));
        assert!(open.is_none());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const OPEN: u64 = 5;
    const TAG: u64 = 1;

    /// What owner and seizer share; `chunk` stands for the chunk's memory and finds every
    /// access that is not ordered against all others.
    struct Shared {
        gate: AtomicU64,
        handshake: Handshake,
        open: OpenChunk,
        chunk: UnsafeCell<u64>,
    }

    impl Shared {
        fn armed() -> Arc<Self> {
            let shared = Self {
                gate: AtomicU64::new(OPEN),
                handshake: Handshake::new(),
                open: OpenChunk::none(),
                chunk: UnsafeCell::new(0),
            };
            shared.open.put(TAG, ChunkIndex::new(7));
            shared.handshake.arm(OPEN);
            Arc::new(shared)
        }

        #[allow(unsafe_code)]
        fn touch(&self) {
            // SAFETY: what the model is to show; loom reports any concurrent access.
            self.chunk.with_mut(|value| unsafe { *value += 1 });
        }

        /// As `Recorder::fixed`: the fast way if armed, else the slow way.
        fn record(&self) {
            assert!(self.handshake.begin());
            let gate = self.gate.load(Ordering::Relaxed);
            if self.handshake.is_armed_for(gate) {
                self.touch();
            } else if gate == OPEN {
                self.handshake.arm(gate);
                if !self.open.is_none() {
                    self.touch();
                }
            }
            self.handshake.end();
        }

        /// As `local::seize_all`: the chunk, if the owner is between turns.
        fn seize(&self) -> Option<ChunkIndex> {
            self.gate.store(0, Ordering::SeqCst);
            self.handshake.disarm();
            crate::sync::full_fence();
            if !self.handshake.is_idle() {
                return None;
            }
            let taken = self.open.seize(TAG);
            if taken.is_some() {
                self.touch();
            }
            taken
        }
    }

    #[test]
    fn loom_a_seized_chunk_is_never_written_by_its_former_owner() {
        loom::model(|| {
            let shared = Shared::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (0..2).for_each(|_| shared.record()))
            };
            let seized = shared.seize();
            owner.join().unwrap();
            assert_eq!(seized.is_none(), !shared.open.is_none());
        });
    }

    #[test]
    fn loom_an_ending_thread_and_a_seizer_hand_the_chunk_over_once() {
        loom::model(|| {
            let shared = Shared::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.record();
                    assert!(shared.handshake.begin());
                    let taken = shared.open.take();
                    if taken.is_some() {
                        shared.touch();
                    }
                    taken
                })
            };
            let seized = shared.seize();
            let left = owner.join().unwrap();
            assert_eq!(u32::from(seized.is_some()) + u32::from(left.is_some()), 1);
        });
    }
}
