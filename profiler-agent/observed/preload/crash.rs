//! The handler of crashes, if the session asks for it: records the stack of the crash, and ends the
//! process as it would end without this library.
//!
//! The kernel calls the handler on the thread that crashes, on its alternate signal stack if it has
//! one. The handler writes a sample with the flag `IS_CRASH` and stores the signal in the header of
//! the file. Then the signal has its default action: a fault repeats when the handler returns, and
//! any other signal is sent once more with the same data. The exit status and the core dump are
//! those of the program alone.
//!
//! The signal is held back while its handler runs. If the handler meets the same fault, the system
//! ends the process by it.

use core::ptr;
use core::sync::atomic::Ordering;

use crate::crash_actions;
use crate::handler::{self, Context, Sampled, Written};
use crate::layout::{IS_CRASH, SampleHead};
use crate::process;
use crate::raw::{Call, Clock, call, process_id, thread_id};
use crate::threads;

const SIGILL: i32 = 4;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
/// The signal is from the kernel, which gives no details.
const SI_KERNEL: i32 = 0x80;

/// `struct siginfo` of the kernel for a fault.
#[repr(C)]
struct FaultSignal {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    address: u64,
}

/// Installs the handler, unless the process is the first one of a PID namespace: the default action
/// of a signal that is sent does not end that.
pub(crate) fn install() {
    if process_id() != 1 {
        crash_actions::install(handler::action_with(on_crash as *const () as usize));
    }
}

unsafe extern "C" fn on_crash(signal: i32, info: *const FaultSignal, context: *const Context) {
    // SAFETY: the kernel passes a valid description, because of SA_SIGINFO.
    let (Some(fault), Some(context)) = (unsafe { info.as_ref() }, unsafe { context.as_ref() })
    else {
        return;
    };
    record(fault, context);
    crash_actions::reset(signal as u32);
    if !repeats(signal, fault.code) {
        send_again(signal, ptr::from_ref(fault));
    }
}

/// Whether the instruction that has crashed crashes again when the handler returns.
const fn repeats(signal: i32, code: i32) -> bool {
    match signal {
        SIGSEGV => matches!(code, 1..=4),
        SIGBUS => matches!(code, 1..=3),
        SIGILL | SIGFPE => code > 0 && code != SI_KERNEL,
        _ => false,
    }
}

/// Sends the signal to the calling thread with the same data. It arrives when the handler returns.
fn send_again(signal: i32, info: *const FaultSignal) {
    let (process, thread) = (process_id() as usize, thread_id() as usize);
    let place = info.expose_provenance();
    // SAFETY: the kernel reads the description that it has passed to the handler.
    unsafe {
        call(
            Call::RT_TGSIGQUEUEINFO,
            [process, thread, signal as usize, place, 0, 0],
        );
    }
}

/// Records the crash, if it is the first one of this process.
fn record(fault: &FaultSignal, context: &Context) {
    let may_record = process::is_recorded()
        && process::may_call_system()
        && threads::is_own_process()
        && process::is_intact();
    let Some(header) = process::header().filter(|_| may_record) else {
        return;
    };
    if header.crash_claimed.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    if write_stack(context) == Written::NoFile {
        return;
    }
    header.crash_address.store(fault.address, Ordering::Relaxed);
    header.crash_tid.store(thread_id(), Ordering::Relaxed);
    header.crash_code.store(fault.code, Ordering::Relaxed);
    header
        .crash_signal
        .store(fault.signal as u32, Ordering::Release);
}

/// Writes the stack of the crash into the ring. Without a free page, the crash has no stack.
fn write_stack(context: &Context) -> Written {
    let row = threads::row_of_caller();
    let uses = row.and_then(process::row);
    let sampled = Sampled {
        began: process::now(),
        own: row.and_then(threads::own_row),
        head: SampleHead {
            cpu_ns: Clock::THREAD.now_ns(),
            row: row.map_or(u32::MAX, |row| row as u32),
            uses: uses.map_or(0, |row| row.uses.load(Ordering::Relaxed)),
            flags: IS_CRASH,
            tid: thread_id(),
            ..SampleHead::default()
        },
    };
    handler::write(context, &sampled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_an_instruction_repeats() {
        const SI_USER: i32 = 0;
        assert!(repeats(SIGSEGV, 1) && repeats(SIGFPE, 1) && repeats(SIGILL, 2));
        assert!(!repeats(SIGSEGV, SI_USER) && !repeats(SIGSEGV, SI_KERNEL));
        assert!(!repeats(5, 1), "a breakpoint is behind its instruction");
        assert!(!repeats(6, -6));
    }
}
