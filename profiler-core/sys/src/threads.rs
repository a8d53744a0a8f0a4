//! Quiet threads: named, with all signals of the host blocked.
//!
//! All threads of the profiler are made here. Invariant: a signal sent to the host process is
//! never delivered to one of them, so neither the host's handlers nor a sampler's signal can
//! interrupt the profiler's own waits. The exception is `SIGSYS`, for the I/O thread of a child.
//!
//! Each thread has [`OWN_BYTES`] of stack for its own functions. The C library takes static
//! thread-locals from a thread's stack, and a program may have megabytes of them, so their size is
//! added.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};

use super::address_space::check_address_space;
use super::descriptor_table::DescriptorTable;
use super::own_threads::OwnThread;

/// The stack size that a thread of ours has for its own functions.
/// `integration-tests/tests/large_thread_locals.rs` checks that every thread stays within it.
const OWN_BYTES: usize = 256 * 1024;
/// What a new thread maps besides its stack: guard pages, the alternate signal stack of the standard
/// library, which ends the process if it gets none, and thread-locals of libraries.
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
) -> io::Result<JoinHandle<T>> {
    spawn(name, OWN_BYTES, body)
}

/// Starts a quiet thread with as much stack as threads of the host have.
///
/// # Errors
/// When the system has no thread left.
pub fn spawn_quiet_for_host_code(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn(name, HOST_CODE_BYTES, body)
}

fn spawn<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A new thread inherits the mask of its maker, so the signals are blocked before its first
    // instruction; the maker's own mask is restored at once.
    let _masked = SignalsBlocked::new();
    let stack_bytes = with_libc_part(stack_bytes);
    check_address_space(stack_bytes.saturating_add(SPARE_BYTES))?;
    let table = DescriptorTable::current();
    let body = move || {
        let _own = OwnThread::enter();
        IS_QUIET.set(true);
        table.inherit();
        body()
    };
    Builder::new()
        .name(name.to_owned())
        .stack_size(stack_bytes)
        .spawn(body)
}

/// The size of a stack with this many bytes in addition to the C library's part. The standard
/// library takes the larger of the two, not their sum.
fn with_libc_part(bytes: usize) -> usize {
    static TAKEN: OnceLock<usize> = OnceLock::new();
    bytes.saturating_add(*TAKEN.get_or_init(taken_by_libc))
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
    let table = DescriptorTable::current();
    let body = || {
        let _own = OwnThread::enter();
        IS_QUIET.set(true);
        table.inherit();
        body()
    };
    std::thread::scope(|scope| {
        let masked = SignalsBlocked::new();
        let thread = Builder::new()
            .name(name.to_owned())
            .stack_size(stack)
            .spawn_scoped(scope, body)?;
        drop(masked);
        Ok(thread.join())
    })
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
