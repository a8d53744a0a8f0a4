//! A thread that `pthread_create` starts.
//!
//! Used by `threads`. A thread of the standard library takes static locks of that library when it
//! begins and when it ends, for its handler of stack overflows. In a forked child, such a lock is
//! held forever if another thread of the parent held it at the fork, and a thread that the child
//! starts in this way never runs. A thread of this module takes none of them, and it has no
//! alternate stack for signals. `pthread_create` itself works in forked children.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

type Body = Box<dyn FnOnce() + Send>;

/// A thread that was started and not joined. Dropping it leaves the thread running.
#[derive(Debug)]
pub(super) struct NativeThread(libc::pthread_t);

// SAFETY: on every system, all threads of a process may use the value, a number or an address, to
// join or detach the thread.
unsafe impl Send for NativeThread {}
// SAFETY: as above; through a shared reference the value is only compared.
unsafe impl Sync for NativeThread {}

impl NativeThread {
    /// Starts a thread with a stack of at least this size. `body` must not unwind: that ends the
    /// process.
    ///
    /// # Errors
    /// When the system has no thread or memory left. Then `body` is dropped.
    pub(super) fn start(stack_bytes: usize, body: Body) -> io::Result<Self> {
        let attributes = Attributes::with_stack(stack_bytes)?;
        // One word, which is what a thread is passed.
        let body = Box::into_raw(Box::new(body));
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: the attributes are initialised. `run` takes the box over if the call succeeds.
        let error = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                &raw const attributes.0,
                run,
                body.cast(),
            )
        };
        if error != 0 {
            // SAFETY: made by `into_raw`, and no thread has taken it over.
            drop(unsafe { Box::from_raw(body) });
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: written by the call that succeeded.
        Ok(Self(unsafe { thread.assume_init() }))
    }

    /// Waits until the thread has ended, with the destructors of its thread-locals. Returns at once
    /// if it is the calling thread.
    pub(super) fn join(self) {
        // SAFETY: the thread is neither joined nor detached, because both consume the value.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
        std::mem::forget(self);
    }

    /// Whether it is the calling thread.
    pub(super) fn is_current(&self) -> bool {
        // SAFETY: has no preconditions.
        let own = unsafe { libc::pthread_self() };
        // SAFETY: the thread is not joined, so its value is not reused.
        unsafe { libc::pthread_equal(self.0, own) != 0 }
    }
}

impl Drop for NativeThread {
    fn drop(&mut self) {
        // SAFETY: as in `join`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

extern "C" fn run(body: *mut c_void) -> *mut c_void {
    // SAFETY: `start` has made it from a box of this type, and leaves it to this thread.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    body();
    ptr::null_mut()
}

/// Attributes of a new thread.
struct Attributes(libc::pthread_attr_t);

impl Attributes {
    fn with_stack(bytes: usize) -> io::Result<Self> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: initialises the attributes, which are ours.
        checked(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        let bytes = bytes
            .max(libc::PTHREAD_STACK_MIN)
            .checked_next_multiple_of(rustix::param::page_size())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: initialised attributes.
        checked(unsafe { libc::pthread_attr_setstacksize(&raw mut attributes.0, bytes) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        unsafe { libc::pthread_attr_destroy(&raw mut self.0) };
    }
}

fn checked(error: libc::c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
