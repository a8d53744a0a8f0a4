//! The threads that run an earlier handler now.
//!
//! Such a handler often ends with `abort`, which is no second crash. A handler that leaves by
//! `siglongjmp` does not tell, so an entry also has the place of the handler's frame: an abort
//! belongs to the handler only if it comes from functions that the handler has called.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use libc::c_int;

/// The maximum number of threads. A further thread has no entry, so its abort is recorded.
const MAX_RUNNING: usize = 16;
/// The largest distance of a called function from the frame of the handler.
const DEPTH: u64 = 1 << 20;

static RUNNING: [Entry; MAX_RUNNING] = [const { Entry::new() }; MAX_RUNNING];

/// A thread that runs an earlier handler.
struct Entry {
    /// The number of the thread; 0 if the entry is free.
    thread: AtomicI32,
    /// An address in the frame of our handler, which has called the earlier one.
    frame: AtomicU64,
}

impl Entry {
    const fn new() -> Self {
        Self {
            thread: AtomicI32::new(0),
            frame: AtomicU64::new(0),
        }
    }

    fn is_of(&self, thread: c_int) -> bool {
        self.thread.load(Ordering::Acquire) == thread
    }

    fn take(&self, thread: c_int) -> bool {
        self.thread
            .compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// Runs `handler`, which is an earlier handler. `frame` is an address in the calling function.
pub(super) fn run(thread: c_int, frame: u64, handler: impl FnOnce()) {
    let own = RUNNING.iter().find(|entry| entry.is_of(thread));
    let entry = own.or_else(|| RUNNING.iter().find(|entry| entry.take(thread)));
    let outer = entry.map_or(0, |entry| entry.frame.swap(frame, Ordering::AcqRel));
    handler();
    let Some(entry) = entry else { return };
    if own.is_some() && is_below(frame, outer) {
        entry.frame.store(outer, Ordering::Release); // the handler of another signal goes on
    } else {
        entry.thread.store(0, Ordering::Release);
    }
}

/// Whether a function of a thread with this stack pointer was called by an earlier handler.
pub(super) fn have_called(thread: c_int, stack_pointer: u64) -> bool {
    let own = RUNNING.iter().find(|entry| entry.is_of(thread));
    own.is_some_and(|entry| is_below(stack_pointer, entry.frame.load(Ordering::Acquire)))
}

fn is_below(stack_pointer: u64, frame: u64) -> bool {
    frame
        .checked_sub(stack_pointer)
        .is_some_and(|depth| depth < DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_that_an_earlier_handler_has_called_are_below_it() {
        const FRAME: u64 = 0x7000_0000;
        run(7, FRAME, || {
            assert!(have_called(7, FRAME - 64));
            assert!(!have_called(8, FRAME - 64), "another thread");
            assert!(!have_called(7, FRAME + 64), "the handler was left");
            assert!(!have_called(7, FRAME - DEPTH), "another stack");
            run(7, FRAME - 128, || assert!(!have_called(7, FRAME - 64)));
            assert!(have_called(7, FRAME - 64), "the first one goes on");
        });
        assert!(!have_called(7, FRAME - 64));
    }
}
