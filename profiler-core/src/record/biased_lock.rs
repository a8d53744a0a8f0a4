//! A biased lock: another thread can take a thread's chunk, and the owner's fast path needs no
//! fence.
//!
//! Every `Recorder` contains one. The *owner* is the thread that records. A *seizer* is the thread
//! that stops the session, or the maintenance thread when the owner has been idle
//! (`record::reclaim`). The *gate* is the state of the session (`record::session_state`). The loom
//! tests below check the protocol; they replace the barrier with a fence on both sides.
//!
//! ```text
//! owner:   busy = 1 · compiler fence · armed == gate? · write entry · commit · busy = 0 (release)
//!          not armed: armed = gate · renew the chunk's word (RMW): chunk gone? take a new chunk
//! seizer:  read the word · armed = NEVER · barrier on all threads · busy == 0 (acquire)?
//!          · take the chunk by CAS on the word that was read
//! ```
//!
//! The barrier makes the owner's plain stores and loads sequentially consistent for the seizer: if
//! the seizer sees `busy == 0`, the owner's next turn sees that it is not armed and takes the slow
//! path. There it renews the word of its chunk before it writes. So either the seizer's CAS fails,
//! or the owner finds that its chunk is gone. This holds even if the gate stays open. The owner
//! arms itself *before* it renews the word, so a seizer that has read the renewed word disarms the
//! owner after the owner armed itself.
//!
//! Invariants: [`NEVER`] equals no word of the gate, including the closed one, so a disarmed owner
//! always takes the slow path. Only the thread that takes the number out of [`OpenChunk`] (owner by
//! swap, seizer by CAS) hands the chunk over. There is one seizer at a time.

use crate::ids::ChunkIndex;
use crate::sync::{AtomicU32, AtomicU64, Ordering, light_fence};

/// The value of `armed` that stands for no session.
const NEVER: u64 = u64::MAX;

/// The lock state of one owner.
#[derive(Debug)]
pub(crate) struct BiasedLock {
    /// The gate's word for which the owner is set up.
    armed: AtomicU64,
    busy: AtomicU32,
}

impl BiasedLock {
    pub(crate) fn new() -> Self {
        Self {
            armed: AtomicU64::new(NEVER),
            busy: AtomicU32::new(0),
        }
    }

    /// Begins the owner's turn; false if a turn is in progress.
    #[inline(always)]
    pub(crate) fn begin(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.busy.store(1, Ordering::Relaxed);
        light_fence();
        true
    }

    /// Ends the owner's turn. A seizer that sees the end also sees what the owner wrote.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.busy.store(0, Ordering::Release);
    }

    /// Whether a turn is in progress. Called by the owner's own thread.
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

    /// Makes the owner's next turn take the slow path. Called by a seizer, or by the owner itself,
    /// within its turn or between turns. Only the owner reads the value, in `is_armed_for`.
    pub(crate) fn disarm(&self) {
        self.armed.store(NEVER, Ordering::SeqCst);
    }

    /// Whether the owner is between turns. Called by a seizer after `disarm` and the barrier.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.load(Ordering::Acquire) == 0
    }
}

/// The number of the owner's open chunk, or none. The word consists of the low 16 bits of the tag
/// of the chunk's pool (high 16 bits), a version (16 bits), and the number + 1 (low 32 bits).
///
/// An owner can be suspended within an entry until its session has stopped and another session with
/// another pool runs. The tag then prevents a seizer from taking the chunk for the wrong pool. The
/// version changes the word whenever the owner opens or renews its chunk.
#[derive(Debug)]
pub(crate) struct OpenChunk {
    word: AtomicU64,
    /// Accessed by the owner only.
    version: AtomicU32,
}

/// An owner's open chunk, as a seizer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenChunk {
    word: u64,
    /// Its number.
    pub(crate) index: ChunkIndex,
}

const VERSION: u64 = 0xffff << 32;

impl OpenChunk {
    pub(crate) fn none() -> Self {
        Self {
            word: AtomicU64::new(0),
            version: AtomicU32::new(0),
        }
    }

    /// Stores the number of the chunk that the owner has opened.
    pub(crate) fn put(&self, tag: u64, index: ChunkIndex) {
        let word = (tag << 48) | self.next_version() | u64::from(index.get().wrapping_add(1));
        self.word.store(word, Ordering::Release);
    }

    fn next_version(&self) -> u64 {
        let version = self.version.load(Ordering::Relaxed).wrapping_add(1);
        self.version.store(version, Ordering::Relaxed);
        (u64::from(version) << 32) & VERSION
    }

    /// Renews the word after the owner has armed itself again. False if its chunk was taken.
    pub(crate) fn renew(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if word == 0 {
            return false;
        }
        let renewed = (word & !VERSION) | self.next_version();
        self.word
            .compare_exchange(word, renewed, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Takes the chunk out for the owner, unless a seizer has taken it.
    pub(crate) fn take(&self) -> Option<ChunkIndex> {
        unpack(self.word.swap(0, Ordering::AcqRel))
    }

    /// The owner's open chunk, if it belongs to the pool with this tag.
    pub(crate) fn observe(&self, tag: u64) -> Option<SeenChunk> {
        let word = self.word.load(Ordering::Acquire);
        let index = unpack(word).filter(|_| word >> 48 == tag & 0xffff)?;
        Some(SeenChunk { word, index })
    }

    /// Takes out the chunk that the seizer saw, unless the owner has renewed or taken it.
    pub(crate) fn seize(&self, seen: SeenChunk) -> bool {
        self.word
            .compare_exchange(seen.word, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
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
        let lock = BiasedLock::new();
        assert!(!lock.is_armed_for(0), "new");
        lock.arm(5);
        assert!(lock.is_armed_for(5));
        lock.disarm();
        assert!(!lock.is_armed_for(0) && !lock.is_armed_for(5), "disarmed");
    }

    #[test]
    fn a_chunk_of_another_pool_is_not_seized() {
        let open = OpenChunk::none();
        open.put(3, ChunkIndex::new(7));
        assert_eq!(open.observe(4), None);
        let seen = open.observe(3).unwrap();
        assert_eq!(seen.index, ChunkIndex::new(7));
        assert!(open.seize(seen) && open.observe(3).is_none() && !open.renew());
    }

    #[test]
    fn a_chunk_that_its_owner_renewed_is_not_seized() {
        let open = OpenChunk::none();
        open.put(3, ChunkIndex::new(7));
        let seen = open.observe(3).unwrap();
        assert!(open.renew());
        assert!(!open.seize(seen));
        assert_eq!(open.take(), Some(ChunkIndex::new(7)));
    }

    #[test]
    fn a_chunk_that_its_owner_reopened_is_not_seized() {
        let open = OpenChunk::none();
        open.put(3, ChunkIndex::new(7));
        let seen = open.observe(3).unwrap();
        open.take();
        open.put(3, ChunkIndex::new(7));
        assert!(!open.seize(seen));
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

    /// The state shared by owner and seizer. `chunk` stands for the chunk's memory and detects
    /// every access that is not ordered against all others.
    struct ModelledLock {
        gate: AtomicU64,
        lock: BiasedLock,
        open: OpenChunk,
        chunk: UnsafeCell<u64>,
    }

    impl ModelledLock {
        fn armed() -> Arc<Self> {
            let shared = Self {
                gate: AtomicU64::new(OPEN),
                lock: BiasedLock::new(),
                open: OpenChunk::none(),
                chunk: UnsafeCell::new(0),
            };
            shared.open.put(TAG, ChunkIndex::new(7));
            shared.lock.arm(OPEN);
            Arc::new(shared)
        }

        #[allow(unsafe_code)]
        fn touch(&self) {
            // SAFETY: this is what the model checks; loom reports any concurrent access.
            self.chunk.with_mut(|value| unsafe { *value += 1 });
        }

        /// Like `Recorder::fixed`: the fast path if the owner is armed and room is `left`,
        /// otherwise the slow path. False if there was no chunk to write to.
        fn record(&self, left: &mut bool) -> bool {
            assert!(self.lock.begin());
            let gate = self.gate.load(Ordering::Relaxed);
            let mut writes = self.lock.is_armed_for(gate) && *left;
            if !writes && gate == OPEN {
                self.lock.arm(gate);
                *left = self.open.renew() && *left;
                writes = *left;
            }
            if writes {
                self.touch();
            }
            self.lock.end();
            writes
        }

        /// Records twice; returns both results.
        fn record_twice(&self) -> [bool; 2] {
            let mut left = true;
            [self.record(&mut left), self.record(&mut left)]
        }

        /// Like a stop: takes the chunk if the owner is between turns.
        fn stop(&self) -> bool {
            self.gate.store(0, Ordering::SeqCst);
            self.seize()
        }

        /// Like `record::reclaim`, while the gate stays open.
        fn seize(&self) -> bool {
            let Some(seen) = self.open.observe(TAG) else {
                return false;
            };
            self.lock.disarm();
            crate::sync::full_fence();
            let taken = self.lock.is_idle() && self.open.seize(seen);
            if taken {
                self.touch();
            }
            taken
        }
    }

    #[test]
    fn loom_a_seized_chunk_is_never_written_by_its_former_owner() {
        loom::model(|| {
            let shared = ModelledLock::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.record_twice())
            };
            let seized = shared.stop();
            owner.join().unwrap();
            assert_eq!(seized, shared.open.observe(TAG).is_none());
        });
    }

    #[test]
    fn loom_an_idle_owner_keeps_its_chunk_or_finds_it_gone_while_recording_goes_on() {
        loom::model(|| {
            let shared = ModelledLock::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.record_twice())
            };
            let seized = shared.seize();
            let wrote = owner.join().unwrap();
            assert!(
                seized || wrote == [true, true],
                "a chunk that was not seized is lost"
            );
            assert_eq!(seized, shared.open.observe(TAG).is_none());
        });
    }

    #[test]
    fn loom_two_tries_to_seize_take_a_busy_owners_chunk_at_most_once() {
        loom::model(|| {
            let shared = ModelledLock::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.record_twice())
            };
            let seized = (0..2).filter(|_| shared.seize()).count();
            owner.join().unwrap();
            assert_eq!(seized, usize::from(shared.open.observe(TAG).is_none()));
        });
    }

    #[test]
    fn loom_an_ending_thread_and_a_seizer_hand_the_chunk_over_once() {
        loom::model(|| {
            let shared = ModelledLock::armed();
            let owner = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _ = shared.record(&mut true);
                    assert!(shared.lock.begin());
                    let taken = shared.open.take();
                    if taken.is_some() {
                        shared.touch();
                    }
                    taken
                })
            };
            let seized = shared.stop();
            let left = owner.join().unwrap();
            assert_eq!(u32::from(seized) + u32::from(left.is_some()), 1);
        });
    }
}
