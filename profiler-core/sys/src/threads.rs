//! Quiet threads: named, with all signals of the host blocked.
//!
//! All threads of the profiler are made here. Invariant: a signal sent to the host process is
//! never delivered to one of them, so neither the host's handlers nor a sampler's signal can
//! interrupt the profiler's own waits. The exception is `SIGSYS`, for the I/O thread of a child.
//! They also start in a forked child, whatever the threads of its parent were doing at the fork: see
//! `native_thread`.
//!
//! Each thread has [`OWN_BYTES`] of stack for its own functions. The C library takes static
//! thread-locals from a thread's stack, and a program may have megabytes of them, so their size is
//! added.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::address_space::check_address_space;
use super::descriptor_table::DescriptorTable;
use super::native_thread::NativeThread;
use super::own_threads::OwnThread;

/// The stack size that a thread of ours has for its own functions.
/// `integration-tests/tests/large_thread_locals.rs` checks that every thread stays within it.
const OWN_BYTES: usize = 256 * 1024;
/// The longest name of a thread on Linux.
const MAX_NAME_BYTES: usize = 15;
/// What a new thread maps besides its stack: guard pages, and thread-locals of libraries.
const SPARE_BYTES: usize = 1 << 20;
/// The stack size of a thread that runs code of the host: the standard library's.
const HOST_CODE_BYTES: usize = 2 * 1024 * 1024;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of the profiler's own.
#[inline]
pub fn is_quiet_thread() -> bool {
    IS_QUIET.get()
}

/// Starts a thread with all signals blocked. The name is cut at 15 bytes by the system.
///
/// # Errors
/// When the system has no thread or no memory left.
pub fn spawn_quiet<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<QuietThread<T>> {
    spawn(name, OWN_BYTES, body)
}

/// Starts a quiet thread with as much stack as threads of the host have.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn_quiet_for_host_code(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<QuietThread<()>> {
    spawn(name, HOST_CODE_BYTES, body)
}

fn spawn<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<QuietThread<T>> {
    let result = Arc::new(Mutex::new(None));
    let quiet = quiet(name, body);
    let of_thread = Arc::clone(&result);
    let body = Box::new(move || {
        let returned = quiet();
        *of_thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
    });
    let _masked = SignalsBlocked::new();
    let stack_bytes = with_libc_part(stack_bytes);
    check_address_space(stack_bytes.saturating_add(SPARE_BYTES))?;
    let native = NativeThread::start(stack_bytes, body)?;
    Ok(QuietThread { native, result })
}

/// What a quiet thread of this name does. A panic of `body` is returned. The caller blocks all
/// signals while it starts the thread: a new thread inherits the mask of its maker, so they are
/// blocked before its first instruction.
fn quiet<T, F: FnOnce() -> T + Send>(
    name: &str,
    body: F,
) -> impl FnOnce() -> std::thread::Result<T> + Send + use<T, F> {
    let table = DescriptorTable::current();
    let mut shown = [0; MAX_NAME_BYTES + 1];
    let bytes = name.bytes().filter(|byte| *byte != 0);
    let places = shown.iter_mut().take(MAX_NAME_BYTES);
    places.zip(bytes).for_each(|(place, byte)| *place = byte);
    move || {
        if let Ok(name) = CStr::from_bytes_until_nul(&shown) {
            super::imp::name_current_thread(name);
        }
        catch_unwind(AssertUnwindSafe(|| {
            let _own = OwnThread::enter();
            IS_QUIET.set(true);
            table.inherit();
            body()
        }))
    }
}

/// A quiet thread that was started. Dropping it leaves the thread running.
#[derive(Debug)]
pub struct QuietThread<T> {
    native: NativeThread,
    /// What the thread has returned. The thread has the other reference until it has ended.
    result: Arc<Mutex<Option<std::thread::Result<T>>>>,
}

impl<T> QuietThread<T> {
    /// Waits until the thread has ended. Returns what it has returned.
    ///
    /// # Errors
    /// The panic of the thread.
    pub fn join(self) -> std::thread::Result<T> {
        self.native.join();
        let mut result = self.result.lock().unwrap_or_else(PoisonError::into_inner);
        result
            .take()
            .unwrap_or_else(|| Err(Box::new("the thread has returned nothing")))
    }

    /// Whether the thread has run to its end. It may exist a little longer.
    pub fn is_finished(&self) -> bool {
        Arc::strong_count(&self.result) == 1
    }

    /// Whether it is the calling thread, which cannot wait for itself.
    pub fn is_current(&self) -> bool {
        self.native.is_current()
    }
}

/// The size of a stack with this many bytes in addition to the C library's part. The standard
/// library takes the larger of the two for its threads, not their sum.
fn with_libc_part(bytes: usize) -> usize {
    /// The size, plus one; 0 before it is known. Not a lock, which a forked child might find held.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    let taken = match TAKEN.load(Ordering::Relaxed) {
        0 => {
            let taken = taken_by_libc();
            TAKEN.store(taken.saturating_add(1), Ordering::Relaxed);
            taken
        }
        known => known - 1,
    };
    bytes.saturating_add(taken)
}

/// The bytes of a new thread's stack that the C library takes for the thread's control block and
/// static thread-locals, plus the minimum that it leaves. 0 for a C library that adds them itself,
/// as musl does.
fn taken_by_libc() -> usize {
    type MinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> libc::size_t;
    // SAFETY: both arguments are valid; the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    if found.is_null() {
        return 0;
    }
    // SAFETY: glibc's function of this name has had this type since 2.15; the standard library
    // calls it the same way.
    let min_stack = unsafe { std::mem::transmute::<*mut libc::c_void, MinStack>(found) };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: initialises the attributes, which are ours.
    if unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: initialised attributes.
    let bytes = unsafe { min_stack(attributes.as_ptr()) };
    // SAFETY: initialised, and not used after this.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    bytes
}

/// Runs `body` on a thread with a stack of `stack` bytes and all signals blocked, and waits until
/// the thread has ended. The inner error is a panic of `body`. The system cuts the name at 15
/// bytes.
///
/// # Errors
/// When the system cannot start another thread; then `body` did not run.
pub fn run_quiet<T: Send>(
    name: &str,
    stack: usize,
    body: impl FnOnce() -> T + Send,
) -> io::Result<std::thread::Result<T>> {
    check_address_space(stack.saturating_add(SPARE_BYTES))?;
    let mut result = None;
    let quiet = quiet(name, body);
    let body: Box<dyn FnOnce() + Send + '_> = Box::new(|| result = Some(quiet()));
    // SAFETY: only the lifetime changes. `join` below waits for the thread, which is another one than
    // this, so what the body borrows lives longer; without a thread, the body is dropped by `start`.
    let body = unsafe {
        std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Box<dyn FnOnce() + Send>>(body)
    };
    let masked = SignalsBlocked::new();
    let thread = NativeThread::start(stack, body)?;
    drop(masked);
    thread.join();
    Ok(result.unwrap_or_else(|| Err(Box::new("the thread has returned nothing"))))
}

struct SignalsBlocked(Option<libc::sigset_t>);

impl SignalsBlocked {
    fn new() -> Self {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset initialises the set it is given.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both pointers are to sets that live through the call.
        let failed =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) };
        if failed != 0 {
            return Self(None);
        }
        // SAFETY: on success the old mask has been written.
        Self(Some(unsafe { old.assume_init() }))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(old) = &self.0 {
            // SAFETY: `old` is a mask that the system returned.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library makes an alternate stack where it takes its locks.
    #[test]
    fn a_thread_begins_without_the_locks_of_the_standard_library() {
        let has_alternate_stack = || {
            let mut stack = MaybeUninit::<libc::stack_t>::uninit();
            // SAFETY: a null new stack only reads the current one into `stack`.
            unsafe { libc::sigaltstack(std::ptr::null(), stack.as_mut_ptr()) };
            // SAFETY: written by the call above, which cannot fail with these arguments.
            unsafe { stack.assume_init() }.ss_flags & libc::SS_DISABLE == 0
        };
        let of_library = std::thread::scope(|scope| scope.spawn(has_alternate_stack).join());
        let spawned = spawn_quiet("quiet", has_alternate_stack).unwrap().join();
        let run = run_quiet("quiet", OWN_BYTES, has_alternate_stack).unwrap();
        assert_eq!(
            [of_library, spawned, run].map(Result::unwrap),
            [true, false, false]
        );
    }

    #[test]
    fn a_thread_returns_its_result_or_its_panic_and_has_its_name() {
        let name = || {
            let comm = std::fs::read_to_string("/proc/thread-self/comm");
            comm.map(|name| name.trim().to_owned()).unwrap_or_default()
        };
        let thread = spawn_quiet("a long name of a thread", name).unwrap();
        assert!(!thread.is_current());
        let seen = thread.join().unwrap();
        if cfg!(target_os = "linux") {
            assert_eq!(seen, "a long name of");
        }
        let panicked = spawn_quiet::<()>("panics", || panic!("as told")).unwrap();
        let panic = panicked.join().unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as told"));
        let mut text = String::new();
        let length = run_quiet("borrows", OWN_BYTES, || {
            text.push('a');
            text.len()
        });
        assert_eq!((length.unwrap().unwrap(), text.as_str()), (1, "a"));
    }

    #[test]
    fn a_thread_is_finished_after_its_end_and_can_be_left_running() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = spawn_quiet("waits", move || ended.recv().is_err()).unwrap();
        assert!(!thread.is_finished());
        drop(end);
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        assert!(thread.join().unwrap());
        let (sent, receiver) = std::sync::mpsc::channel();
        drop(spawn_quiet("left", move || sent.send(1)).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
    }

    #[test]
    fn the_thread_blocks_all_signals_and_the_maker_does_not() {
        let blocked = || {
            let mut set = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: a null new mask only reads the current one into `set`.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
            // SAFETY: written by the call above, which cannot fail with these arguments.
            unsafe { libc::sigismember(set.as_ptr(), libc::SIGURG) == 1 }
        };
        let inside = spawn_quiet("quiet", blocked).unwrap().join().unwrap();
        assert!(inside);
        assert!(!blocked());
    }
}
