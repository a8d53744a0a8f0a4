//! Finds a thread's recorder in its thread-local, and joins the session on first use.
//!
//! Invariants: no thread-local that recording uses has a destructor. So reading one costs one
//! instruction and works at any point of a thread's life, and none of our code runs when a thread
//! calls `exit` (exception: `unregistered_name`). The recorder is freed only after the pointer to
//! it was cleared, on its thread, when the thread ends.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError};

use super::backoff::spin_then_yield;
use super::recorder::{NotRecorded, Recorder};
use super::session_state;
use super::writer::{RowOwnership, ThreadContext, Waiting};
use crate::entry_counts::DropReason;
use crate::ids::{ThreadId, ThreadIndex};
use crate::manager::ChunkManager;
use crate::pool::live::{NewThread, ThreadRow};
use crate::sys;
use crate::thread_filter::ThreadFilter;
use crate::time::Timestamp;
use profiler_sys::Renewable;

/// A session as recording threads see it.
#[derive(Debug)]
pub(crate) struct ActiveSession {
    pub(crate) epoch: u64,
    pub(crate) manager: Arc<ChunkManager>,
    pub(crate) filter: ThreadFilter,
    pub(crate) markers_of_all: bool,
    pub(crate) main: Option<(ThreadId, ThreadIndex)>,
    pub(crate) fast_fill: u64,
}

static CURRENT: Renewable<RwLock<Option<Arc<ActiveSession>>>> = Renewable::new(RwLock::new(None));
static RECORDERS: Renewable<Mutex<Vec<Arc<Recorder>>>> = Renewable::new(Mutex::new(Vec::new()));

/// See [`set_join_hook`].
static JOIN_HOOK: OnceLock<fn(ThreadId)> = OnceLock::new();

/// Sets a function that a thread which the session's filters select calls when it joins, before it
/// has a row. The first function stays.
#[cfg_attr(profiler_portable, allow(dead_code))] // no sampler on these systems
pub(crate) fn set_join_hook(hook: fn(ThreadId)) {
    let _ = JOIN_HOOK.set(hook);
}

thread_local! {
    /// From `Arc::into_raw`.
    static RECORDER: Cell<*const Recorder> = const { Cell::new(ptr::null()) };
    static MAKING: Cell<bool> = const { Cell::new(false) };
    /// The thread is ending: it has released its recorder and makes no other.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
    /// The name that the program gave the thread, from `Box::into_raw`.
    static NAME: Cell<*const String> = const { Cell::new(ptr::null()) };
    /// Destroyed before the standard library's handle of the thread. After that the handle must not
    /// be requested.
    static LIBRARY_KNOWS_THREAD: NeedsDrop = const { NeedsDrop };
    /// The number of times the thread was named.
    static NAMED: Cell<u32> = const { Cell::new(0) };
    /// The thread is inside the program's allocator.
    static IN_ALLOCATOR: Cell<bool> = const { Cell::new(false) };
    /// The thread records for others: filters do not apply to it.
    static ALWAYS_SELECTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread record regardless of filters. For the sampler's thread.
pub(crate) fn select_always() {
    ALWAYS_SELECTED.with(|always| always.set(true));
}

struct NeedsDrop;

impl Drop for NeedsDrop {
    fn drop(&mut self) {}
}

/// Ends the thread's participation when the thread ends.
static AT_END: sys::ThreadEnd = sys::ThreadEnd::new(end_thread);

extern "C" fn end_thread(_: *mut std::ffi::c_void) {
    HAS_ENDED.set(true);
    give_up_recorder();
    // Not when a thread only leaves a session: the sampler may find it again.
    sys::forget_alternate_stack();
    set_name(None);
}

/// The system's name for the process, and for each of its threads that has no other name.
static PROCESS_NAME: OnceLock<Option<String>> = OnceLock::new();

/// Called by the thread that starts a session, before any thread can join the session.
pub(crate) fn learn_process_name() {
    let _ = PROCESS_NAME.get_or_init(sys::process_name);
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
    let mut all = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|listed| !Arc::ptr_eq(listed, &recorder));
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
        // Making a recorder allocates, and the allocator records.
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
    list_recorder(&recorder)?;
    // Limitation: a thread that first comes here in its fourth and last round of destructors is not
    // called again, and its recorder stays on the list. The callback is our code, so a library that
    // contains the profiler must not be unloaded (as for the signal handler).
    AT_END.arm();
    RECORDER.set(Arc::into_raw(Arc::clone(&recorder)));
    Some(recorder)
}

fn list_recorder(recorder: &Arc<Recorder>) -> Option<()> {
    let mut all = spin_then_yield(|| match RECORDERS.try_lock() {
        Ok(all) => Some(all),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })?;
    all.push(Arc::clone(recorder));
    Some(())
}

/// Joins the session of `word` for a recorder and returns its context. `waiting` is the state left
/// by an earlier try in the same session, so that nothing is allocated twice.
pub(super) fn join(
    recorder: &Recorder,
    word: u64,
    waiting: &mut Option<Waiting>,
) -> Result<ThreadContext, NotRecorded> {
    let session = match CURRENT.try_read() {
        Ok(current) => current.clone(),
        Err(_) => None, // a session is starting or stopping
    };
    let session = session
        .filter(|session| session.epoch == session_state::epoch_of(word))
        .ok_or(NotRecorded::Off)?;
    // Before the thread has a row: from then on it is sampled.
    sys::check_alternate_stack(recorder.tid());
    // Inside the allocator a thread has the system's name; outside it is selected again by its own.
    let is_its_name = |waiting: &Waiting| !waiting.is_named_by_system || is_in_allocator();
    let known = waiting
        .take()
        .filter(|waiting| waiting.epoch == session.epoch && is_its_name(waiting));
    let is_selected = |name: &str| {
        let by_name = session.markers_of_all || session.filter.selects(name);
        !session.filter.excludes_process() && (by_name || ALWAYS_SELECTED.with(Cell::get))
    };
    let was_selected = known.is_some();
    let (name, by_system) = known.map_or_else(thread_name, |waiting| {
        (waiting.name, waiting.is_named_by_system)
    });
    let selected = was_selected || is_selected(&name);
    let is_sampled =
        |name: &str| !session.filter.excludes_process() && session.filter.selects(name);
    if !was_selected
        && let Some(hook) = JOIN_HOOK.get()
        && is_sampled(&name)
    {
        hook(recorder.tid());
    }
    let place = match selected {
        true => row_for(&session, recorder.tid(), &name),
        false => Ok((ThreadIndex::PROCESS, RowOwnership::None)),
    };
    if place.is_err() {
        *waiting = Some(Waiting {
            epoch: session.epoch,
            name,
            is_named_by_system: by_system,
        });
    }
    let (row, tenure) = place?;
    let manager = Arc::clone(&session.manager);
    let epoch = session.epoch;
    let fast_fill = session.fast_fill;
    // The main thread's row already has its name.
    let is_named_by_system = by_system && !matches!(tenure, RowOwnership::Kept(_));
    Ok(ThreadContext {
        manager,
        epoch,
        row,
        selected,
        is_named_by_system,
        tenure,
        fast_fill,
    })
}

/// Returns the thread's row and how the thread owns it. The main thread's row exists for the whole
/// session. Takes no lock.
fn row_for(
    session: &ActiveSession,
    tid: ThreadId,
    name: &str,
) -> Result<(ThreadIndex, RowOwnership), NotRecorded> {
    let pool = session.manager.pool();
    let kept = session
        .main
        .filter(|(main, _)| *main == tid)
        .map(|(_, row)| row);
    if let Some(row) = kept
        && let Some(own) = pool.thread_row(row).and_then(ThreadRow::take_kept)
    {
        return Ok((row, RowOwnership::Kept(own)));
    }
    let thread = NewThread {
        tid,
        is_main: kept.is_some(),
        name,
        at: Timestamp::now(),
    };
    if let Some((row, own)) = session.manager.threads.take_found(pool, tid) {
        if let Some(row) = pool.thread_row(row) {
            row.rename(name); // the sampler only had the system's name
        }
        return Ok((row, RowOwnership::Own(own)));
    }
    if let Some((row, own)) = session.manager.threads.add(pool, thread) {
        return Ok((row, RowOwnership::Own(own)));
    }
    if session.epoch != session_state::epoch_of(session_state::word()) {
        return Err(NotRecorded::Off); // no row because the session is over
    }
    if let Some(row) = pool.thread_row(ThreadIndex::PROCESS) {
        row.count_drop(DropReason::NoDefinitions);
    }
    Err(NotRecorded::Dropped(DropReason::NoDefinitions))
}

/// Returns the name given by `register_thread`, otherwise the thread's own name, and whether only
/// the system was asked for it.
pub(super) fn thread_name() -> (String, bool) {
    let given = given_name();
    let is_asked_of_system = given.is_none() && is_in_allocator();
    let name = given.or_else(|| {
        if is_asked_of_system {
            sys::current_thread_name()
        } else {
            unregistered_name()
        }
    });
    (
        name.unwrap_or_else(|| format!("Thread {}", sys::current_thread_id())),
        is_asked_of_system,
    )
}

/// The name of the calling thread, if it has one.
pub(crate) fn own_name() -> Option<String> {
    given_name().or_else(unregistered_name)
}

fn given_name() -> Option<String> {
    // SAFETY: null, or from `Box::into_raw` in `set_name`, which this thread alone calls.
    unsafe { NAME.get().as_ref() }.cloned()
}

/// The system's name for the thread, or the standard library's if the system keeps only the
/// beginning.
///
/// The standard library is asked last: in a thread that it did not create, such as a thread of a C
/// program, the call registers a destructor, which then runs inside `exit`.
fn unregistered_name() -> Option<String> {
    let of_library = || {
        LIBRARY_KNOWS_THREAD
            .try_with(|_| std::thread::current().name().map(str::to_owned))
            .ok()
            .flatten()
    };
    if sys::current_thread_id().get() == u64::from(sys::process_id().get()) {
        return Some("main".to_owned());
    }
    let Some(name) = sys::current_thread_name() else {
        return of_library();
    };
    if PROCESS_NAME
        .get()
        .is_some_and(|process| process.as_ref() == Some(&name))
    {
        return None; // inherited: the thread was never named
    }
    if name.len() < sys::THREAD_NAME_BYTES {
        Some(name)
    } else {
        of_library()
    }
}

/// The number of times the calling thread was named, to detect a new name.
#[inline]
pub(crate) fn times_named() -> u32 {
    NAMED.get()
}

/// Names the calling thread for this and later sessions.
pub(crate) fn name_thread(name: &str) {
    NAMED.set(NAMED.get().wrapping_add(1));
    AT_END.arm();
    set_name(Some(name.to_owned()));
    if !session_state::is_active() {
        return;
    }
    with_recorder(|recorder| {
        recorder.renamed();
        recorder.with_home(|home| {
            let row = home.manager.pool().thread_row(home.row);
            if let (true, Some(row)) = (home.selected, row) {
                row.rename(name);
            }
        });
    });
}

/// Ends the calling thread's participation now rather than when it ends. Does nothing within an
/// entry, that is, when called by a payload's serialisation. Not for signal handlers.
pub(crate) fn leave_thread() {
    if !is_within_entry() {
        give_up_recorder();
    }
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
    CURRENT.renew(RwLock::new(None));
    RECORDERS.renew(Mutex::new(Vec::new()));
}

fn give_up_recorder() {
    let own = RECORDER.replace(ptr::null());
    if !own.is_null() {
        // SAFETY: from `Arc::into_raw` in `make_recorder`; the pointer to it has just been cleared.
        let_go(unsafe { Arc::from_raw(own) });
    }
}

/// Replaces the name that the program gave the calling thread.
fn set_name(name: Option<String>) {
    let new = name.map_or(ptr::null(), |name| {
        Box::into_raw(Box::new(name)).cast_const()
    });
    let old = NAME.replace(new);
    if !old.is_null() {
        // SAFETY: from `Box::into_raw` above, by this thread; nothing refers to it any more.
        drop(unsafe { Box::from_raw(old.cast_mut()) });
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

#[inline(never)]
fn with_shared_manager<T>(body: impl FnOnce(&ChunkManager) -> Option<T>) -> Option<T> {
    // A forked child still has its parent's session, whose pool is not mapped there.
    if session_state::is_forked_child() {
        return None;
    }
    let session = CURRENT.try_read().ok()?.clone()?;
    body(&session.manager)
}

/// Sets the session that threads join; returns the previous one. Called by `session`, which opens
/// the gate afterwards.
pub(crate) fn set_current(session: Option<Arc<ActiveSession>>) -> Option<Arc<ActiveSession>> {
    std::mem::replace(
        &mut *CURRENT.write().unwrap_or_else(PoisonError::into_inner),
        session,
    )
}

/// The recorders of all threads that have one.
pub(super) fn recorders() -> Vec<Arc<Recorder>> {
    RECORDERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()
}

/// Takes the chunks away from all threads that are not recording right now.
///
/// Called after the gate was closed. Returns the number of threads that kept theirs because they
/// are within an entry.
pub(crate) fn seize_all(manager: &ChunkManager) -> usize {
    let all = recorders();
    all.iter().for_each(|recorder| recorder.disarm());
    if !sys::barrier_on_all_threads() {
        return all.len();
    }
    let _state = manager.lock();
    all.iter()
        .filter(|recorder| !recorder.seize(manager))
        .count()
}

#[cfg(all(test, not(loom)))]
mod tests;
