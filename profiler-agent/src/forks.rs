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
//!            │                                      │               profiler_join_session
//!            └─ the program goes on at once         └─ an exec ends the thread
//! ```
//!
//! Only children of programs that have one thread of their own load a copy. After a fork in a
//! program with several threads, only async-signal-safe functions are allowed in the child, because
//! other threads may have held locks. Invariants: the handlers read and write atomics, and call
//! `stat`, `pthread_sigmask` and `pthread_create`; they allocate nothing themselves; a failure
//! leaves the child unrecorded; [`give_up`], which the handlers do not call, takes locks and waits.
//! The thread does not read the environment, which the program may
//! change at the same time: it passes the address of the session on.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use profiler_core::internal::sys::own_thread_count;
use profiler_core::session;

use crate::leaving;

/// How long a forked child waits before it loads a copy: most children execute another program
/// before.
static PAUSE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
/// How long [`give_up`] waits between two looks.
const LOOK: Duration = Duration::from_micros(100);

const FILE_NAME: &str = "libprofiler_agent.so";
/// The directory of the copies, beside the library.
const COPIES: &str = "forks";

/// The path of the next copy; null if there is none, or if this copy follows forks no longer.
static NEXT_COPY: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The address of the session; null if it is not known.
static ADDRESS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// Whether forked children are to join.
static FOLLOWS: AtomicBool = AtomicBool::new(false);
/// Whether the program had one thread when the latest fork began.
static IS_ALONE: AtomicBool = AtomicBool::new(false);
/// The profiler's threads when the program begins: some of them may not be in the profiler's list
/// yet when the program forks at once.
static OURS_AT_START: AtomicUsize = AtomicUsize::new(0);
/// The threads in this process that wait or load a copy: at most 1.
static LOADERS: AtomicUsize = AtomicUsize::new(0);

/// The number of the latest of these threads; 0 if it has not begun.
static LOADER: AtomicI32 = AtomicI32::new(0);
/// 1 if that thread is to load nothing. The thread waits for a change of the word.
static IS_GIVEN_UP: AtomicU32 = AtomicU32::new(0);
/// The function `profiler_leave` of the copy that this process has loaded; null if there is none.
static LEAVE_COPY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

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
    ADDRESS.store(address.into_raw(), Ordering::Release);
    NEXT_COPY.store(path.into_raw(), Ordering::Release);
    FOLLOWS.store(true, Ordering::Release);
    // SAFETY: the handlers are static functions of a library that is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(in_child)) };
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
    let ours = if session::is_forked() {
        LOADERS.load(Ordering::Relaxed) // the list of the profiler's threads is the parent's
    } else {
        listed()
    };
    let is_followed = FOLLOWS.load(Ordering::Acquire);
    let is_alone = is_followed && threads() <= ours.saturating_add(1);
    IS_ALONE.store(is_alone, Ordering::Relaxed);
}

/// The number of the profiler's threads in a process that is no forked child.
fn listed() -> usize {
    own_thread_count().max(OURS_AT_START.load(Ordering::Relaxed))
}

/// Whether the program may have one thread. In a forked child that is not known, because the
/// threads of a copy are in the list of that copy.
pub(crate) fn is_alone_but_for_us() -> bool {
    session::is_forked() || threads() <= listed().saturating_add(1)
}

/// Lets neither this process, which may be a forked child, nor its forked children join, and ends
/// the recording by a copy. Waits for at most `patience` for the thread that loads it.
pub(crate) fn give_up(patience: Duration) {
    follow_no_longer();
    IS_GIVEN_UP.store(1, Ordering::Release);
    wake_loader();
    leave_copy();
    let looks = patience.as_micros() / LOOK.as_micros();
    let mut looks = 0..looks;
    while is_loading() && looks.next().is_some() {
        std::thread::sleep(LOOK);
    }
    leave_copy(); // it may have been loaded meanwhile
}

/// Whether the thread that loads a copy exists.
fn is_loading() -> bool {
    let loader = LOADER.load(Ordering::Acquire);
    let own = std::process::id().cast_signed();
    // SAFETY: sends no signal, only asks whether there is such a thread.
    let exists = || unsafe { libc::syscall(libc::SYS_tgkill, own, loader, 0) } == 0;
    LOADERS.load(Ordering::Acquire) != 0 || (loader != 0 && exists())
}

fn leave_copy() {
    type Leave = unsafe extern "C" fn();
    let leave = LEAVE_COPY.load(Ordering::Acquire);
    if !leave.is_null() {
        // SAFETY: the copy is the same library as this one, in which the function has this type.
        let leave = unsafe { std::mem::transmute::<*mut c_void, Leave>(leave) };
        // SAFETY: any thread may call it outside of a signal handler.
        unsafe { leave() };
    }
}

fn wake_loader() {
    let word = IS_GIVEN_UP.as_ptr();
    // SAFETY: the word is static; wakes one thread that waits for it.
    unsafe { libc::syscall(libc::SYS_futex, word, WAKE, 1) };
}

/// Waits for [`PAUSE`], or until [`wake_loader`] is called. An early end of the pause is harmless.
fn pause_loader() {
    let word = IS_GIVEN_UP.as_ptr();
    let most = &raw const PAUSE;
    // SAFETY: the word and the time are static.
    unsafe { libc::syscall(libc::SYS_futex, word, WAIT, 0, most) };
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

/// Starts the thread that loads the next copy. Called in the forked child.
extern "C" fn in_child() {
    LOADERS.store(0, Ordering::Relaxed);
    LOADER.store(0, Ordering::Relaxed);
    if !LEAVE_COPY.load(Ordering::Acquire).is_null() {
        leaving::enter(); // the copy may follow this fork
    }
    if !NEXT_COPY.load(Ordering::Acquire).is_null() && IS_ALONE.load(Ordering::Relaxed) {
        leaving::enter();
        with_signals_blocked(start_loader);
    }
}

fn start_loader() {
    LOADERS.store(1, Ordering::Relaxed);
    let mut thread = MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: the function is static, its argument is not used, and the number of the thread is
    // written into a local of that type.
    let failed =
        unsafe { libc::pthread_create(thread.as_mut_ptr(), ptr::null(), load, ptr::null_mut()) };
    if failed != 0 {
        return LOADERS.store(0, Ordering::Relaxed);
    }
    // SAFETY: the call above has written the number.
    let thread = unsafe { thread.assume_init() };
    // SAFETY: a thread that nobody joins.
    unsafe { libc::pthread_detach(thread) };
}

/// Runs `body` with all signals blocked, so that a new thread handles none of the program's.
fn with_signals_blocked(body: impl FnOnce()) {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises a local set.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both sets are locals; the first is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    body();
    // SAFETY: the set that the call above has written.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

/// Loads the next copy, which joins the session. From then on that copy follows forks.
extern "C" fn load(_: *mut c_void) -> *mut c_void {
    // SAFETY: returns a number.
    LOADER.store(unsafe { libc::gettid() }, Ordering::Release);
    pause_loader();
    if IS_GIVEN_UP.load(Ordering::Acquire) == 0 {
        load_copy();
    }
    LOADERS.store(0, Ordering::Release);
    ptr::null_mut()
}

fn load_copy() {
    let path = NEXT_COPY.load(Ordering::Acquire);
    // SAFETY: the path of a file, which ends with a zero and is never freed. Its functions that run
    // now are those of this library.
    let copy = unsafe { libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if copy.is_null() {
        return;
    }
    NEXT_COPY.store(ptr::null_mut(), Ordering::Release);
    // SAFETY: the handle of a loaded library, and a name that ends with a zero.
    let leave = unsafe { libc::dlsym(copy, c"profiler_leave".as_ptr()) };
    LEAVE_COPY.store(leave, Ordering::Release);
    if IS_GIVEN_UP.load(Ordering::Acquire) == 0 {
        join_in(copy);
    }
}

/// Lets a copy join. Not while it is being loaded: joining waits for new threads, and a thread may
/// need a lock of the loader.
fn join_in(copy: *mut c_void) {
    type Join = unsafe extern "C" fn(*const c_char) -> libc::c_int;
    // SAFETY: the handle of a loaded library, and a name that ends with a zero.
    let join = unsafe { libc::dlsym(copy, c"profiler_join_session".as_ptr()) };
    let address = ADDRESS.load(Ordering::Acquire);
    if !join.is_null() && !address.is_null() {
        // SAFETY: the copy is the same library as this one, in which the function has this type.
        let join: Join = unsafe { std::mem::transmute(join) };
        // SAFETY: the address ends with a zero and is never freed.
        unsafe { join(address) };
    }
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
