//! The thread of a forked child that loads the next copy of the agent.
//!
//! Started by the handlers of [`crate::forks`]. Invariants: a copy is loaded once in a process; no
//! fork happens while it is being loaded, because the forked process would have a half-loaded
//! library; it is loaded only while the root directory is the one in which the program began. What
//! the handlers call reads and writes atomics and makes system calls, except `pthread_create`;
//! [`give_up`], which they do not call, takes locks and waits.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::Duration;

use profiler_sys::leave_program_table;

use crate::presence;

/// How long a forked child waits before it loads a copy: most children execute another program
/// before.
static PAUSE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
/// How long a thread waits between two looks.
const LOOK: Duration = Duration::from_micros(100);
/// The looks of a fork for which it waits for the end of the loading: about a second.
const LOOKS_OF_FORK: u32 = 10_000;
const WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// The path of the next copy; null if there is none, or if this process has loaded it.
static NEXT_COPY: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The address of the session; null if it is not known.
static ADDRESS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The root directory in which the program began: device and inode.
static ROOT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The threads in this process that wait or load a copy: at most 1.
static LOADERS: AtomicUsize = AtomicUsize::new(0);
/// The number of this thread; 0 if it has not begun.
static LOADER: AtomicI32 = AtomicI32::new(0);
/// Whether a copy is being loaded.
static IS_LOADING: AtomicBool = AtomicBool::new(false);
/// The threads that are within a fork.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// 1 if that thread is to load nothing. The thread waits for a change of the word.
static IS_GIVEN_UP: AtomicU32 = AtomicU32::new(0);
/// The function `mpprof_leave` of the copy that this process has loaded; null if there is none.
static LEAVE_COPY: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Notes which copy forked children load, and which session they join. What is noted stays.
pub(crate) fn prepare(path: CString, address: CString) {
    for (noted, now) in ROOT.iter().zip(root()) {
        noted.store(now, Ordering::Relaxed);
    }
    ADDRESS.store(address.into_raw(), Ordering::Release);
    NEXT_COPY.store(path.into_raw(), Ordering::Release);
}

/// Device and inode of the root directory; zeros if the system does not tell them.
fn root() -> [u64; 2] {
    let mut about = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a zero, and the system writes into a local of that type.
    unsafe { libc::stat(c"/".as_ptr(), about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the system has written.
    let about = unsafe { about.assume_init() };
    [about.st_dev, about.st_ino]
}

/// The threads in this process that wait or load a copy.
pub(crate) fn threads() -> usize {
    LOADERS.load(Ordering::Acquire)
}

/// Waits for the end of the loading, and lets none begin. Called before a fork.
pub(crate) fn hold_off() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    for _ in 0..LOOKS_OF_FORK {
        if !IS_LOADING.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// Lets the loading begin again. Called in the forking process after the fork.
pub(crate) fn let_load() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Begins to load, while no thread is within a fork.
fn begin_to_load() {
    loop {
        IS_LOADING.store(true, Ordering::SeqCst);
        if FORKING.load(Ordering::SeqCst) == 0 {
            return;
        }
        IS_LOADING.store(false, Ordering::SeqCst);
        std::thread::sleep(LOOK);
    }
}

/// In the forked child: starts the thread, if the program `is_alone` there.
pub(crate) fn begin_in_child(is_alone: bool) {
    FORKING.store(0, Ordering::Relaxed);
    LOADERS.store(0, Ordering::Relaxed);
    LOADER.store(0, Ordering::Relaxed);
    // It waited in vain for the end of the loading: the library is half loaded here.
    let is_broken = IS_LOADING.load(Ordering::Relaxed);
    let has_copy = !NEXT_COPY.load(Ordering::Acquire).is_null();
    if !LEAVE_COPY.load(Ordering::Acquire).is_null() {
        presence::begin(); // the copy may follow this fork
    }
    if has_copy && is_alone && !is_broken {
        presence::begin();
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
    // SAFETY: a thread that is never joined.
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
    pause();
    // The program may close all descriptors, and put files under any number, while the loader reads
    // the copy. An error: the thread stays in the program's table.
    let _ = leave_program_table(&[]);
    begin_to_load();
    let copy = load_copy();
    IS_LOADING.store(false, Ordering::SeqCst);
    if !copy.is_null() && !is_given_up() {
        join_in(copy);
    }
    LOADERS.store(0, Ordering::Release);
    ptr::null_mut()
}

/// The loaded copy; null if there is none.
fn load_copy() -> *mut c_void {
    // Taken before it is loaded: processes that are forked from now on do not load it again.
    let path = NEXT_COPY.swap(ptr::null_mut(), Ordering::AcqRel);
    let noted = ROOT.each_ref().map(|noted| noted.load(Ordering::Relaxed));
    if path.is_null() || is_given_up() || root() != noted {
        return ptr::null_mut();
    }
    // SAFETY: the path of a file, which ends with a zero and is never freed. Its functions that run
    // now are those of this library.
    let copy = unsafe { libc::dlopen(path, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !copy.is_null() {
        // SAFETY: the handle of a loaded library, and a name that ends with a zero.
        let leave = unsafe { libc::dlsym(copy, c"mpprof_leave".as_ptr()) };
        LEAVE_COPY.store(leave, Ordering::Release);
    }
    copy
}

/// Lets a copy join. Not while it is being loaded: joining waits for new threads, and a thread may
/// need a lock of the loader.
fn join_in(copy: *mut c_void) {
    type Join = unsafe extern "C" fn(*const c_char) -> libc::c_int;
    // SAFETY: the handle of a loaded library, and a name that ends with a zero.
    let join = unsafe { libc::dlsym(copy, c"mpprof_join_session".as_ptr()) };
    let address = ADDRESS.load(Ordering::Acquire);
    if !join.is_null() && !address.is_null() {
        // SAFETY: the copy is the same library as this one, in which the function has this type.
        let join: Join = unsafe { std::mem::transmute(join) };
        // SAFETY: the address ends with a zero and is never freed.
        unsafe { join(address) };
    }
}

/// Lets this process, which may be a forked child, load no copy, and ends the recording by one.
/// Waits for at most `patience` for the thread.
pub(crate) fn give_up(patience: Duration) {
    IS_GIVEN_UP.store(1, Ordering::Release);
    wake();
    leave_copy();
    let mut looks = 0..patience.as_micros() / LOOK.as_micros();
    while exists() && looks.next().is_some() {
        std::thread::sleep(LOOK);
    }
    leave_copy(); // it may have been loaded meanwhile
}

fn is_given_up() -> bool {
    IS_GIVEN_UP.load(Ordering::Acquire) != 0
}

/// Whether the thread exists.
fn exists() -> bool {
    let loader = LOADER.load(Ordering::Acquire);
    let own = std::process::id().cast_signed();
    // SAFETY: sends no signal, only asks whether there is such a thread.
    let is_known = || unsafe { libc::syscall(libc::SYS_tgkill, own, loader, 0) } == 0;
    threads() != 0 || (loader != 0 && is_known())
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

fn wake() {
    let word = IS_GIVEN_UP.as_ptr();
    // SAFETY: the word is static; wakes one thread that waits for it.
    unsafe { libc::syscall(libc::SYS_futex, word, WAKE, 1) };
}

/// Waits for [`PAUSE`], or until [`give_up`] is called. An early end is harmless.
fn pause() {
    let word = IS_GIVEN_UP.as_ptr();
    let most = &raw const PAUSE;
    // SAFETY: the word and the time are static.
    unsafe { libc::syscall(libc::SYS_futex, word, WAIT, 0, most) };
}

#[cfg(test)]
mod tests {
    use profiler_sys::spawn_quiet;

    use super::*;

    #[test]
    fn nothing_is_loaded_within_a_fork() {
        hold_off();
        let loading = spawn_quiet("loading", begin_to_load).unwrap();
        let until = |is_true: &dyn Fn() -> bool| {
            while !is_true() {
                std::thread::yield_now();
            }
        };
        // It tries, and takes its try back.
        until(&|| IS_LOADING.load(Ordering::SeqCst));
        until(&|| !IS_LOADING.load(Ordering::SeqCst));
        assert!(!loading.is_finished());
        let_load();
        loading.join().unwrap();
        assert!(IS_LOADING.load(Ordering::SeqCst));
        let forking = spawn_quiet("forking", hold_off).unwrap();
        until(&|| FORKING.load(Ordering::SeqCst) == 1);
        IS_LOADING.store(false, Ordering::SeqCst);
        forking.join().unwrap();
        let_load();
    }

    #[test]
    fn the_root_directory_is_known() {
        assert_ne!(root(), [0, 0]);
    }
}
