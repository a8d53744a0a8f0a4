//! From a thread to its recorder: the thread-local, and joining a session on first use.
//!
//! Invariants: the hot thread-local is a bare pointer without destructor, so reading it costs one
//! instruction and works at any point of a thread's life; the recorder behind it is freed only
//! after the pointer was cleared, by the guard's destructor, on the same thread.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError};

use super::gate;
use super::patience::once_per_thread;
use super::recorder::{NotRecorded, Recorder};
use super::writer::{Home, Tenure, Waiting};
use crate::ids::{ThreadId, ThreadIndex};
use crate::losses::DropReason;
use crate::manager::ChunkManager;
use crate::pool::live::{NewThread, ThreadRow};
use crate::sys;
use crate::thread::ThreadFilter;
use crate::time::Timestamp;

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

static CURRENT: RwLock<Option<Arc<ActiveSession>>> = RwLock::new(None);
static RECORDERS: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

thread_local! {
    static RECORDER: Cell<*const Recorder> = const { Cell::new(ptr::null()) };
    static MAKING: Cell<bool> = const { Cell::new(false) };
    static GUARD: RefCell<Option<Guard>> = const { RefCell::new(None) };
    static NAME: RefCell<Option<String>> = const { RefCell::new(None) };
    /// How often the thread was named.
    static NAMED: Cell<u32> = const { Cell::new(0) };
    /// The thread is inside the program's allocator.
    static IN_ALLOCATOR: Cell<bool> = const { Cell::new(false) };
    /// The thread records for others: no filter is meant for it.
    static ALWAYS_SELECTED: Cell<bool> = const { Cell::new(false) };
}

/// Has the calling thread recorded whatever the filters say of its name. For the sampler's.
pub(crate) fn select_always() {
    ALWAYS_SELECTED.with(|always| always.set(true));
}

/// Ends the thread's part when the thread ends.
struct Guard(Arc<Recorder>);

impl Drop for Guard {
    fn drop(&mut self) {
        RECORDER.with(|cell| cell.set(ptr::null()));
        // In a forked child the pool is not mapped and no lock may be taken.
        let is_forked = gate::is_forked_child();
        if is_forked || !self.0.close() {
            // In the middle of an entry the recorder is in use further up the stack: it stays for ever.
            std::mem::forget(Arc::clone(&self.0));
        }
        if is_forked {
            return;
        }
        sys::forget_alternate_stack(self.0.tid());
        // Off the list in any case: a stop would wait for the end of an entry that may never end.
        let mut all = RECORDERS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|recorder| !Arc::ptr_eq(recorder, &self.0));
    }
}

/// Runs `body` with the calling thread's recorder, making one if it has none.
#[inline(always)]
pub(crate) fn with_recorder(body: impl FnOnce(&Recorder)) {
    let recorder = RECORDER.with(Cell::get);
    if recorder.is_null() {
        return with_new_recorder(body);
    }
    // SAFETY: the pointer is cleared on this thread before the recorder is freed.
    body(unsafe { &*recorder });
}

/// The same for the program's allocator, which is called at any point of a thread's life: before the standard library
/// knows the thread, and after it has forgotten it. So the thread's name is asked of the system, until the
/// thread records something else.
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

#[cold]
#[inline(never)]
fn with_new_recorder(body: impl FnOnce(&Recorder)) {
    if !gate::is_active() {
        return;
    }
    if MAKING.replace(true) {
        // Making a recorder allocates, and the allocator records.
        return count_in_process_row(DropReason::Reentrant);
    }
    let made = make_recorder();
    MAKING.set(false);
    match made {
        Some(recorder) => body(&recorder),
        None => count_in_process_row(DropReason::Full),
    }
}

/// Makes the thread's recorder; `None` while the thread ends, or if another thread has the list.
fn make_recorder() -> Option<Arc<Recorder>> {
    // First of all: a thread that ends may come here many times, from its allocator.
    GUARD.try_with(|guard| guard.try_borrow().is_ok()).ok().filter(|can_be_kept| *can_be_kept)?;
    let recorder = Arc::new(Recorder::new(sys::current_thread_id()));
    list_recorder(&recorder)?;
    let kept = GUARD.try_with(|guard| {
        let mut guard = guard.try_borrow_mut().ok()?;
        *guard = Some(Guard(Arc::clone(&recorder)));
        Some(())
    });
    if kept.ok().flatten().is_none() {
        drop(Guard(recorder)); // takes it off the list again
        return None;
    }
    // A thread that has run its destructors of thread-locals already runs no more of them. What is left out: a thread that
    // comes here in its fourth and last round of such calls is not called again, and its recorder stays on the list for ever;
    // and the call is code of ours, so a library that we are linked into must not be unloaded (nor may our signal
    // handler be).
    sys::at_thread_end(leave_at_end);
    RECORDER.with(|cell| cell.set(Arc::as_ptr(&recorder)));
    Some(recorder)
}

extern "C" fn leave_at_end(_: *mut std::ffi::c_void) {
    leave_thread();
}

fn list_recorder(recorder: &Arc<Recorder>) -> Option<()> {
    let mut all = once_per_thread(|| match RECORDERS.try_lock() {
        Ok(all) => Some(all),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })?;
    all.push(Arc::clone(recorder));
    Some(())
}

/// Gives a recorder its place in the session that `word` speaks of. `waiting` is what an earlier
/// try in the same session left behind: nothing is allocated twice.
pub(super) fn join(
    recorder: &Recorder,
    word: u64,
    waiting: &mut Option<Waiting>,
) -> Result<Home, NotRecorded> {
    let session = match CURRENT.try_read() {
        Ok(current) => current.clone(),
        Err(_) => None, // a session is starting or stopping
    };
    let session = session.filter(|session| session.epoch == gate::epoch_of(word)).ok_or(NotRecorded::Off)?;
    // Before the thread has a row, from which on it is sampled.
    sys::look_at_alternate_stack(recorder.tid());
    // Outside the allocator a thread has another name than inside, by which it is selected anew.
    let is_its_name = |waiting: &Waiting| !waiting.is_named_by_system || is_in_allocator();
    let known = waiting.take().filter(|waiting| waiting.epoch == session.epoch && is_its_name(waiting));
    let is_selected = |name: &str| {
        let by_name = session.markers_of_all || session.filter.selects(name);
        !session.filter.excludes_process() && (by_name || ALWAYS_SELECTED.with(Cell::get))
    };
    let was_selected = known.is_some();
    let (name, by_system) =
        known.map_or_else(thread_name, |waiting| (waiting.name, waiting.is_named_by_system));
    let selected = was_selected || is_selected(&name);
    let place = match selected {
        true => row_for(&session, recorder.tid(), &name),
        false => Ok((ThreadIndex::PROCESS, Tenure::None)),
    };
    if place.is_err() {
        *waiting = Some(Waiting { epoch: session.epoch, name, is_named_by_system: by_system });
    }
    let (row, tenure) = place?;
    let manager = Arc::clone(&session.manager);
    let (epoch, fast_fill) = (session.epoch, session.fast_fill);
    // The main thread's row has its name already.
    let is_named_by_system = by_system && !matches!(tenure, Tenure::Kept(_));
    Ok(Home { manager, epoch, row, selected, is_named_by_system, tenure, fast_fill })
}

/// The thread's row, and by what right it is. The main thread's row stays for the whole session.
/// Lock-free.
fn row_for(session: &ActiveSession, tid: ThreadId, name: &str) -> Result<(ThreadIndex, Tenure), NotRecorded> {
    let pool = session.manager.pool();
    let kept = session.main.filter(|(main, _)| *main == tid).map(|(_, row)| row);
    if let Some(row) = kept
        && let Some(own) = pool.thread_row(row).and_then(ThreadRow::take_kept)
    {
        return Ok((row, Tenure::Kept(own)));
    }
    let thread = NewThread { tid, is_main: kept.is_some(), name, at: Timestamp::now() };
    if let Some((row, own)) = session.manager.threads.take_found(pool, tid) {
        if let Some(row) = pool.thread_row(row) {
            row.rename(name); // the sampler knew only what the system calls it
        }
        return Ok((row, Tenure::Own(own)));
    }
    if let Some((row, own)) = session.manager.threads.add(pool, thread) {
        return Ok((row, Tenure::Own(own)));
    }
    if session.epoch != gate::epoch_of(gate::word()) {
        return Err(NotRecorded::Off); // no row because the session is over
    }
    if let Some(row) = pool.thread_row(ThreadIndex::PROCESS) {
        row.count_drop(DropReason::NoDefinitions);
    }
    Err(NotRecorded::Dropped(DropReason::NoDefinitions))
}

/// The name given by `register_thread`, else the thread's own; and whether that is only what the system calls it.
pub(super) fn thread_name() -> (String, bool) {
    let given = NAME.try_with(|name| name.try_borrow().ok().and_then(|name| name.clone())).ok().flatten();
    let is_asked_of_system = given.is_none() && is_in_allocator();
    let name = given.or_else(|| {
        if is_asked_of_system {
            return sys::current_thread_name();
        }
        std::thread::current().name().map(str::to_owned)
    });
    (name.unwrap_or_else(|| format!("Thread {}", sys::current_thread_id())), is_asked_of_system)
}

/// The name of the calling thread, if it has one.
pub(crate) fn own_name() -> Option<String> {
    let given = NAME.try_with(|name| name.try_borrow().ok().and_then(|name| name.clone())).ok().flatten();
    given.or_else(|| std::thread::current().name().map(str::to_owned))
}

/// How often the calling thread was named, for whoever remembers what follows from its name.
#[inline]
pub(crate) fn times_named() -> u32 {
    NAMED.get()
}

/// Names the calling thread for this and later sessions.
pub(crate) fn name_thread(name: &str) {
    NAMED.set(NAMED.get().wrapping_add(1));
    let _ = NAME.try_with(|own| {
        if let Ok(mut own) = own.try_borrow_mut() {
            *own = Some(name.to_owned());
        }
    });
    if !gate::is_active() {
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

/// Ends the calling thread's part now rather than when it ends. Nothing happens in the middle
/// of an entry, that is when called by a payload's serialisation. Not for signal handlers.
pub(crate) fn leave_thread() {
    let recorder = RECORDER.with(Cell::get);
    // SAFETY: the pointer is cleared on this thread before the recorder is freed.
    if unsafe { recorder.as_ref() }.is_some_and(Recorder::is_busy) {
        return;
    }
    let guard = GUARD.try_with(|guard| guard.try_borrow_mut().ok().and_then(|mut guard| guard.take()));
    drop(guard.ok().flatten());
}

/// Counts an entry that no thread's row can count.
pub(crate) fn count_in_process_row(reason: DropReason) {
    let _ = with_manager(|manager| {
        manager.pool().thread_row(ThreadIndex::PROCESS)?.count_drop(reason);
        Some(())
    });
}

/// Runs `body` with the chunk manager of the running session.
///
/// A thread that records in it has it at hand; any other takes a share of it, which all such
/// threads have to agree upon, but joins nothing: it may be inside an allocator.
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
    // A forked child knows its parent's session, whose pool is not mapped there.
    if gate::is_forked_child() {
        return None;
    }
    let session = CURRENT.try_read().ok()?.clone()?;
    body(&session.manager)
}

/// Changes what threads join; gives back what they joined before. Called by `session`, which opens the gate afterwards.
pub(crate) fn set_current(session: Option<Arc<ActiveSession>>) -> Option<Arc<ActiveSession>> {
    std::mem::replace(&mut *CURRENT.write().unwrap_or_else(PoisonError::into_inner), session)
}

/// The recorders of all threads that have one.
pub(super) fn recorders() -> Vec<Arc<Recorder>> {
    RECORDERS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Takes the chunks away from all threads that are not recording right now.
///
/// Called after the gate was closed. Returns how many threads kept theirs because they are in
/// the middle of an entry.
pub(crate) fn seize_all(manager: &ChunkManager) -> usize {
    let all = recorders();
    all.iter().for_each(|recorder| recorder.disarm());
    if !sys::barrier_on_all_threads() {
        return all.len();
    }
    let _state = manager.lock();
    all.iter().filter(|recorder| !recorder.seize(manager)).count()
}

#[cfg(all(test, not(loom)))]
mod tests;
