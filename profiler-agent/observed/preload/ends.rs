//! The end of the program: stores how much processor time the process has used.
//!
//! At `exit` the loader calls [`at_exit`], which only stores. Before the process executes another
//! program, the timer of the calling thread is deleted, unless a filter of system calls may forbid
//! that: Linux before 6.13 would deliver a pending signal of it to the new program, which does not
//! handle it.

#![allow(non_snake_case)] // the names of the C library

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering;

use crate::layout::Ending;
use crate::own_action;
use crate::process;
use crate::raw::Clock;
use crate::replaced::{self, Original, replaced};
use crate::threads;

type Texts = *const *const c_char;

replaced! {
    execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int =
        |path, arguments, environment, call| around(|| call(path, arguments, environment));
    execv(path: *const c_char, arguments: Texts) -> c_int =
        |path, arguments, call| around(|| call(path, arguments));
    execvp(name: *const c_char, arguments: Texts) -> c_int =
        |name, arguments, call| around(|| call(name, arguments));
    execvpe(name: *const c_char, arguments: Texts, environment: Texts) -> c_int =
        |name, arguments, environment, call| around(|| call(name, arguments, environment));
    fexecve(descriptor: c_int, arguments: Texts, environment: Texts) -> c_int =
        |descriptor, arguments, environment, call| around(|| call(descriptor, arguments, environment));
    execveat(directory: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int) -> c_int =
        |directory, path, arguments, environment, flags, call| {
            around(|| call(directory, path, arguments, environment, flags))
        };
    _exit(status: c_int) -> c_int = |status, call| { at_exit(); call(status) };
    _Exit(status: c_int) -> c_int = |status, call| { at_exit(); call(status) };
}

/// Stores the end of the program. Also called by the loader.
pub(crate) extern "C" fn at_exit() {
    if process::is_recorded() && process::may_call_system() && threads::is_own_process() {
        store(Ending::Exit);
    }
}

/// Stores how the program ends, when, and how much processor time its process has used.
pub(crate) fn store(ending: Ending) {
    if !process::is_intact() {
        return;
    }
    if let Some(header) = process::header() {
        header.ended.store(process::now(), Ordering::Relaxed);
        header
            .ended_cpu_ns
            .store(Clock::PROCESS.now_ns(), Ordering::Relaxed);
        header.ending.store(ending as u32, Ordering::Release);
    }
}

/// Calls a function that executes another program, and returns only if it fails. In a child of
/// `vfork`, whose memory is the parent's, it changes nothing.
pub(crate) fn around(execute: impl FnOnce() -> c_int) -> c_int {
    crate::forks::notice();
    let may_store = process::is_recorded() && process::may_call_system();
    let is_handed_over = may_store && own_action::hand_over();
    let failed = if may_store && threads::is_own_process() {
        stored(execute)
    } else {
        execute()
    };
    if is_handed_over {
        own_action::take_back();
    }
    failed
}

/// The same in the process that has the file.
fn stored(execute: impl FnOnce() -> c_int) -> c_int {
    let row = threads::row_of_caller();
    let was_armed = row.is_some_and(threads::disarm);
    store(Ending::Exec);
    let failed = execute();
    store(Ending::None);
    if let Some(row) = row.filter(|_| was_armed) {
        threads::arm(row);
    }
    failed
}

/// The functions with a variable number of arguments, by number.
static WITH_LISTS: [Original; 3] = [
    Original::new(c"execl"),
    Original::new(c"execlp"),
    Original::new(c"execle"),
];
/// The same, to look them up.
pub(crate) static LISTED: &[&Original] = &[&WITH_LISTS[0], &WITH_LISTS[1], &WITH_LISTS[2]];

/// Called by the functions below with their number, before the function that they replace. Returns
/// its address, or 0. If that fails, the calling thread has no timer any more.
extern "C" fn before_exec(number: usize) -> usize {
    crate::forks::notice();
    let may_store = process::is_recorded() && process::may_call_system();
    if may_store {
        own_action::hand_over();
    }
    if may_store && threads::is_own_process() {
        if let Some(row) = threads::row_of_caller() {
            threads::disarm(row);
        }
        store(Ending::Exec);
    }
    let original = WITH_LISTS.get(number).and_then(Original::get);
    original.unwrap_or_else(|| {
        replaced::missing();
        0
    })
}

// Rust has no functions with a variable number of arguments. These keep all registers that hold
// arguments, and jump to the function that they replace.
#[cfg(target_arch = "x86_64")]
macro_rules! with_list {
    ($name:ident, $number:literal) => {
        /// Replaces the function of the C library with this name.
        ///
        /// # Safety
        /// As for the replaced function.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "endbr64",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                concat!("mov edi, ", $number),
                "call {before}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "test r11, r11",
                "jz 2f",
                "jmp r11",
                "2: mov eax, -1",
                "ret",
                before = sym before_exec,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! with_list {
    ($name:ident, $number:literal) => {
        /// Replaces the function of the C library with this name.
        ///
        /// # Safety
        /// As for the replaced function.
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, -80]!",
                "stp x0, x1, [sp, 16]",
                "stp x2, x3, [sp, 32]",
                "stp x4, x5, [sp, 48]",
                "stp x6, x7, [sp, 64]",
                concat!("mov w0, ", $number),
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, 16]",
                "ldp x2, x3, [sp, 32]",
                "ldp x4, x5, [sp, 48]",
                "ldp x6, x7, [sp, 64]",
                "ldp x29, x30, [sp], 80",
                "cbz x16, 2f",
                "br x16",
                "2: mov w0, -1",
                "ret",
                before = sym before_exec,
            )
        }
    };
}

with_list!(execl, "0");
with_list!(execlp, "1");
with_list!(execle, "2");
