//! The gate: one word that tells whether this process records, and in which session.
//!
//! Loaded once by every record call, stored by `session` only. Layout of the word: bit 0 active,
//! bit 1 paused, bit 2 permanently closed, bits 8… epoch of the session. A thread that is set up
//! for exactly this word needs no other check.
//!
//! The kernel wipes the word's page in every forked child, however it was forked. So a forked child
//! finds recording off before it can access a pool that it has not mapped. Where the kernel cannot
//! wipe, a fork handler stores the zero. Such a child can begin anew (`session::after_fork`); its
//! own forked children find recording off again.

#![allow(unsafe_code)]

use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys;

/// Bit of the word: a session runs.
pub(crate) const ACTIVE: u64 = 1;
/// Bit of the word: the session is paused.
pub(crate) const PAUSED: u64 = 2;
/// Bit of the word, set alone: the process records nothing more.
const CLOSED: u64 = 4;
const EPOCH_SHIFT: u32 = 8;

// One page each on both architectures; aarch64 kernels may have 64 KiB pages.
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
struct Gate {
    word: AtomicU64,
    /// 1 once set up; 0 again in a forked child, until it begins anew.
    alive: AtomicU64,
    /// The groups to count, see `groups::local`; 0 while no session runs.
    groups: AtomicU64,
    /// 1 once fork preparation is done; 0 again in a forked child, permanently.
    unforked: AtomicU64,
}

static GATE: Gate = Gate {
    word: AtomicU64::new(0),
    alive: AtomicU64::new(0),
    groups: AtomicU64::new(0),
    unforked: AtomicU64::new(0),
};
/// The number of threads that are within a fork.
static FORKING: AtomicU64 = AtomicU64::new(0);
/// 1 once fork preparation is done; stays 1 in a forked child.
static PREPARED: AtomicU64 = AtomicU64::new(0);
/// 1 once the process may record; stays 1 in a forked child.
static SET_UP: AtomicU64 = AtomicU64::new(0);
/// 1 once the process, a forked child, has begun anew; stays 1 in its own forked children.
static ANEW: AtomicU64 = AtomicU64::new(0);

/// The current word.
#[inline(always)]
pub(crate) fn word() -> u64 {
    GATE.word.load(Ordering::Relaxed)
}

/// Whether a session runs, paused or not. One relaxed load.
#[inline(always)]
pub fn is_active() -> bool {
    word() & ACTIVE != 0
}

/// Where the word is, for call sites in other languages. Its lowest bit is what [`is_active`]
/// returns; the word stays at its place.
pub fn active_word() -> *const u64 {
    GATE.word.as_ptr().cast_const()
}

/// Opens or closes the gate, unless it is permanently closed.
pub(crate) fn set(word: u64) {
    if word & ACTIVE == 0 {
        GATE.groups.store(0, Ordering::SeqCst);
    }
    let change = |now: u64| (now & CLOSED == 0).then_some(word);
    let _ = GATE
        .word
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
}

/// Closes the gate permanently. Two stores, so a signal handler may call it.
pub(crate) fn close() {
    GATE.word.store(CLOSED, Ordering::SeqCst);
    GATE.groups.store(0, Ordering::SeqCst);
}

/// Whether the gate is permanently closed.
pub(crate) fn is_closed() -> bool {
    word() & CLOSED != 0
}

/// Allows the gate to be opened again, for another pool.
pub(crate) fn revoke_closing() {
    let change = |now: u64| (now & CLOSED != 0).then_some(0);
    let _ = GATE
        .word
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
}

/// The groups to count.
#[inline(always)]
pub(crate) fn groups() -> u64 {
    GATE.groups.load(Ordering::Relaxed)
}

/// Changes the groups to count; does nothing while they are 0, unless it `begins`.
pub(crate) fn set_groups(begins: bool, next: impl Fn(u64) -> u64) {
    let change = |now: u64| (begins || now != 0).then(|| next(now));
    let _ = GATE
        .groups
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, change);
    // `close` stores the word first: either it clears the value that was just stored, or its word
    // is seen here.
    if GATE.word.load(Ordering::SeqCst) & CLOSED != 0 {
        GATE.groups.store(0, Ordering::SeqCst);
    }
}

/// The word for a session.
pub(crate) const fn word_of(epoch: u64, flags: u64) -> u64 {
    (epoch << EPOCH_SHIFT) | flags
}

/// The session of a word.
pub(crate) const fn epoch_of(word: u64) -> u64 {
    word >> EPOCH_SHIFT
}

/// Prepares this process for recording and for forks. Called before the gate is first opened: from
/// now on a forked child cannot record.
pub(crate) fn set_up() {
    if SET_UP.load(Ordering::Acquire) != 0 {
        return;
    }
    prepare_for_forks();
    // In this order: a thread that sees the second store sees the first, and a forked child that
    // sees the second cannot become alive again.
    GATE.alive.store(1, Ordering::SeqCst);
    SET_UP.store(1, Ordering::SeqCst);
}

/// Lets forked children detect that they are forked. Called before waiting for a lock that such a
/// child could find locked permanently. A child forked before any other setup may record like any
/// other process.
///
/// No thread waits for another here, since the other could be missing in a forked child. Concurrent
/// callers all do the work; doing it twice is harmless.
pub(crate) fn prepare_for_forks() {
    if PREPARED.load(Ordering::Acquire) != 0 {
        return;
    }
    let page = std::ptr::from_ref(&GATE).cast_mut().cast::<u8>();
    // SAFETY: `GATE` fills whole pages of zero-initialised static memory, which is anonymous, and
    // holds four atomics for which zero is valid. The system also wipes it in children of children.
    unsafe { sys::wipe_on_fork(page, size_of::<Gate>()) };
    sys::on_fork(fork_begins, fork_is_over, close_in_child);
    GATE.unforked.store(1, Ordering::SeqCst);
    PREPARED.store(1, Ordering::SeqCst);
}

/// Whether a thread is within a fork: no thread should be interrupted now.
pub(crate) fn is_forking() -> bool {
    FORKING.load(Ordering::Acquire) != 0
}

/// Whether the profiler was never set up in this process, as in a forked child of a process in
/// which it was.
pub(crate) fn is_foreign() -> bool {
    GATE.alive.load(Ordering::Relaxed) == 0
}

/// Whether a lock may be held permanently by a thread of the parent process, which does not exist
/// in this forked child. Only if the parent had prepared for forks, as all takers of such locks do.
pub(crate) fn may_have_lost_locks() -> bool {
    PREPARED.load(Ordering::Acquire) != 0 && GATE.unforked.load(Ordering::Relaxed) == 0
}

/// Whether this is a forked child of a process that was set up to record: its pool is not mapped
/// here.
pub(crate) fn is_forked_child() -> bool {
    SET_UP.load(Ordering::Acquire) != 0 && is_foreign()
}

/// Whether the profiler was set up in this process, or in a process that this one was forked from.
pub(crate) fn is_set_up() -> bool {
    SET_UP.load(Ordering::Acquire) != 0
}

/// Lets a forked child record like a process that was just set up. Called when nothing of the
/// parent's state is in use any more.
pub(crate) fn begin_anew() {
    // The child's copy counts the fork that made it.
    FORKING.store(0, Ordering::SeqCst);
    ANEW.store(1, Ordering::SeqCst);
    GATE.alive.store(1, Ordering::SeqCst);
}

/// Whether this is a forked child that has begun anew. Its main thread is the thread that called
/// `fork`, on the stack that this thread had.
pub(crate) fn has_begun_anew() -> bool {
    ANEW.load(Ordering::Acquire) != 0
}

/// Runs the fork handlers without a fork. See [`crate::session`].
pub(crate) fn pass_through_fork_handlers() {
    fork_begins();
    fork_is_over();
}

// These three only store to atomics, because a signal handler may fork.

extern "C" fn fork_begins() {
    FORKING.fetch_add(1, Ordering::AcqRel);
}

extern "C" fn fork_is_over() {
    FORKING.fetch_sub(1, Ordering::AcqRel);
}

extern "C" fn close_in_child() {
    GATE.groups.store(0, Ordering::SeqCst);
    GATE.word.store(0, Ordering::SeqCst);
    GATE.alive.store(0, Ordering::SeqCst);
    GATE.unforked.store(0, Ordering::SeqCst);
}
