//! Gives a thread without an alternate signal stack one.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// The size without the frame that the system puts there.
const BYTES: usize = 64 * 1024;
/// A page that is not accessible, below the stack.
const GUARD: usize = 64 * 1024;
/// The entry of the auxiliary vector with the size of a signal's frame.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

/// Gives the calling thread an alternate stack if it has none. It is never freed.
///
/// # Errors
/// Errors of the system.
pub(super) fn give() -> io::Result<()> {
    let mut present = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: only asks, into memory of the right type.
    let failed = unsafe { libc::sigaltstack(ptr::null(), present.as_mut_ptr()) } != 0;
    // SAFETY: zeros are a valid value, and the call has written another one.
    let present = unsafe { present.assume_init() };
    if failed || present.ss_flags & libc::SS_DISABLE == 0 {
        return Ok(());
    }
    // SAFETY: reads a value that was set before the process started; 0 if there is none.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    let len = BYTES.saturating_add(usize::try_from(frame).unwrap_or(0));
    let stack = libc::stack_t {
        ss_sp: map(len)?,
        ss_flags: 0,
        ss_size: len,
    };
    // SAFETY: the memory is ours, and stays.
    if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Maps memory with a guard below it.
fn map(len: usize) -> io::Result<*mut libc::c_void> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let whole = len.saturating_add(GUARD);
    // SAFETY: maps new memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let stack = start.wrapping_byte_add(GUARD);
    // SAFETY: a part of the memory that was just mapped.
    let failed = unsafe { libc::mprotect(stack, len, libc::PROT_READ | libc::PROT_WRITE) } != 0;
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(stack)
}
