//! Forked children that execute no other program: workers of servers, processes of a pool.
//!
//! The recorder of the parent process cannot continue in a forked child: its threads and its memory
//! are not there. So the child loads another copy of the agent, from a file of its own (`copies`),
//! whose statics and thread-locals are new; it joins the session like a program that begins. Without
//! such a file, forked children are not recorded.
//!
//! ```text
//! fork ─▶ handler in the child: starts a thread ─▶ waits PAUSE ─▶ dlopen(next copy) ─▶
//!            │                                      │               profiler_join_session
//!            └─ the program goes on at once         └─ an exec ends the thread
//! ```
//!
//! Only children of programs that have one thread of their own load a copy. After a fork in a
//! program with several threads, only async-signal-safe functions are allowed in the child, because
//! other threads may have held locks. For the same reason, a fork during the load of a copy waits
//! for the load, for a limited time (`fork_gate`), and each process tries to load one copy only.
//!
//! Invariants: the handlers read and write atomics, and call `stat`, `nanosleep`, `pthread_sigmask`
//! and `pthread_create`; `errno` stays; a failure leaves the child unrecorded. They allocate
//! nothing: other handlers, which may come later, free the locks of an allocator. The new thread
//! has the stack, with its thread-locals, of one of the profiler's threads that the child does not
//! have: the C library keeps these, and takes one of the right size. The thread does not read the
//! environment, which the program may change at the same time: it passes the address of the session
//! on.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use profiler_core::internal::sys::{own_thread_count, quiet_stack_bytes};
use profiler_core::session;

use crate::copies;
use crate::fork_gate::ForkGate;
use crate::guard::keep_errno;

/// How long a forked child waits before it loads a copy: most children execute another program
/// before.
static PAUSE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// The address of the session; null if it is not known.
static ADDRESS: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// Whether forked children are to join.
static FOLLOWS: AtomicBool = AtomicBool::new(false);
/// Whether this process has begun to record, or a process from which it was forked.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// Whether the latest fork is to be followed, and the program had one thread when it began.
static IS_ALONE: AtomicBool = AtomicBool::new(false);
/// The profiler's threads when the program begins: some of them may not be in the profiler's list
/// yet when the program forks at once. 0 once the list has contained that many.
static OURS_AT_START: AtomicUsize = AtomicUsize::new(0);
/// The threads in this process that wait or load a copy: at most 1.
static LOADERS: AtomicUsize = AtomicUsize::new(0);
/// The size of the stack of the thread that loads a copy.
static STACK_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Forks pass it; it is closed while a copy is loaded.
static GATE: ForkGate = ForkGate::new();

/// Lets forked children join the session at `address`. Called once, when this process records or
/// will record. `ours` is the number of the profiler's threads when the program begins; 0 if it has
/// begun. Allocates; what it allocates stays.
pub(crate) fn follow(ours: usize, address: Option<CString>) {
    OURS_AT_START.store(ours, Ordering::Relaxed);
    let Some(address) = address else { return };
    if !copies::find_next() {
        return;
    }
    STACK_BYTES.store(quiet_stack_bytes(), Ordering::Relaxed);
    ADDRESS.store(address.into_raw(), Ordering::Release);
    FOLLOWS.store(true, Ordering::Release);
    // SAFETY: the handlers are static functions of a library that is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
}

/// Lets no forked child join from now on: this process does not record after all.
pub(crate) fn follow_no_longer() {
    FOLLOWS.store(false, Ordering::Release);
}

/// Lets forked children join only while the session runs: this process records now.
pub(crate) fn follow_while_recording() {
    HAS_BEGUN.store(true, Ordering::Release);
}

/// Whether a forked child is to join.
fn is_followed() -> bool {
    FOLLOWS.load(Ordering::Acquire)
        && copies::has_next()
        // A forked child that has no copy yet knows what was true at its fork.
        && (!HAS_BEGUN.load(Ordering::Acquire) || session::is_forked() || session::is_active())
}

/// The number of the profiler's threads, at least.
fn own_threads() -> usize {
    if session::is_forked() {
        return LOADERS.load(Ordering::Relaxed); // the profiler's list is that of the parent
    }
    let listed = own_thread_count();
    let at_start = OURS_AT_START.load(Ordering::Relaxed);
    if listed >= at_start {
        OURS_AT_START.store(0, Ordering::Relaxed);
    }
    listed.max(at_start)
}

/// Notes whether the program has one thread. Called in the forking process.
extern "C" fn before_fork() {
    keep_errno(|| {
        let is_apart = GATE.enter();
        let is_alone = is_followed() && threads() <= own_threads().saturating_add(1);
        IS_ALONE.store(is_apart && is_alone, Ordering::Relaxed);
    });
}

/// Called in the forking process when the fork is over.
extern "C" fn in_parent() {
    GATE.leave();
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

/// Starts the thread that loads the next copy. Called in the forked child. A child that does not
/// load a copy does not let its own children load one.
extern "C" fn in_child() {
    GATE.forget();
    LOADERS.store(0, Ordering::Relaxed);
    if IS_ALONE.load(Ordering::Relaxed) {
        keep_errno(|| with_signals_blocked(start_loader));
    } else {
        FOLLOWS.store(false, Ordering::Relaxed);
    }
}

fn start_loader() {
    LOADERS.store(1, Ordering::Relaxed);
    if !start_thread(load) {
        LOADERS.store(0, Ordering::Relaxed);
    }
}

/// Starts a thread that nobody joins, with a stack of [`STACK_BYTES`]. Returns whether it did.
fn start_thread(body: extern "C" fn(*mut c_void) -> *mut c_void) -> bool {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
    // SAFETY: initialises a local.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return false;
    }
    let bytes = STACK_BYTES.load(Ordering::Relaxed);
    // SAFETY: initialised above. A size that the system refuses leaves its usual one.
    unsafe { libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes) };
    // SAFETY: initialised above.
    unsafe {
        libc::pthread_attr_setdetachstate(attributes.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
    }
    let mut thread = MaybeUninit::<libc::pthread_t>::zeroed();
    // SAFETY: the function is static, its argument is not used, the attributes are initialised, and
    // the number of the thread is written into a local of that type.
    let failed = unsafe {
        libc::pthread_create(
            thread.as_mut_ptr(),
            attributes.as_ptr(),
            body,
            ptr::null_mut(),
        )
    };
    // SAFETY: initialised above, and not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    failed == 0
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
    // SAFETY: reads a static value. An early end of the pause is harmless.
    unsafe { libc::nanosleep(&raw const PAUSE, ptr::null_mut()) };
    let copy = load_apart();
    if !copy.is_null() {
        join_in(copy);
    }
    LOADERS.store(0, Ordering::Relaxed);
    ptr::null_mut()
}

/// Loads the next copy while no fork is in progress. Null if it does not.
fn load_apart() -> *mut c_void {
    if !GATE.close() {
        return ptr::null_mut();
    }
    // From here on, no child of this process loads the same copy.
    let copy = copies::take_next().map_or(ptr::null_mut(), |path| {
        // SAFETY: the path ends with a zero. The functions of the copy that run now are those of
        // this library.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    });
    GATE.open();
    copy
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
    fn the_threads_of_this_process_are_counted() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().spawn(move || ended.recv());
        assert!(threads() >= 2);
        drop(end);
        let _ = thread.unwrap().join().unwrap();
    }

    #[test]
    fn the_profilers_threads_of_the_start_count_until_they_are_listed() {
        OURS_AT_START.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(own_threads(), usize::MAX);
        OURS_AT_START.store(0, Ordering::Relaxed);
        assert!(own_threads() < usize::MAX);
    }
}
