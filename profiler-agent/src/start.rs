//! The beginning: joins the session.
//!
//! The loader calls [`start`] before the program's `main`, if the library is loaded with the
//! program. The pool is attached when it returns, so a program that exits at once is in the
//! profile, too. A library that is loaded later joins when `profiler_join` is called. It does not
//! join inside `dlopen`: joining waits for new threads, and in older C libraries a new thread waits
//! for the lock that `dlopen` holds.

#![allow(unsafe_code)]

use std::panic::{catch_unwind, set_hook};

use profiler_child::Status;

use crate::{forks, host};

/// The loader calls the functions of this section when it loads the library.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    if host::is_loaded_at_start() {
        join();
    }
}

/// Joins the session whose address is in the environment, if there is one and the agent is allowed
/// to. Only the first call does. Never panics.
pub(crate) fn join() {
    // Nothing here panics. If it did, the program would run without the profiler.
    let _ = catch_unwind(try_to_join);
}

fn try_to_join() {
    if !host::is_profiled() || host::forbids() {
        return;
    }
    // The hook of this library's copy of the standard library, not of the program's: a panic of the
    // profiler prints nothing.
    set_hook(Box::new(|_| {}));
    // The session lists a process that it refuses. There is nobody else to tell.
    if matches!(
        profiler_child::init_within(host::join_wait()),
        Status::Recording
    ) {
        forks::follow(host::is_loaded_at_start());
    }
}
