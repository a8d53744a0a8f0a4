//! Runs a function on a stack of the profiler's own.
//!
//! The alternate stack of a thread of the standard library has about 8 KiB, of which a frame of the
//! system takes up to half. That is too little to unwind a stack.

#![allow(unsafe_code)]

use std::arch::asm;
use std::cell::UnsafeCell;

/// A stack. The memory is used only after the first access.
#[repr(C, align(64))]
pub(super) struct OwnStack<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: the callers of `run` promise that only one thread uses it at a time.
unsafe impl<const BYTES: usize> Sync for OwnStack<BYTES> {}

impl<const BYTES: usize> OwnStack<BYTES> {
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new([0; BYTES]))
    }

    /// Runs `body` on this stack, and returns what it has returned. For signal handlers.
    ///
    /// # Safety
    /// No other call for this stack is running. `body` does not panic, and needs at most `BYTES` of
    /// stack.
    pub(super) unsafe fn run<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        let mut call = Call {
            body: Some(body),
            result: None,
        };
        let top = self.0.get().cast::<u8>().wrapping_add(BYTES & !15);
        let data = (&raw mut call).cast::<libc::c_void>();
        // SAFETY: the stack is free by the caller's promise, and `data` is a call of these types.
        unsafe { call_on(top, entry_of(&call), data) };
        call.result
    }
}

/// A function and its result.
struct Call<F, T> {
    body: Option<F>,
    result: Option<T>,
}

type Entry = unsafe extern "C" fn(*mut libc::c_void);

/// The function that runs a call of these types.
fn entry_of<F: FnOnce() -> T, T>(_: &Call<F, T>) -> Entry {
    unsafe extern "C" fn entry<F: FnOnce() -> T, T>(data: *mut libc::c_void) {
        // SAFETY: `run` passes a call of these types, which lives until this function returns.
        let call = unsafe { &mut *data.cast::<Call<F, T>>() };
        call.result = call.body.take().map(|body| body());
    }
    entry::<F, T>
}

/// Calls `entry` on the stack that ends at `top`.
///
/// # Safety
/// The stack is free and aligned to 16 bytes, and `entry` may be called with `data`.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn call_on(top: *mut u8, entry: Entry, data: *mut libc::c_void) {
    // SAFETY: the caller's promise. The called function preserves r12, which has the old stack
    // pointer meanwhile.
    unsafe {
        asm!(
            "xchg rsp, r12",
            "call {entry}",
            "mov rsp, r12",
            entry = in(reg) entry,
            inout("r12") top => _,
            in("rdi") data,
            clobber_abi("C"),
        );
    }
}

/// Calls `entry` on the stack that ends at `top`.
///
/// # Safety
/// The stack is free and aligned to 16 bytes, and `entry` may be called with `data`.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
unsafe fn call_on(top: *mut u8, entry: Entry, data: *mut libc::c_void) {
    // SAFETY: the caller's promise. The called function preserves x20, which has the old stack
    // pointer meanwhile.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {entry}",
            "mov sp, x20",
            top = in(reg) top,
            entry = in(reg) entry,
            out("x20") _,
            in("x0") data,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static STACK: OwnStack<65536> = OwnStack::new();

    #[test]
    fn a_function_runs_on_the_other_stack_and_returns_its_result() {
        let local = 7_u64;
        // SAFETY: only this test uses the stack, once.
        let seen = unsafe {
            STACK.run(|| {
                let inner = local + 1;
                ((&raw const inner).addr(), inner)
            })
        };
        let (address, value) = seen.unwrap();
        let start = STACK.0.get().addr();
        assert!((start..start + 65536).contains(&address));
        assert_eq!((value, local), (8, 7));
    }
}
