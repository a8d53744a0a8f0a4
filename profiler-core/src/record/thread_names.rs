//! The names of threads: those that the program gives, and those that the system and the standard
//! library know.
//!
//! Called by `join`, by `recorder`, and by `thread::register`. Invariant: the standard library is
//! asked for a name only if the system does not know it, and never inside the program's allocator.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;

use super::local::{arm_thread_end, is_in_allocator, with_recorder};
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
    arm_thread_end();
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
    set_name(None);
}
