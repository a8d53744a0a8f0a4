//! A chunk's slot in the directory: the protocol by which one thread writes entries and any process
//! reads them, while the writer may die at any instruction.
//!
//! Written by the chunk's owner (hot line) and by the thread that hands the chunk over (cold line);
//! read by `reader::snapshot` through the file. Model-checked with loom below.
//!
//! ```text
//! word  0  generation    even: holds nothing; odd: holds entries of one thread     cold line
//!       1  offset        where the chunk's memory begins in the pool
//!       2  size (low 32), thread row (high 32)
//!       3  start time    when the thread took it
//!       4  done time     when the thread left it, 0 before
//!       5  first entry   number of the chunk's first entry among all of its thread
//!       6  flags         bit 0: holds entries that belong to other threads
//!       7  link          next slot + 1 on the stack of done chunks
//!       8  commit        committed bytes (low 32), committed entries (high 32)  hot line
//!       9  begun         entries begun, counted like `commit`'s high half
//!      10…15             spare
//! ```
//!
//! Life: free → ready (even generation; memory made ready) → **open** `generation += 1`
//! → entries → **done** (done time set, pushed on the done stack) → released → **close**
//! `generation += 1` → free, or ready again (recycled).
//!
//! | store | order | pairs with |
//! |---|---|---|
//! | fields 1–6, commit, begun before *open* | relaxed | the release of *open* |
//! | generation in *open* | release | the reader's acquire of an odd generation |
//! | begun | relaxed, before the entry's bytes | killed process: x86 program order; else `commit` |
//! | entry bytes | plain | the release of `commit` |
//! | commit | release | the reader's acquire |
//! | generation in *close* | release, then a full fence before reuse | the reader's second read |
//!
//! A reader copies, then reads the generation again: the same odd number means that everything it
//! copied belongs to one life of the chunk. The order of `begun` only matters if the process is
//! killed between two stores: program order suffices on x86; elsewhere `commit` bounds it.

#![allow(unsafe_code)]

use super::SharedWords;
use crate::ids::{ChunkIndex, ThreadIndex};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// The words of one slot.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct ChunkSlot {
    generation: AtomicU64,
    offset: AtomicU64,
    size_thread: AtomicU64,
    start: AtomicU64,
    done: AtomicU64,
    first_entry: AtomicU64,
    flags: AtomicU64,
    link: AtomicU64,
    commit: AtomicU64,
    begun: AtomicU64,
    spare: [AtomicU64; 6],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for ChunkSlot {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ChunkSlot>() as u64 == super::layout::SLOT_BYTES);

/// Committed bytes and entries of a chunk in one word, so that one store publishes both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit(u64);

impl Commit {
    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    pub(crate) const fn entries(self) -> u64 {
        self.0 >> 32
    }

    /// One more entry of `bytes`. Chunks are far below 4 GiB, so neither half overflows.
    #[inline(always)]
    pub(crate) const fn plus(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes).wrapping_add(1 << 32))
    }
}

/// The fields of a slot that describe the thread that opens it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) thread: ThreadIndex,
    pub(crate) start: Timestamp,
    pub(crate) first_entry: u64,
}

/// Flag bit: the chunk holds entries that belong to other threads.
pub(crate) const HAS_FOREIGN: u64 = 1;

impl ChunkSlot {
    /// Describes the chunk's memory. The slot is free, and the caller owns it.
    pub(crate) fn describe(&self, offset: u64, bytes: u32) {
        self.offset.store(offset, Ordering::Relaxed);
        self.size_thread.store(u64::from(bytes), Ordering::Relaxed);
    }

    /// Opens the chunk for entries of one thread. The caller took it from the ready slots.
    pub(crate) fn open(&self, opening: Opening) {
        let size = self.size_thread.load(Ordering::Relaxed) & 0xffff_ffff;
        let thread = u64::from(opening.thread.get()) << 32;
        self.size_thread.store(size | thread, Ordering::Relaxed);
        self.start.store(opening.start.raw(), Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.first_entry
            .store(opening.first_entry, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
        self.commit.store(0, Ordering::Relaxed);
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation
            .store(generation.wrapping_add(1), Ordering::Release);
    }

    /// The number of the chunk's present life. For its owner.
    pub(crate) fn life(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Notes that the owner has left the chunk.
    pub(crate) fn finish(&self, done: Timestamp) {
        self.done.store(done.raw(), Ordering::Release);
    }

    /// Empties the chunk. Afterwards the memory may be reused or returned to the system.
    pub(crate) fn close(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        self.generation
            .store(generation.wrapping_add(1), Ordering::Release);
        // The memory's next bytes must not become visible before the new generation.
        crate::sync::full_fence();
    }

    /// Notes that one more entry is being written.
    #[inline(always)]
    pub(crate) fn begin(&self, committed: Commit) {
        self.begun
            .store(committed.entries().wrapping_add(1), Ordering::Relaxed);
    }

    /// Withdraws the note after the entry was abandoned.
    pub(crate) fn abandon(&self, committed: Commit) {
        self.begun.store(committed.entries(), Ordering::Relaxed);
    }

    /// Publishes everything up to `commit`.
    #[inline(always)]
    pub(crate) fn publish(&self, commit: Commit) {
        self.commit.store(commit.0, Ordering::Release);
    }

    /// Sets a flag bit. Called only by the owner.
    pub(crate) fn set_flag(&self, flag: u64) {
        let flags = self.flags.load(Ordering::Relaxed);
        self.flags.store(flags | flag, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) -> Commit {
        Commit(self.commit.load(Ordering::Acquire))
    }

    pub(crate) fn first_entry(&self) -> u64 {
        self.first_entry.load(Ordering::Relaxed)
    }

    pub(crate) fn start_time(&self) -> Timestamp {
        Timestamp::from_raw(self.start.load(Ordering::Relaxed))
    }

    pub(crate) fn done_time(&self) -> Timestamp {
        Timestamp::from_raw(self.done.load(Ordering::Acquire))
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.size_thread.load(Ordering::Relaxed) & 0xffff_ffff
    }

    pub(crate) fn thread(&self) -> ThreadIndex {
        let row = self.size_thread.load(Ordering::Relaxed) >> 32;
        ThreadIndex::new(u32::try_from(row).unwrap_or(0))
    }

    pub(crate) fn set_link(&self, next: Option<ChunkIndex>) {
        let word = next.map_or(0, |index| u64::from(index.get()).wrapping_add(1));
        self.link.store(word, Ordering::Relaxed);
    }

    pub(crate) fn link(&self) -> Option<ChunkIndex> {
        let word = self.link.load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(word).ok().map(ChunkIndex::new)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_word_carries_bytes_and_entries() {
        let commit = Commit::default().plus(16).plus(24);
        assert_eq!((commit.bytes(), commit.entries()), (40, 2));
    }
}

/// A chunk in a loom model: its slot, its memory, and the operations of owner and reader.
#[cfg(all(test, loom))]
pub(crate) mod model {
    use super::*;

    pub(crate) struct Chunk {
        pub(crate) slot: ChunkSlot,
        data: [AtomicU64; 2],
    }

    impl Chunk {
        pub(crate) fn new() -> Self {
            let word = || AtomicU64::new(0);
            let slot = ChunkSlot {
                generation: word(),
                offset: word(),
                size_thread: word(),
                start: word(),
                done: word(),
                first_entry: word(),
                flags: word(),
                link: word(),
                commit: word(),
                begun: word(),
                spare: [word(), word(), word(), word(), word(), word()],
            };
            Self {
                slot,
                data: [word(), word()],
            }
        }

        pub(crate) fn open(&self, first_entry: u64) {
            let thread = ThreadIndex::new(1);
            let start = Timestamp::ZERO;
            self.slot.open(Opening {
                thread,
                start,
                first_entry,
            });
        }

        /// Commits `count` entries that are `base`, `base + 1`, ….
        pub(crate) fn write(&self, base: u64, count: usize) {
            let mut commit = Commit::default();
            for (index, word) in self.data.iter().take(count).enumerate() {
                self.slot.begin(commit);
                word.store(base + index as u64, Ordering::Relaxed);
                commit = commit.plus(8);
                self.slot.publish(commit);
            }
        }

        /// The reader's steps over the file: generation, fields, data, generation.
        pub(crate) fn copy(&self) -> Option<(u64, Vec<u64>)> {
            let before = self.slot.generation.load(Ordering::Acquire);
            let first = self.slot.first_entry.load(Ordering::Relaxed);
            let commit = self.slot.committed();
            let count = usize::try_from(commit.entries()).unwrap();
            let data = self
                .data
                .iter()
                .take(count)
                .map(|w| w.load(Ordering::Relaxed))
                .collect();
            crate::sync::full_fence();
            let after = self.slot.generation.load(Ordering::Relaxed);
            (before == after && before & 1 == 1).then_some((first, data))
        }

        /// Copies, and fails unless every entry is committed and belongs to the life that the first
        /// number indicates.
        pub(crate) fn check_copy(&self) {
            let Some((first, data)) = self.copy() else {
                return;
            };
            for (index, value) in data.iter().enumerate() {
                assert_eq!(
                    *value,
                    first + index as u64,
                    "an entry of another life or not committed"
                );
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::model::Chunk;
    use super::*;

    /// Runs a writer and, twice, a reader; checks that the chunk finally holds `last`.
    fn against_a_reader(writer: fn(&Chunk), last: (u64, Vec<u64>)) {
        loom::model(move || {
            let chunk = Arc::new(Chunk::new());
            chunk.open(10);
            let writing = Arc::clone(&chunk);
            let reading = Arc::clone(&chunk);
            let reader = thread::spawn(move || reading.check_copy());
            let writer = thread::spawn(move || writer(&writing));
            writer.join().unwrap();
            reader.join().unwrap();
            assert_eq!(chunk.copy(), Some(last.clone()));
        });
    }

    #[test]
    fn loom_a_reader_never_sees_an_uncommitted_entry() {
        against_a_reader(|chunk| chunk.write(10, 2), (10, vec![10, 11]));
    }

    #[test]
    fn loom_a_reader_never_sees_an_entry_of_another_life() {
        let writer = |chunk: &Chunk| {
            chunk.write(10, 1);
            chunk.slot.finish(Timestamp::MAX);
            chunk.slot.close();
            chunk.open(90);
            chunk.write(90, 1);
        };
        against_a_reader(writer, (90, vec![90]));
    }
}
