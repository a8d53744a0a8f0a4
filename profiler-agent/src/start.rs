//! The beginning: announces the program to the session, or joins the session.
//!
//! The loader calls [`start`] before the program's `main`, if the library is loaded with the
//! program. When it returns, the session knows the program, so a program that ends at once is in
//! the profile, too; it is recorded a little later ([`later`]). A library that is loaded later
//! joins when `mpprof_join` is called. It does not join inside `dlopen`: joining waits for new
//! threads, and in older C libraries a new thread waits for the lock that `dlopen` holds.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::panic::{catch_unwind, set_hook};
use std::time::Duration;

use profiler_child::{Announcement, Status};

use crate::errno::keeping_errno;
use crate::{forks, host, later, presence, replaced};

/// How long a thread waits for the session on which nothing of the program waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// The loader calls the functions of this section when it loads the library.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // Nothing here panics. If it did, the program would run without the profiler.
    let _ = keeping_errno(|| {
        catch_unwind(|| {
            replaced::find_originals();
            begin();
        })
    });
}

fn begin() {
    // The environment is read only here: the program may change it while it runs.
    if !host::is_loaded_at_start() || !host::is_profiled() || !may_record() {
        return;
    }
    presence::begin();
    let patience = host::join_wait();
    let address = host::session_address();
    match profiler_child::announce(patience) {
        Announcement::Decided(Status::Recording) => {
            forks::follow(forks::own_threads_at_start(), address);
        }
        // The session lists a process that it refuses, so the error needs no other report.
        Announcement::Decided(_) => {}
        Announcement::Made(announced) => later::begin(announced, patience, address),
    }
}

/// Joins the session whose address is in the environment, if there is one and the agent is allowed
/// to; waits until it is decided, if [`start`] has begun to join. Never panics.
pub(crate) fn join() {
    let _ = catch_unwind(|| {
        if later::is_pending() {
            later::settle();
        } else if host::is_profiled() && may_record() {
            presence::begin();
            let status = profiler_child::init_within(host::join_wait());
            follow_if_recording(&status, host::session_address);
        }
    });
}

/// Joins the session at this address, if the agent is allowed to. Reads no environment. Never
/// panics.
pub(crate) fn join_at(address: &str) {
    let _ = catch_unwind(|| {
        if later::is_pending() {
            later::settle();
        } else if may_record() {
            presence::begin();
            let status = profiler_child::init_at(address, PATIENCE);
            follow_if_recording(&status, || CString::new(address).ok());
        }
    });
}

/// Whether the agent is allowed in this process. From now on a panic of the profiler prints
/// nothing: the hook is that of this library's copy of the standard library, not of the program's.
fn may_record() -> bool {
    let may_record = !host::forbids();
    if may_record {
        set_hook(Box::new(|_| {}));
    }
    may_record
}

fn follow_if_recording(status: &Status, address: impl FnOnce() -> Option<CString>) {
    if matches!(status, Status::Recording) {
        forks::follow(0, address());
    }
}
