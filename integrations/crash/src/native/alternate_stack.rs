//! Gives threads alternate signal stacks: one for their life, or one while an earlier handler runs.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ptr;

use profiler_core::internal::sys::ThreadEnd;

use super::own_stack::run_at;
use super::system::signal_frame_bytes;

/// The size without the frame that the system puts there.
const BYTES: usize = 64 * 1024;
/// A page that is not accessible, below the stack.
const GUARD: usize = 64 * 1024;
/// What the handler of an abort needs of an alternate stack, without the frame of the system, and
/// what an earlier handler needs before it aborts.
const NEEDED: u64 = 16 * 1024;

/// Frees the stack of a thread.
static AT_END: ThreadEnd = ThreadEnd::new(free_own);

thread_local! {
    /// The stack that [`give`] has mapped for this thread.
    static OWN: Cell<Option<Mapped>> = const { Cell::new(None) };
}

/// A mapped stack. Not unmapped by a drop.
#[derive(Clone, Copy)]
struct Mapped {
    start: *mut libc::c_void,
    len: usize,
}

impl Mapped {
    /// Maps a stack with a guard below it.
    fn new() -> io::Result<Self> {
        let frame = usize::try_from(signal_frame_bytes()).unwrap_or(0);
        // A whole number of pages of any size.
        let stack = BYTES.saturating_add(frame).next_multiple_of(GUARD);
        let len = stack.saturating_add(GUARD);
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: maps new memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = Self { start, len };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of the memory that was just mapped.
        if unsafe { libc::mprotect(start.wrapping_byte_add(GUARD), stack, rights) } != 0 {
            let error = io::Error::last_os_error();
            mapped.unmap();
            return Err(error);
        }
        Ok(mapped)
    }

    fn as_alternate(self) -> libc::stack_t {
        libc::stack_t {
            ss_sp: self.start.wrapping_byte_add(GUARD),
            ss_flags: 0,
            ss_size: self.len.saturating_sub(GUARD),
        }
    }

    fn unmap(self) {
        // SAFETY: mapped by `new`; the caller has taken it out of use.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// Gives the calling thread an alternate stack if it has none. It is freed when the thread ends.
///
/// # Errors
/// Errors of the system.
pub(super) fn give() -> io::Result<()> {
    if exchange(None)?.ss_flags & libc::SS_DISABLE == 0 {
        return Ok(());
    }
    let mapped = Mapped::new()?;
    if let Err(error) = exchange(Some(&mapped.as_alternate())) {
        mapped.unmap();
        return Err(error);
    }
    OWN.set(Some(mapped));
    let _ = AT_END.arm(); // otherwise the stack stays until the process ends
    Ok(())
}

/// At the end of a thread that has such a stack.
extern "C" fn free_own(_: *mut libc::c_void) {
    let Some(mapped) = OWN.take() else { return };
    let own = mapped.as_alternate();
    let is_own = |present: libc::stack_t| present.ss_sp == own.ss_sp;
    let is_used = exchange(None).is_ok_and(is_own);
    if !is_used || exchange(Some(&none())).is_ok() {
        mapped.unmap();
    }
}

/// Sets the alternate stack if there is a new one; returns the one before.
fn exchange(new: Option<&libc::stack_t>) -> io::Result<libc::stack_t> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut before = none();
    // SAFETY: reads the new stack, whose memory is ours or was the thread's, and writes the other.
    if unsafe { libc::sigaltstack(new, &raw mut before) } == 0 {
        Ok(before)
    } else {
        Err(io::Error::last_os_error())
    }
}

const fn none() -> libc::stack_t {
    libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    }
}

/// Another alternate stack of the thread, until the drop.
pub(super) struct Room {
    mapped: Mapped,
    before: libc::stack_t,
}

impl Drop for Room {
    fn drop(&mut self) {
        if exchange(Some(&self.before)).is_ok() {
            self.mapped.unmap();
        }
    }
}

/// Gives the thread another alternate stack if the handler runs on one that has no room for a
/// second signal: the stacks of the standard library have about 8 KiB, and its handler ends with an
/// abort. A handler that leaves by `siglongjmp` leaves the thread with the new stack, which has
/// room.
///
/// # Safety
/// `context` is the one that the kernel passed to a handler that runs now.
pub(super) unsafe fn make_room(context: *const libc::ucontext_t) -> Option<Room> {
    // SAFETY: the caller's promise.
    let stack = unsafe { (*context).uc_stack };
    let rest = (context.addr() as u64).checked_sub(stack.ss_sp.addr() as u64)?;
    let is_on_it = stack.ss_flags & libc::SS_DISABLE == 0 && rest < stack.ss_size as u64;
    if !is_on_it || rest >= signal_frame_bytes() + NEEDED {
        return None;
    }
    let mapped = Mapped::new().ok()?;
    let new = mapped.as_alternate();
    let top = new.ss_sp.cast::<u8>().wrapping_add(new.ss_size);
    let mut caller = 0;
    // The system refuses another stack while the thread runs on the present one.
    // SAFETY: the stack is new, and this needs little of it.
    let before = unsafe { run_at(top, &raw mut caller, || exchange(Some(&new)).ok()) };
    let Some(before) = before.flatten() else {
        mapped.unmap();
        return None;
    };
    Some(Room {
        mapped,
        before: libc::stack_t {
            ss_flags: before.ss_flags & !libc::SS_ONSTACK,
            ..before
        },
    })
}
