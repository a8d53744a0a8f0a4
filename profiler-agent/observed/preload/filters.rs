//! Filters of system calls: no timer remains under a filter that would not allow the handler.
//!
//! Before the program installs a filter, this module runs the filter itself, with the calls that
//! the handler makes. A filter that refuses one of them in any way ends the timers of the threads
//! for which it is. A filter that is refused by the system changes nothing. Programs install
//! filters through `prctl` and `syscall`; Chromium first asks with a null pointer whether filters
//! exist, and `libseccomp` uses `syscall`.

use core::ffi::{c_int, c_long, c_ulong};
use core::ptr;

use crate::bpf::{self, CallData, Instruction};
use crate::crash_actions;
use crate::ends;
use crate::layout::{Notes, PAGE};
use crate::process::{self, FilterState};
use crate::raw::{Call, Clock, call, is_readable};
use crate::replaced::replaced;
use crate::signal_set;
use crate::spares;
use crate::threads;

/// The operation of `arch_prctl` that requests optional registers.
const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
const PR_SET_SECCOMP: c_int = 22;
const PR_SET_NO_NEW_PRIVS: c_int = 38;
const SECCOMP_MODE_STRICT: c_ulong = 1;
const SECCOMP_MODE_FILTER: c_ulong = 2;
const SECCOMP_SET_MODE_STRICT: c_ulong = 0;
const SECCOMP_SET_MODE_FILTER: c_ulong = 1;
const SECCOMP_FILTER_FLAG_TSYNC: c_ulong = 1;

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    count: u16,
    instructions: *const Instruction,
}

replaced! {
    prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int =
        |what, a, b, c, d, call| match (what, a) {
            (PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => strict(|| call(what, a, b, c, d) as isize) as c_int,
            (PR_SET_SECCOMP, SECCOMP_MODE_FILTER) => filtered(b, false, || call(what, a, b, c, d) as isize) as c_int,
            (PR_SET_NO_NEW_PRIVS, _) => {
                crate::forks::notice();
                spares::prepare();
                call(what, a, b, c, d)
            }
            _ => call(what, a, b, c, d),
        };
    syscall(
        number: c_long, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong, e: c_ulong, f: c_ulong
    ) -> c_long = |number, a, b, c, d, e, f, call| {
        let call = || call(number, a, b, c, d, e, f) as isize;
        let done = match Call(number) {
            Call::SECCOMP if a == SECCOMP_SET_MODE_STRICT => strict(call),
            Call::SECCOMP if a == SECCOMP_SET_MODE_FILTER => {
                filtered(c, b & SECCOMP_FILTER_FLAG_TSYNC != 0, call)
            }
            Call::PRCTL if a as c_int == PR_SET_SECCOMP && b == SECCOMP_MODE_STRICT => strict(call),
            Call::PRCTL if a as c_int == PR_SET_SECCOMP && b == SECCOMP_MODE_FILTER => {
                filtered(c, false, call)
            }
            Call::ARCH_PRCTL if a as usize == ARCH_REQ_XCOMP_PERM && process::is_recorded() => {
                crate::forks::notice();
                threads::expect_tiles();
                call()
            }
            Call::EXECVE | Call::EXECVEAT => ends::around(|| call() as c_int) as isize,
            Call::EXIT_GROUP => {
                ends::at_exit();
                call()
            }
            _ => call(),
        };
        done as c_long
    };
}

/// Enters the strict mode by `install`: it allows the calling thread no clock.
fn strict(install: impl FnOnce() -> isize) -> isize {
    crate::forks::notice();
    if process::may_call_system() {
        spares::forget();
        crash_actions::remove();
    }
    without_timers(false, FilterState::Nothing, install)
}

/// Installs the filter at this address by `install`, for all threads or for the calling one.
fn filtered(program: c_ulong, is_for_all: bool, install: impl FnOnce() -> isize) -> isize {
    crate::forks::notice();
    let Some(instructions) = instructions(program as usize).filter(|_| process::is_recorded())
    else {
        return install(); // the system refuses it
    };
    if process::may_call_system() {
        spares::forget();
        crash_actions::remove();
    }
    if allows_handler(instructions) && process::filter() != FilterState::Nothing {
        let before = process::filter();
        process::set_filter(FilterState::Handler);
        let done = install();
        match done {
            0 => process::note(Notes::FILTERED),
            _ => process::set_filter(before),
        }
        return done;
    }
    without_timers(is_for_all, FilterState::Nothing, install)
}

/// The instructions of the program at this address. `None` if the caller has no such memory.
fn instructions<'a>(address: usize) -> Option<&'a [Instruction]> {
    let is_usable = |address: usize, bytes: usize| {
        let last = address.checked_add(bytes)?.checked_sub(8)?;
        let mut words = (address..last).step_by(PAGE).chain([last]);
        let is_aligned = address.is_multiple_of(align_of::<Instruction>());
        (is_aligned && words.all(|word| is_readable(word as u64))).then_some(())
    };
    let program = ptr::with_exposed_provenance::<Program>(address);
    is_usable(address, size_of::<Program>())?;
    // SAFETY: the memory is readable, and any bytes are valid.
    let Program {
        count,
        instructions,
    } = unsafe { program.read_unaligned() };
    let count = usize::from(count);
    is_usable(
        instructions.addr(),
        count.checked_mul(size_of::<Instruction>())?,
    )?;
    // SAFETY: the memory is readable and aligned, and the caller passes it to the system.
    Some(unsafe { core::slice::from_raw_parts(instructions, count) })
}

/// Deletes the timers of the calling thread, or of all, before `install`. If that fails, the
/// calling thread gets its timer back.
fn without_timers(is_for_all: bool, state: FilterState, install: impl FnOnce() -> isize) -> isize {
    let is_sampled = process::is_recorded() && process::filter() != FilterState::Nothing;
    if !is_sampled || (process::may_call_system() && !threads::is_own_process()) {
        return install();
    }
    let before = process::filter();
    if before == FilterState::Handler {
        // The filter before may forbid to delete timers.
        block_signal();
        process::set_filter(state);
        process::note(Notes::FORBIDDEN);
        return install();
    }
    let row = threads::row_of_caller();
    let was_armed = row.is_some_and(threads::disarm);
    if is_for_all {
        threads::disarm_all();
    }
    // Later threads inherit the filter.
    process::set_filter(state);
    let done = install();
    if done == 0 {
        process::note(Notes::FORBIDDEN);
    } else {
        process::set_filter(before);
        if let Some(row) = row.filter(|_| was_armed) {
            threads::arm(row);
        }
    }
    done
}

/// Holds our signal back from the calling thread, for good.
fn block_signal() {
    const SIG_BLOCK: usize = 0;
    let ours = signal_set::bit(process::configuration().signal);
    // SAFETY: the kernel reads one word. The handler makes the same call, so the filter allows it.
    unsafe {
        call(
            Call::RT_SIGPROCMASK,
            [SIG_BLOCK, (&raw const ours).addr(), 0, 8, 0, 0],
        );
    }
}

/// Whether a filter allows all calls of the handler.
fn allows_handler(filter: &[Instruction]) -> bool {
    let clock = |clock: Clock| CallData::new(Call::CLOCK_GETTIME, [clock.0 as u64, 0]);
    let invalid_operation = u64::MAX;
    let block = 0;
    [
        clock(Clock::THREAD),
        clock(Clock::MONOTONIC),
        CallData::new(Call::RT_SIGPROCMASK, [invalid_operation, 0]),
        CallData::new(Call::RT_SIGPROCMASK, [block, 0]),
        CallData::new(Call::RT_SIGRETURN, [0, 0]),
    ]
    .iter()
    .all(|data| bpf::allows(filter, data))
}
