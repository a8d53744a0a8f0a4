//! The thread-local symbol `otel_thread_ctx_v1`, with which profilers outside of the process find
//! the record of a thread (OTEP 4947).
//!
//! The compiler cannot be told to access a thread-local through a TLS descriptor, the access that
//! the convention recommends, nor to define one under a name of C. So the symbol and its access are
//! written in assembly. The linker recognises this sequence of instructions, which the ABIs define,
//! and replaces it where the address is known at link time.
//!
//! The symbol is weak: if another library of the program defines it, both have one. Invariant: only
//! the calling thread's pointer is changed, and never one that another library has stored.

#![allow(unsafe_code)]

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod imp {
    use std::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

    std::arch::global_asm!(
        ".pushsection .tbss.otel_thread_ctx_v1,\"awT\",@nobits",
        ".weak otel_thread_ctx_v1",
        ".type otel_thread_ctx_v1, @object",
        ".size otel_thread_ctx_v1, 8",
        ".p2align 3",
        "otel_thread_ctx_v1:",
        ".zero 8",
        ".popsection",
    );

    /// The pointer of the calling thread.
    #[cfg(target_arch = "x86_64")]
    fn own() -> *mut *mut () {
        let address: *mut *mut ();
        // SAFETY: the access of a thread-local through its descriptor, as the ABI defines it. The
        // first access of a thread may allocate the thread-local, and not all versions of the C
        // library preserve the other registers then: all that a call may change are declared.
        unsafe {
            std::arch::asm!(
                "leaq otel_thread_ctx_v1@TLSDESC(%rip), %rax",
                "call *otel_thread_ctx_v1@TLSCALL(%rax)",
                "addq %fs:0, %rax",
                out("rax") address,
                clobber_abi("C"),
                options(att_syntax),
            );
        }
        address
    }

    /// The pointer of the calling thread.
    #[cfg(target_arch = "aarch64")]
    fn own() -> *mut *mut () {
        let address: *mut *mut ();
        // SAFETY: the access of a thread-local through its descriptor, as the ABI defines it. The
        // first access of a thread may allocate the thread-local, and not all versions of the C
        // library preserve the other registers then: all that a call may change are declared.
        unsafe {
            std::arch::asm!(
                "adrp x0, :tlsdesc:otel_thread_ctx_v1",
                "ldr x1, [x0, :tlsdesc_lo12:otel_thread_ctx_v1]",
                "add x0, x0, :tlsdesc_lo12:otel_thread_ctx_v1",
                ".tlsdesccall otel_thread_ctx_v1",
                "blr x1",
                "mrs x1, tpidr_el0",
                "add x0, x1, x0",
                out("x0") address,
                clobber_abi("C"),
            );
        }
        address
    }

    /// Stores `new` if the calling thread's pointer is `old`.
    pub(crate) fn replace(old: *mut (), new: *mut ()) {
        // SAFETY: the thread-local lives as long as the calling thread, is aligned, and only this
        // thread writes it.
        let slot = unsafe { AtomicPtr::from_ptr(own()) };
        if slot.load(Ordering::Relaxed) == old {
            compiler_fence(Ordering::SeqCst);
            slot.store(new, Ordering::Release);
        }
    }

    #[cfg(test)]
    pub(crate) fn published() -> *mut () {
        // SAFETY: as in `replace`.
        let slot = unsafe { AtomicPtr::from_ptr(own()) };
        slot.load(Ordering::Relaxed)
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod imp {
    /// Does nothing: the convention is for Linux.
    pub(crate) fn replace(_old: *mut (), _new: *mut ()) {}
}

#[cfg(test)]
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) use imp::published;
pub(crate) use imp::replace;
