//! Files in reserve, for forked children that can make none: a sandbox may have taken the file
//! system from their parent.
//!
//! A process makes them when it may be about to enter a sandbox: it is the first process of a PID
//! namespace, or gives up the right to new privileges. Each child takes one that no other has
//! taken, and unmaps at once those that others have, before any code of the program runs in it. It
//! keeps the rest for its own children, and unmaps them before it installs a filter of system
//! calls, since untrusted code runs only after that. So no sandboxed child can read the samples of
//! another one. A file in reserve is like any other once it is taken; before that, its first word
//! is 0.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::layout::Header;
use crate::own_file;
use crate::process;
use crate::text;
use crate::threads;

/// How many children of a sandboxed process can have a file.
const SPARES: usize = 16;

static FILES: [AtomicPtr<u8>; SPARES] = [const { AtomicPtr::new(ptr::null_mut()) }; SPARES];
static ARE_MADE: AtomicU32 = AtomicU32::new(0);

/// Makes the files, once.
pub(crate) fn prepare() {
    let may_make = process::is_recorded() && process::may_call_system();
    if !may_make || !threads::is_own_process() || ARE_MADE.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    for place in &FILES {
        let Some(file) = own_file::make(process::configuration(), text::len()) else {
            return;
        };
        place.store(file, Ordering::Release);
    }
}

/// In a forked child: takes a file that no other child has taken. Unmaps those that others have.
pub(crate) fn take() -> Option<*mut u8> {
    let mut own = None;
    for place in &FILES {
        let file = place.load(Ordering::Acquire);
        // SAFETY: null, or mapped by `prepare` with the length of the layout; all fields are
        // atomics.
        let Some(header) = (unsafe { file.cast::<Header>().as_ref() }) else {
            continue;
        };
        let take = || {
            header
                .taken
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
        };
        if own.is_none() && take().is_ok() {
            place.store(ptr::null_mut(), Ordering::Release);
            own = Some(file);
        } else if header.taken.load(Ordering::Acquire) != 0 {
            place.store(ptr::null_mut(), Ordering::Release);
            // SAFETY: no reference to it remains, and no handler uses it.
            unsafe { own_file::unmap(file) };
        }
    }
    own
}

/// Unmaps all files in reserve: in a forked child that can make its own, and before a filter.
pub(crate) fn forget() {
    for place in &FILES {
        let file = place.swap(ptr::null_mut(), Ordering::Acquire);
        if !file.is_null() {
            // SAFETY: as above.
            unsafe { own_file::unmap(file) };
        }
    }
    ARE_MADE.store(0, Ordering::Relaxed);
}
