//! The names of threads: those that the program gives, and those that the system and the standard
//! library know.
//!
//! Called by `join`, by `recorder`, and by `thread::register`. Invariants: the standard library is
//! asked for a name only if the system does not know it, and never inside the program's allocator;
//! a name is not replaced while it is copied, because the copy allocates and the allocator may name
//! its thread.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;

use super::local::{self, arm_thread_end, is_in_allocator, with_recorder};
use super::session_state;
use crate::sys;

thread_local! {
    /// The name that the program gave the thread, from `Box::into_raw`.
    static NAME: Cell<*const String> = const { Cell::new(ptr::null()) };
    /// Destroyed before the standard library's handle of the thread. After that the handle must not
    /// be requested.
    static LIBRARY_KNOWS_THREAD: NeedsDrop = const { NeedsDrop };
    /// The number of times the thread was named.
    static NAMED: Cell<u32> = const { Cell::new(0) };
    /// The thread is within a function of this file that allocates.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`, which may allocate, and says it whether the calling thread was within another such
/// call: then the program's allocator has made this call.
fn while_busy<T>(body: impl FnOnce(bool) -> T) -> T {
    let was_busy = BUSY.replace(true);
    let result = body(was_busy);
    BUSY.set(was_busy);
    result
}

struct NeedsDrop;

impl Drop for NeedsDrop {
    fn drop(&mut self) {}
}

/// The system's name for the process, and for each of its threads that has no other name.
static PROCESS_NAME: OnceLock<Option<String>> = OnceLock::new();

/// Called by the thread that starts a session, before any thread can join the session.
pub(crate) fn learn_process_name() {
    let _ = PROCESS_NAME.get_or_init(sys::process_name);
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
    // SAFETY: null, or from `Box::into_raw` in `set_name`, which this thread alone calls, and not
    // while the name is copied.
    while_busy(|_| unsafe { NAME.get().as_ref() }.cloned())
}

/// The system's name for the thread, or the standard library's if the system keeps only the
/// beginning.
///
/// The standard library is asked last: in a thread that it did not create, such as a thread of a C
/// program, the call registers a destructor, which then runs inside `exit`.
fn unregistered_name() -> Option<String> {
    let of_library = || {
        while_busy(|is_in_allocator| {
            // The library may be making its handle of the thread.
            let name = |_: &NeedsDrop| std::thread::current().name().map(str::to_owned);
            let is_asked = !is_in_allocator;
            let known = is_asked.then(|| LIBRARY_KNOWS_THREAD.try_with(name).ok());
            known.flatten().flatten()
        })
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

/// Names the calling thread for this and later sessions. Does nothing while the thread ends, and if
/// the program's allocator calls it while the thread's name is copied or set.
pub(crate) fn name_thread(name: &str) {
    if local::has_ended() || !while_busy(|is_in_allocator| set_own_name(name, is_in_allocator)) {
        return;
    }
    // Within an entry, the row keeps its name until the thread is named again.
    if !session_state::is_active() || local::is_recording() {
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

/// Sets the calling thread's name, unless the allocator asks for it.
fn set_own_name(name: &str, is_in_allocator: bool) -> bool {
    if !is_in_allocator {
        NAMED.set(NAMED.get().wrapping_add(1));
        arm_thread_end();
        set_name(Some(name.to_owned()));
    }
    !is_in_allocator
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

/// Frees the name that the program gave the calling thread, when the thread ends.
pub(super) fn forget_given_name() {
    while_busy(|_| set_name(None));
}
