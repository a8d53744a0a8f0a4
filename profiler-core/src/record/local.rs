//! A thread's own recorder: made at the first entry, found through a thread-local, and released
//! when the thread ends or leaves.
//!
//! Called by everything that records. Invariants: no thread-local that recording uses has a
//! destructor. So reading one costs one instruction and works at any point of a thread's life, and
//! none of our code runs when a thread calls `exit` (exception: `thread_names::unregistered_name`).
//! The recorder is freed only after the pointer to it was cleared, on its thread, when the thread
//! ends.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::active_session::{self, with_shared_manager};
use super::recorder::Recorder;
use super::thread_names::forget_given_name;
use super::{recorder_list, session_state};
use crate::entry_counts::DropReason;
use crate::ids::ThreadIndex;
use crate::manager::ChunkManager;
use crate::sys;

thread_local! {
    /// From `Arc::into_raw`.
    static RECORDER: Cell<*const Recorder> = const { Cell::new(ptr::null()) };
    /// The thread makes its recorder, or gives it up.
    static MAKING: Cell<bool> = const { Cell::new(false) };
    /// The thread is ending: it has released its recorder and makes no other.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    /// The thread is inside the program's allocator.
    static IN_ALLOCATOR: Cell<bool> = const { Cell::new(false) };
}

/// Ends the thread's participation when the thread ends.
static AT_END: sys::ThreadEnd = sys::ThreadEnd::new(end_thread);

extern "C" fn end_thread(_: *mut std::ffi::c_void) {
    HAS_ENDED.set(true);
    give_up_recorder();
    // Not when a thread only leaves a session: the sampler may find it again.
    sys::forget_alternate_stack();
    forget_given_name();
}

/// Makes the system call [`end_thread`] when the calling thread ends.
pub(super) fn arm_thread_end() {
    AT_END.arm();
}

/// Removes a thread's recorder from the list and releases its row and chunk.
fn let_go(recorder: Arc<Recorder>) {
    // In a forked child the pool is not mapped and no lock may be taken.
    let is_forked = session_state::is_forked_child();
    if is_forked || !recorder.close() {
        // Within an entry, a caller further up the stack uses the recorder: leak it.
        std::mem::forget(Arc::clone(&recorder));
    }
    if is_forked {
        return;
    }
    // Remove it from the list in any case: otherwise a stop would wait for the end of an entry that
    // may never end.
    recorder_list::remove(&recorder);
}

/// An entry that a thread adds with its own recorder.
///
/// A trait, because the compiler itself decides whether it inlines a closure. If it does not, the
/// words of an entry are stored on the stack and loaded again.
pub(crate) trait AddEntry {
    /// Adds the entry. On the path of every marker, this function is `inline(always)`.
    fn add_with(self, recorder: &Recorder);
}

/// Adds `entry` with the calling thread's recorder, making one if it has none.
#[inline(always)]
pub(crate) fn add(entry: impl AddEntry) {
    let mut recorder = RECORDER.with(Cell::get);
    if recorder.is_null() {
        recorder = new_recorder();
    }
    // SAFETY: null, or cleared on this thread before the recorder is freed.
    if let Some(recorder) = unsafe { recorder.as_ref() } {
        entry.add_with(recorder);
    }
}

/// Runs `body` with the calling thread's recorder, making one if it has none.
#[inline(always)]
pub(crate) fn with_recorder(body: impl FnOnce(&Recorder)) {
    struct Body<F>(F);

    impl<F: FnOnce(&Recorder)> AddEntry for Body<F> {
        #[inline(always)]
        fn add_with(self, recorder: &Recorder) {
            (self.0)(recorder);
        }
    }

    add(Body(body));
}

/// Like [`with_recorder`], for the program's allocator, which is called at any point of a thread's
/// life: also before the standard library has set the thread up, and after it has torn it down. So
/// the thread's name comes from the system until the thread records something else.
pub(crate) fn with_recorder_in_allocator(body: impl FnOnce(&Recorder)) {
    let was_in = IN_ALLOCATOR.replace(true);
    with_recorder(|recorder| {
        body(recorder);
        recorder.disarm_if_named_by_system();
    });
    IN_ALLOCATOR.set(was_in);
}

/// Whether the calling thread is inside the program's allocator.
pub(super) fn is_in_allocator() -> bool {
    IN_ALLOCATOR.get()
}

/// Gives the thread a recorder. Null if the thread cannot have one now, which is counted. Returns
/// before anything is recorded, so that its frames and those of the recording do not add up on a
/// small stack.
#[cold]
#[inline(never)]
fn new_recorder() -> *const Recorder {
    if !session_state::is_active() {
        return ptr::null();
    }
    if MAKING.replace(true) {
        // Making or freeing a recorder calls the allocator, which records.
        count_in_process_row(DropReason::Reentrant);
        return ptr::null();
    }
    let made = make_recorder();
    MAKING.set(false);
    if made.is_none() {
        count_in_process_row(DropReason::Full);
    }
    made.map_or(ptr::null(), |recorder| Arc::as_ptr(&recorder))
}

/// Makes the thread's recorder; `None` while the thread ends, or if another thread holds the list.
fn make_recorder() -> Option<Arc<Recorder>> {
    // Checked first: an ending thread may come here many times, from its allocator.
    if HAS_ENDED.get() {
        return None;
    }
    let recorder = Arc::new(Recorder::new(sys::current_thread_id()));
    recorder_list::add(&recorder)?;
    // Limitation: a thread that first comes here in its fourth and last round of destructors is not
    // called again, and its recorder stays on the list. The callback is our code, so a library that
    // contains the profiler must not be unloaded (as for the signal handler).
    arm_thread_end();
    RECORDER.set(Arc::into_raw(Arc::clone(&recorder)));
    Some(recorder)
}

/// Ends the calling thread's participation now rather than when it ends. Does nothing within an
/// entry, that is, when called by a payload's serialisation. Not for signal handlers.
pub(crate) fn leave_thread() {
    if !is_within_entry() {
        give_up_recorder();
    }
}

/// Makes the calling thread's next marker state the trace that the thread carries now.
#[inline]
pub(crate) fn note_other_trace() {
    let recorder = RECORDER.with(Cell::get);
    // SAFETY: null, or cleared on this thread before the recorder is freed.
    if let Some(recorder) = unsafe { recorder.as_ref() } {
        recorder.note_other_trace();
    }
}

/// Whether the calling thread is ending, and has released what it had.
pub(super) fn has_ended() -> bool {
    HAS_ENDED.get()
}

/// Whether the calling thread is within an entry, or makes its recorder for one.
pub(super) fn is_recording() -> bool {
    MAKING.get() || is_within_entry()
}

/// Whether the calling thread is within an entry.
pub(crate) fn is_within_entry() -> bool {
    let recorder = RECORDER.with(Cell::get);
    // SAFETY: the pointer is cleared on this thread before the recorder is freed.
    unsafe { recorder.as_ref() }.is_some_and(Recorder::is_busy)
}

/// In a forked child that begins anew: forgets the session and the recorders of the parent. Drops
/// nothing, because they refer to a pool that is not mapped here.
pub(crate) fn forget_parent() {
    RECORDER.set(ptr::null());
    active_session::forget_parent();
    recorder_list::forget_parent();
}

fn give_up_recorder() {
    let own = RECORDER.replace(ptr::null());
    if !own.is_null() {
        // Freeing it calls the allocator, which may record: no other recorder is made for that, which
        // would have to be given up, too.
        let was_making = MAKING.replace(true);
        // SAFETY: from `Arc::into_raw` in `make_recorder`; the pointer to it has just been cleared.
        let_go(unsafe { Arc::from_raw(own) });
        MAKING.set(was_making);
    }
}

/// Counts an entry that no thread's row can count.
pub(crate) fn count_in_process_row(reason: DropReason) {
    let _ = with_manager(|manager| {
        manager
            .pool()
            .thread_row(ThreadIndex::PROCESS)?
            .count_drop(reason);
        Some(())
    });
}

/// Whether the maintenance thread has done all work that was requested: the chunks that the next
/// entries need are ready, as far as the allowance permits. `None` without a session, while one
/// starts or stops, and in a forked child.
///
/// For tests that record exact numbers of entries: a thread that records faster than the
/// maintenance thread makes chunks ready drops entries.
pub fn is_maintenance_idle() -> Option<bool> {
    with_manager(|manager| Some(manager.is_maintenance_idle()))
}

/// Runs `body` with the chunk manager of the running session.
///
/// A thread that records in the session uses its recorder's reference. Any other thread clones the
/// shared reference, for which all such threads contend. It does not join the session, because it
/// may be inside an allocator.
#[inline]
pub(crate) fn with_manager<T>(body: impl FnOnce(&ChunkManager) -> Option<T>) -> Option<T> {
    let recorder = RECORDER.with(Cell::get);
    let mut body = Some(body);
    if !recorder.is_null() {
        // SAFETY: the pointer is cleared on this thread before the recorder is freed.
        let recorder = unsafe { &*recorder };
        let done = recorder.with_joined(|manager| body.take().and_then(|body| body(manager)));
        if body.is_none() {
            return done.flatten();
        }
    }
    with_shared_manager(body?)
}

#[cfg(all(test, not(loom)))]
mod tests;
