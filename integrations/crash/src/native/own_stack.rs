//! Runs a function on a stack of the profiler's own, and can leave it after a fault.
//!
//! The alternate stack of a thread of the standard library has about 8 KiB, of which a frame of the
//! system takes up to half. That is too little to unwind a stack.

#![allow(unsafe_code)]

use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::registers::go_on_at;

/// The smallest size of a page.
const PAGE: usize = 4096;

/// A stack. The memory is used only after the first access.
#[repr(C, align(4096))]
pub(super) struct OwnStack<const BYTES: usize> {
    memory: UnsafeCell<[u8; BYTES]>,
    /// The stack pointer of the call that is running; 0 if there is none.
    caller: AtomicUsize,
}

// SAFETY: the callers of `run` promise that only one thread uses it at a time.
unsafe impl<const BYTES: usize> Sync for OwnStack<BYTES> {}

impl<const BYTES: usize> OwnStack<BYTES> {
    pub(super) const fn new() -> Self {
        Self {
            memory: UnsafeCell::new([0; BYTES]),
            caller: AtomicUsize::new(0),
        }
    }

    /// Makes the lowest page inaccessible, so that an overflow is a fault. Without effect on
    /// systems with larger pages.
    pub(super) fn guard(&self) {
        // SAFETY: a page of the stack, which no function is to reach.
        unsafe { libc::mprotect(self.memory.get().cast(), PAGE, libc::PROT_NONE) };
    }

    /// The stack as the system knows alternate ones, without the guard.
    pub(super) fn as_alternate(&self) -> libc::stack_t {
        libc::stack_t {
            ss_sp: self.memory.get().cast::<u8>().wrapping_add(PAGE).cast(),
            ss_flags: 0,
            ss_size: BYTES.saturating_sub(PAGE),
        }
    }

    /// Runs `body` on this stack, and returns what it has returned; `None` if [`Self::leave`] has
    /// ended it. For signal handlers.
    ///
    /// # Safety
    /// No other call for this stack is running. `body` does not panic, needs at most `BYTES` of
    /// stack, and owns nothing that must be dropped.
    pub(super) unsafe fn run<T>(&self, body: impl FnOnce() -> T) -> Option<T> {
        let top = self.memory.get().cast::<u8>().wrapping_add(BYTES & !15);
        // SAFETY: the caller's promise.
        let result = unsafe { run_at(top, self.caller.as_ptr(), body) };
        self.caller.store(0, Ordering::Release);
        result
    }

    /// Lets the call that is running return `None` when the handler of a signal returns that has
    /// interrupted it. False if no call is running.
    ///
    /// # Safety
    /// `context` is the one that the kernel passed to a handler that has interrupted the body of
    /// [`Self::run`] on this thread.
    pub(super) unsafe fn leave(&self, context: *mut libc::ucontext_t) -> bool {
        let caller = self.caller.load(Ordering::Acquire);
        if caller != 0 {
            // SAFETY: `call_on` has stored the stack pointer that `give_up` expects.
            unsafe { go_on_at(context, give_up as *const () as u64, caller as u64) };
        }
        caller != 0
    }
}

/// Runs `body` on the stack that ends at `top`; `caller` gets the stack pointer of the call.
///
/// # Safety
/// The stack is free, aligned to 16 bytes, and large enough for `body`, which does not panic.
pub(super) unsafe fn run_at<T>(
    top: *mut u8,
    caller: *mut usize,
    body: impl FnOnce() -> T,
) -> Option<T> {
    let mut call = Call {
        body: Some(body),
        result: None,
    };
    let data = (&raw mut call).cast::<libc::c_void>();
    // SAFETY: the stack is free by the caller's promise, and `data` is a call of these types.
    unsafe { call_on(top, entry_of(&call), data, caller) };
    call.result
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
        // SAFETY: `run_at` passes a call of these types, which lives until this function returns.
        let call = unsafe { &mut *data.cast::<Call<F, T>>() };
        call.result = call.body.take().map(|body| body());
    }
    entry::<F, T>
}

/// Calls `entry` on the stack that ends at `top`. Stores the stack pointer, below which are the
/// registers that a function preserves.
///
/// # Safety
/// The stack is free and aligned to 16 bytes, and `entry` may be called with `data`.
#[unsafe(naked)]
unsafe extern "C" fn call_on(
    top: *mut u8,
    entry: Entry,
    data: *mut libc::c_void,
    caller: *mut usize,
) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov r12, rsp",
        "mov [rcx], rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, r12",
        "jmp {give_up}",
        give_up = sym give_up,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "stp x29, x30, [sp, #-160]!",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x19, sp",
        "str x19, [x3]",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x19",
        "b {give_up}",
        give_up = sym give_up,
    );
}

/// Returns from [`call_on`] with the stack pointer that it has stored.
///
/// # Safety
/// Jumped to, never called.
#[unsafe(naked)]
unsafe extern "C" fn give_up() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "cld", "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx", "pop rbp", "ret",
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #160",
        "ret",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    static STACK: OwnStack<65536> = OwnStack::new();

    #[test]
    fn a_function_runs_on_the_other_stack_and_returns_its_result() {
        let local = 7_u64;
        STACK.guard();
        // SAFETY: only this test uses the stack, once.
        let seen = unsafe {
            STACK.run(|| {
                let inner = local + 1;
                ((&raw const inner).addr(), inner)
            })
        };
        let (address, value) = seen.unwrap();
        let start = STACK.memory.get().addr();
        assert!((start..start + 65536).contains(&address));
        assert_eq!((value, local), (8, 7));
    }
}
