//! Forked children that execute no other program: workers of servers, processes of a pool.
//!
//! The recorder of the parent process cannot continue in a forked child: its threads and its memory
//! are not there. So the child loads another copy of the agent, from a file of its own, whose
//! statics and thread-locals are new; it joins the session like a program that begins. `forks/N`
//! beside the library contains the copy for the N-th generation; without such a file, forked
//! children are not recorded.
//!
//! ```text
//! fork ─▶ handler in the child: starts a thread ─▶ waits PAUSE ─▶ dlopen(next copy) ─▶
//!            │                                      │               mpprof_join_session
//!            └─ the program goes on at once         └─ an exec ends the thread
//! ```
//!
//! Only children of programs that have one thread of their own load a copy ([`loading`]). After a
//! fork in a program with several threads, only async-signal-safe functions are allowed in the
//! child, because other threads may have held locks. Invariants: the handlers read and write
//! atomics, and call `stat`, `nanosleep`, `pthread_sigmask` and `pthread_create`, of which only the
//! last one may allocate; they keep `errno`; a failure leaves the child unrecorded. The thread does
//! not read the environment, which the program may change at the same time: it passes the address
//! of the session on.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use profiler_core::session;
use profiler_sys::own_thread_count;

use crate::errno::keeping_errno;
use crate::loading;

const FILE_NAME: &str = "libprofiler_agent.so";
/// The directory of the copies, beside the library.
const COPIES: &str = "forks";

/// Whether forked children are to join.
static FOLLOWS: AtomicBool = AtomicBool::new(false);
/// Whether the program had one thread when the latest fork began.
static IS_ALONE: AtomicBool = AtomicBool::new(false);
/// The profiler's threads when the program begins: some of them may not be in the profiler's list
/// yet when the program forks at once.
static OURS_AT_START: AtomicUsize = AtomicUsize::new(0);
/// Lets forked children join the session at `address`. Called once, when this process records or
/// will record. `ours` is the number of the profiler's threads when the program begins; 0 if it has
/// begun. Allocates; what it allocates stays.
pub(crate) fn follow(ours: usize, address: Option<CString>) {
    OURS_AT_START.store(ours, Ordering::Relaxed);
    let Some(address) = address else { return };
    let Some(path) = own_path().and_then(|path| next_copy(&path)) else {
        return;
    };
    let Ok(path) = CString::new(path.into_os_string().into_vec()) else {
        return;
    };
    loading::prepare(path, address);
    FOLLOWS.store(true, Ordering::Release);
    // SAFETY: the handlers are static functions of a library that is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
}

/// Lets no forked child join from now on: this process does not record after all.
pub(crate) fn follow_no_longer() {
    FOLLOWS.store(false, Ordering::Release);
}

/// The file from which this library was loaded.
fn own_path() -> Option<PathBuf> {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    let own = follow as *const () as *const c_void;
    // SAFETY: the loader writes into a local of that type.
    let found = unsafe { libc::dladdr(own, about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the loader has written.
    let name = unsafe { about.assume_init() }.dli_fname;
    if found == 0 || name.is_null() {
        return None;
    }
    // SAFETY: a name of the loader, which stays as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    path.canonicalize().ok()
}

/// The copy that the children of a process with the library `own` load, if there is one.
fn next_copy(own: &Path) -> Option<PathBuf> {
    let directory = own.parent()?;
    let number: Option<u32> = directory
        .file_name()
        .and_then(|name| name.to_str()?.parse().ok());
    let is_copy = directory.parent().and_then(Path::file_name) == Some(COPIES.as_ref());
    let copies = match number.filter(|_| is_copy) {
        Some(number) => directory
            .parent()?
            .join((number.checked_add(1)?).to_string()),
        None => directory.join(COPIES).join("1"),
    };
    Some(copies.join(FILE_NAME)).filter(|copy| copy.exists())
}

/// Notes whether the program has one thread. Called in the forking process.
extern "C" fn before_fork() {
    keeping_errno(|| {
        loading::hold_off();
        let ours = if session::is_forked() {
            loading::threads() // the list of the profiler's threads is the parent's
        } else {
            listed()
        };
        let is_followed = FOLLOWS.load(Ordering::Acquire) && !profiler_child::session_is_over();
        let is_alone = is_followed && threads() <= ours.saturating_add(1);
        IS_ALONE.store(is_alone, Ordering::Relaxed);
    });
}

/// The number of the profiler's threads in a process that is no forked child.
fn listed() -> usize {
    let listed = own_thread_count();
    let at_start = OURS_AT_START.load(Ordering::Relaxed);
    if listed >= at_start {
        OURS_AT_START.store(0, Ordering::Relaxed); // from now on the list is complete
    }
    listed.max(at_start)
}

/// Whether the program may have one thread. In a forked child that is not known, because the
/// threads of a copy are in the list of that copy.
pub(crate) fn is_alone_but_for_us() -> bool {
    session::is_forked() || threads() <= listed().saturating_add(1)
}

/// The number of the profiler's threads, while the program has not begun and so has one thread.
pub(crate) fn own_threads_at_start() -> usize {
    threads().saturating_sub(1)
}

/// The number of threads of this process; the largest number if the system does not tell it.
fn threads() -> usize {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a zero, and the system writes into a local of that type.
    let failed = unsafe { libc::stat(c"/proc/self/task".as_ptr(), about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the system has written.
    let links = unsafe { about.assume_init() }.st_nlink;
    if failed != 0 {
        return usize::MAX;
    }
    // A directory has two links, and one for each directory in it.
    usize::try_from(links).map_or(usize::MAX, |links| links.saturating_sub(2))
}

/// Ends the fork in the forking process.
extern "C" fn after_fork() {
    loading::let_load();
}

/// Starts the thread that loads the next copy. Called in the forked child.
extern "C" fn in_child() {
    let is_alone = IS_ALONE.load(Ordering::Relaxed);
    keeping_errno(|| loading::begin_in_child(is_alone));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_has_its_copy_while_there_are_files() {
        let place = std::env::temp_dir().join(format!("agent-forks-{}", std::process::id()));
        let library = |directory: &str| place.join(directory).join(FILE_NAME);
        for directory in ["", "forks/1", "forks/2"] {
            std::fs::create_dir_all(place.join(directory)).unwrap();
            std::fs::write(library(directory), "").unwrap();
        }
        assert_eq!(next_copy(&library("")), Some(library("forks/1")));
        assert_eq!(next_copy(&library("forks/1")), Some(library("forks/2")));
        assert_eq!(next_copy(&library("forks/2")), None);
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn the_threads_of_this_process_are_counted() {
        // Other tests start threads meanwhile, so the two sources are read until they agree.
        let agree = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Threads:"));
            line.and_then(|number| number.trim().parse().ok()) == Some(threads())
        };
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || ended.recv());
        assert!((0..10_000).any(|_| agree()));
        drop(end);
        let _ = thread.unwrap().join().unwrap();
        assert!((0..10_000).any(|_| agree()));
    }

    #[test]
    fn this_program_has_a_path() {
        assert!(own_path().is_some_and(|path| path.is_absolute()));
    }
}
