//! A thread's row in the pool: its counts, and its owner.
//!
//! Written by its thread and by the threads that destroy its chunks; taken and freed through
//! `manager::threads`; read by `reader::tables` through the file. Model-checked with loom there and
//! in [`super::exited_threads`].
//!
//! ```text
//! word  0   system thread number
//!       1   registered at          2  unregistered at, 0 = lives
//!       3   flags (low 32: bit 0 main thread), name length (high 32)
//!   4…11    dropped, by reason
//!      12   evicted entries       13  evicted bytes
//!      14   sealed entries: all entries of chunks that the thread has left
//!      15   use: number (low 60) and state (high 4)
//!  16…31    name
//! ```
//!
//! Row 0 belongs to the process; its words 2 and 16…31 have another meaning, see
//! [`super::exited_threads`].
//!
//! ```text
//! free (even) ─claim─▶ being set up ─register─▶ owned ─end─▶ ended ─free─▶ free (number + 1)
//!                              │                  │  ▲         │
//!                              │           step back │ take    │
//!                              │                  ▼  │         │
//!                              │                 kept          │
//!                              ▼                  ▼            ▼       another session begins
//!                           left behind ◀── owned    free ◀── kept, ended
//!                              └── its thread releases it ──▶ free
//! ```
//!
//! Only the owner writes the counts of an owned row. A row gets another owner only after its owner
//! has released it, even if several sessions begin meanwhile. So a delayed thread always writes
//! into its own row. *Kept* rows have no owner yet: the row of the main thread and of a thread that
//! the sampler found, until that thread records, and the row of the process.

use super::super::SharedWords;
use super::super::header::cut;
use super::super::layout::MAX_THREAD_NAME_BYTES;
use super::MAIN_THREAD;
use crate::entry_counts::DropReason;
use crate::ids::ThreadId;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// State of a use: its thread has ended; the row is freed after its last chunk is destroyed.
const ENDED: u64 = 1 << 63;
/// State of a use: its session is over, and its thread has not released the row.
const LEFT_BEHIND: u64 = 1 << 62;
/// State of a use: no thread writes into the row, and no other thread may take it.
const KEPT: u64 = 1 << 61;
/// State of a use: its counts are not set up yet.
const SETTING_UP: u64 = 1 << 60;
const STATE: u64 = ENDED | LEFT_BEHIND | KEPT | SETTING_UP;

/// One use of a row, distinct from the uses before and after it: an odd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowUse(u64);

/// The thread that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occupant {
    pub(crate) tid: ThreadId,
    /// Whether the row is kept for the thread, without a writer.
    pub(crate) is_kept: bool,
    pub(crate) own: RowUse,
}

/// The initial contents of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewThread<'a> {
    pub(crate) tid: ThreadId,
    pub(crate) is_main: bool,
    pub(crate) name: &'a str,
    pub(crate) at: Timestamp,
}

/// Whether a row with this use count describes the running session.
pub(crate) const fn is_in_use(used: u64) -> bool {
    used & 1 == 1 && used & (SETTING_UP | LEFT_BEHIND) == 0
}

/// The words of a thread row.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadRow {
    tid: AtomicU64,
    registered: AtomicU64,
    pub(super) unregistered: AtomicU64,
    flags_name: AtomicU64,
    pub(super) dropped: [AtomicU64; 8],
    evicted_entries: AtomicU64,
    evicted_bytes: AtomicU64,
    sealed: AtomicU64,
    used: AtomicU64,
    pub(super) name: [AtomicU64; 16],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for ThreadRow {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ThreadRow>() as u64 == super::super::layout::THREAD_BYTES);
const _: () = assert!(DropReason::COUNT <= 8);

/// Taking and releasing the row.
impl ThreadRow {
    /// Takes the row if it is free. The caller registers a thread in it next.
    pub(crate) fn claim(&self) -> Option<RowUse> {
        let free = self.used.load(Ordering::Relaxed);
        let own = RowUse(free.wrapping_add(1) & !STATE);
        (free & 1 == 0 && self.step(free, own.0 | SETTING_UP)).then_some(own)
    }

    /// Assigns a claimed row to its thread. If the session is over, frees the row and returns
    /// false.
    pub(crate) fn register(&self, own: RowUse, thread: NewThread<'_>) -> bool {
        self.describe(thread);
        self.step_or_free(own.0 | SETTING_UP, own.0)
    }

    /// Makes a claimed row a kept row: it has no writer yet.
    pub(crate) fn keep(&self, own: RowUse, thread: NewThread<'_>) -> bool {
        self.describe(thread);
        self.step_or_free(own.0 | SETTING_UP, own.0 | KEPT)
    }

    /// Assigns a kept row to the calling thread.
    pub(crate) fn take_kept(&self) -> Option<RowUse> {
        let kept = self.used.load(Ordering::Relaxed);
        let own = RowUse(kept & !STATE);
        (kept == own.0 | KEPT && self.step(kept, own.0)).then_some(own)
    }

    /// Assigns a kept row to the calling thread if it is still in the use `own`.
    pub(crate) fn take_kept_by(&self, own: RowUse) -> Option<RowUse> {
        self.step(own.0 | KEPT, own.0).then_some(own)
    }

    /// Makes a row that this thread took by [`Self::take_kept`] a kept row again. If the session is
    /// over, frees the row and returns false.
    pub(crate) fn step_back(&self, own: RowUse) -> bool {
        self.step_or_free(own.0, own.0 | KEPT)
    }

    /// Notes that the row's thread has ended. If the session is over, frees the row and returns
    /// false.
    pub(crate) fn end(&self, own: RowUse, at: Timestamp) -> bool {
        // Stored while the row still belongs to this thread: after the step it may belong to
        // another.
        self.unregistered.store(at.raw(), Ordering::Release);
        self.step_or_free(own.0, own.0 | ENDED)
    }

    /// The thread that has the row; `None` if there is none, or if it has ended. The answer may be
    /// outdated at once.
    pub(crate) fn thread(&self) -> Option<Occupant> {
        let used = self.used.load(Ordering::Acquire);
        let is_kept = used & STATE == KEPT;
        let is_alive = used & 1 == 1 && (used & STATE == 0 || is_kept);
        let tid = || ThreadId::new(self.tid.load(Ordering::Relaxed));
        is_alive.then(|| Occupant {
            tid: tid(),
            is_kept,
            own: RowUse(used & !STATE),
        })
    }

    /// The shown name.
    pub(crate) fn shown_name(&self) -> String {
        let len = usize::try_from(self.flags_name.load(Ordering::Acquire) >> 32).unwrap_or(0);
        let words = self
            .name
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let bytes: Vec<u8> = words.take(len).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the row's thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.used.load(Ordering::Acquire) & ENDED != 0
    }

    /// Frees the row of a thread that has ended. The caller holds the manager's lock and has saved
    /// its counts.
    pub(crate) fn free(&self) {
        let used = self.used.load(Ordering::Relaxed) & !STATE;
        self.used
            .store((used | 1).wrapping_add(1) & !STATE, Ordering::Release);
    }

    /// Called when another session begins: frees the row, or leaves it to the thread that has it
    /// and returns true.
    pub(crate) fn leave_behind(&self) -> bool {
        let mut used = self.used.load(Ordering::Relaxed);
        while used & 1 == 1 {
            let stays = used & (ENDED | KEPT) == 0;
            let next = if stays {
                used | LEFT_BEHIND
            } else {
                (used & !STATE).wrapping_add(1) & !STATE
            };
            match self
                .used
                .compare_exchange(used, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return stays,
                Err(seen) => used = seen,
            }
        }
        false
    }

    fn step(&self, from: u64, to: u64) -> bool {
        self.used
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// A state change by the owner. It fails only if the row was left behind; then the row is
    /// freed.
    fn step_or_free(&self, from: u64, to: u64) -> bool {
        let stepped = self.step(from, to);
        if !stepped {
            self.free();
        }
        stepped
    }

    /// Writes the counts of a thread that has recorded nothing yet.
    fn describe(&self, thread: NewThread<'_>) {
        // A reader that sees any of this sees that the previous counts have been moved.
        crate::sync::full_fence();
        let zeroed = [
            &self.unregistered,
            &self.evicted_entries,
            &self.evicted_bytes,
            &self.sealed,
        ];
        zeroed
            .into_iter()
            .chain(&self.dropped)
            .for_each(|word| word.store(0, Ordering::Relaxed));
        self.tid.store(thread.tid.get(), Ordering::Relaxed);
        self.registered.store(thread.at.raw(), Ordering::Relaxed);
        self.flags_name.store(
            if thread.is_main { MAIN_THREAD } else { 0 },
            Ordering::Relaxed,
        );
        self.rename(thread.name);
    }
}

/// The counts. The caller owns the row, or holds the manager's lock and counts the chunks it
/// destroys.
impl ThreadRow {
    /// Changes the shown name. Called only by the thread itself.
    pub(crate) fn rename(&self, name: &str) {
        let bytes = cut(name, MAX_THREAD_NAME_BYTES).as_bytes();
        for (index, word) in self.name.iter().enumerate() {
            let rest = bytes.get(index.saturating_mul(8)..).unwrap_or_default();
            let mut value = [0_u8; 8];
            value
                .iter_mut()
                .zip(rest)
                .for_each(|(to, from)| *to = *from);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
        let flags = self.flags_name.load(Ordering::Relaxed) & 0xffff_ffff;
        self.flags_name
            .store(flags | ((bytes.len() as u64) << 32), Ordering::Release);
    }

    /// Counts an entry that was not written.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        if let Some(word) = self.dropped.get(reason as usize) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a destroyed chunk.
    pub(crate) fn count_evicted(&self, entries: u64, bytes: u64) {
        self.evicted_entries.fetch_add(entries, Ordering::Relaxed);
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that the thread has left a chunk; it has committed `entries` entries in total up to
    /// there.
    pub(crate) fn seal(&self, entries: u64) {
        self.sealed.store(entries, Ordering::Release);
    }

    /// Like `seal`, called by another thread; the row's own thread may have advanced since. The
    /// caller holds the manager's lock, so the row keeps its thread.
    pub(crate) fn seal_at_least(&self, entries: u64) {
        self.sealed.fetch_max(entries, Ordering::AcqRel);
    }

    pub(crate) fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Acquire)
    }

    pub(crate) fn evicted(&self) -> (u64, u64) {
        (
            self.evicted_entries.load(Ordering::Relaxed),
            self.evicted_bytes.load(Ordering::Relaxed),
        )
    }
}

/// A row in a loom model, without a pool.
#[cfg(all(test, loom))]
pub(crate) mod model {
    use super::*;

    impl ThreadRow {
        pub(crate) fn zeroed() -> Self {
            let word = || AtomicU64::new(0);
            Self {
                tid: word(),
                registered: word(),
                unregistered: word(),
                flags_name: word(),
                dropped: std::array::from_fn(|_| word()),
                evicted_entries: word(),
                evicted_bytes: word(),
                sealed: word(),
                used: word(),
                name: std::array::from_fn(|_| word()),
            }
        }

        /// The words that a reader finds in the file: use, move, and the drops of the first kind,
        /// in the row and in both sums. Other words behave alike and would make the model too large
        /// for loom.
        pub(crate) fn bytes(&self) -> Vec<u8> {
            let mut words = [0_u64; 32];
            let mut put =
                |index: usize, word: &AtomicU64| words[index] = word.load(Ordering::Relaxed);
            put(15, &self.used);
            put(2, &self.unregistered);
            put(4, &self.dropped[0]);
            put(16, &self.name[0]);
            put(24, &self.name[8]);
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        }

        /// The row's owner, and its counts: drops of the first kind, sealed entries, end.
        pub(crate) fn owner_and_counts(&self) -> (u64, u64, u64, u64) {
            let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
            (
                load(&self.tid),
                load(&self.dropped[0]),
                load(&self.sealed),
                load(&self.unregistered),
            )
        }

        pub(crate) fn is_in_use(&self) -> bool {
            is_in_use(self.used.load(Ordering::Acquire))
        }
    }
}
