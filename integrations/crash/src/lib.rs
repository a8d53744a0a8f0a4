//! Crashes in the profiles of the profiler: the stack, the signal and the address.
//!
//! Called by applications, once, at their start. The profiler's sessions are those of
//! `profiler-parent` and `profiler-child`; this crate starts none.
//!
//! ```
//! profiler_crash::install()?;
//! # Ok::<(), profiler_crash::CrashError>(())
//! ```
//!
//! # What is recorded
//! [`install`] installs a handler for `SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`, `SIGABRT` and
//! `SIGTRAP`. While a session runs, a crash is a marker `Crash` on its thread, with the signal, its
//! cause, the address, the registers and the stack with the open labels. Each other thread that has
//! open labels gets a marker `Open at the crash` with these labels. The markers are in the memory
//! that outlives the process, before an earlier handler runs. The verdict on the process names the
//! crash:
//!
//! ```text
//! recovered: crashed with signal 11 (SIGSEGV): worker: SIGSEGV: address not mapped, at 0x10
//! ```
//!
//! # What the program sees
//! Afterwards the signal has the effect that it has without this crate:
//!
//! - An earlier handler is called with the arguments of the system, with the signal mask that it
//!   asks for, and at most once if it asks for that (`SA_RESETHAND`). So the standard library still
//!   reports an overflow of the stack.
//! - Without an earlier handler, the signal is sent once more with the same data, and its default
//!   action ends the process when the handler returns, at the instruction that crashed. The exit
//!   status is the same, and so is a core dump.
//! - A signal that the program ignores stays ignored, and is not handled by this crate.
//!
//! An abort of an earlier handler of another signal adds no second crash.
//!
//! The default action does not end a process with the number 1 (the first one of a container),
//! unless it reports a fault. Such a fault is repeated, and ends the process. If it may not repeat,
//! such as `SIGTRAP`, the process exits with the code 128 plus the number of the signal.
//!
//! # The order of handlers
//! Call `install` after the program has installed handlers that end the process, such as those of a
//! crash reporter: they are called after the crash was recorded. Call it *before* a runtime that
//! handles faults as a part of its work, such as a virtual machine of Java or of WebAssembly: such
//! a runtime passes on the faults that are not its own. In the other order, each of its faults
//! takes the time of a crash, and is a marker. A handler that is installed later and does not call
//! the earlier one replaces this crate's; `install` then returns [`CrashError::Replaced`].
//!
//! # Stacks
//! The handler runs on the alternate signal stack of the thread, and takes the stack of the crash
//! on a stack of its own. The threads of the standard library have an alternate stack. [`install`]
//! gives one to the calling thread if it has none, and [`prepare_thread`] to any other thread. In a
//! thread without an alternate stack, a crash is recorded on its own stack, and an overflow of the
//! stack is not recorded: the system ends the process before any handler runs. The same holds for
//! each signal whose earlier handler is not on the alternate stack (`SA_ONSTACK`): it may need more
//! stack than an alternate one has.
//!
//! If the rest of the alternate stack is less than 16 KiB and a signal's frame, the thread has
//! another one of 64 KiB while an earlier handler runs, which is freed when the handler returns.
//!
//! The stack is unwound while the session walks stacks, as it does by default. Otherwise it has one
//! frame, the address of the crash. Frames in libraries that were loaded less than about 100 ms
//! before have no names.
//!
//! # Limitations
//! - Without a session, and in a forked child that has not begun anew, a crash is not recorded. The
//!   child of a `vfork` records nothing.
//! - Of several threads that crash at the same time, each records its crash after the others; a
//!   thread waits at most two seconds for another one. If the default action ends the process, the
//!   crashes that are not recorded by then are lost.
//! - A fault within the recording ends the recording. The crash is then recorded without a stack,
//!   if that has no fault, and passed on as usual. A signal of a crash that is sent during a
//!   recording is handled after it. A panic in the unwinder would call the program's panic hook
//!   first.
//! - After an earlier handler has left by `siglongjmp` without an alternate stack, an abort in a
//!   function at most 1 MiB further in may be taken for one of the handler, and is not recorded.
//! - The handler calls `gettid`, `getpid`, `rt_sigprocmask`, `sigaltstack`, `nanosleep`, `prctl`,
//!   `rt_sigaction`, `rt_tgsigqueueinfo` and `tgkill`, and `mmap`, `mprotect` and `munmap` for an
//!   alternate stack. Under a filter that ends the process at one of them, it ends by that filter.
//! - `SIGSYS` is neither recorded nor blocked.
//! - Perf events with `SIGTRAP` (the sample source `sigtrap`) are used only in sessions that began
//!   before `install`, and not after it.
//! - A thread of which neither a marker nor a sample was recorded has no row in the profile. Its
//!   crash is on a thread `profiler-crash`.
//! - The contents of the stack are not recorded. Registers and addresses are marked as personal
//!   data, which viewers remove on request.
//!
//! # Costs
//! A program that does not crash has no cost, except for 32 KiB of the session's memory, about
//! 120 KiB of its own, and 64 KiB per prepared thread. A crash takes about as long as it takes to
//! unwind its stack.
//!
//! Linux on x86-64 and aarch64. On other systems, and without the feature `enabled`, the functions
//! do nothing.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

mod error;
#[cfg(all(
    feature = "enabled",
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod native;
#[cfg(not(all(
    feature = "enabled",
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "nothing.rs"]
mod native;

pub use error::CrashError;

/// Lets the profiler record crashes from now on.
///
/// Does nothing if the handlers are installed, and without the feature `enabled`. The documentation
/// of the crate describes the order relative to other handlers. Gives the calling thread an
/// alternate signal stack if it has none.
///
/// # Errors
/// [`CrashError`]. Handlers that were installed before the error stay.
pub fn install() -> Result<(), CrashError> {
    native::install()
}

/// Gives the calling thread an alternate signal stack if it has none, so that an overflow of its
/// stack is recorded. Threads of the standard library have one. The memory is freed when the thread
/// ends.
///
/// # Errors
/// [`CrashError::AlternateStack`].
pub fn prepare_thread() -> Result<(), CrashError> {
    native::prepare_thread()
}

/// The code in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
