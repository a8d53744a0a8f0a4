//! The handler of crashes, if the session asks for it: records the stack of the crash, and ends the
//! process by the same signal.
//!
//! The kernel calls the handler on the thread that crashes, on its alternate signal stack if it has
//! one. The handler stores the signal in the header of the file, and writes the mappings and the
//! stack into the ring. Then the signal has its default action, and is sent once more with the same
//! data: it ends the process when the handler returns, at the instruction that crashed. The exit
//! status and the core dump are the same as without this library, with two exceptions: if the stack
//! has no space for the handler, the process ends by `SIGSEGV`; if the handler causes a fault, the
//! process ends by the signal of that fault.
//!
//! If a thread crashes while another one records its crash, it waits up to about 100 ms, because
//! the process would otherwise end before the record is complete.

use core::ptr;
use core::sync::atomic::Ordering;

use crate::crash_actions;
use crate::crash_maps;
use crate::handler::{self, Context, Sampled, Written};
use crate::layout::{Header, IS_CRASH, SampleHead};
use crate::process;
use crate::raw::{Call, Clock, call, call3, process_id, thread_id};
use crate::seccomp;
use crate::threads;

/// The states of [`crate::layout::Header::crash_claimed`].
const CRASH_UNCLAIMED: u32 = 0;
const CRASH_CLAIMED: u32 = 1;
const CRASH_RECORDED: u32 = 2;
/// The number of times that a thread checks whether another one has recorded its crash, a
/// millisecond apart.
const MAX_WAIT_POLLS: u32 = 100;

/// `struct siginfo` of the kernel for a fault.
#[repr(C)]
struct FaultSignal {
    signal: i32,
    error: i32,
    code: i32,
    padding: i32,
    address: u64,
}

/// Installs the handler, except in two cases. An inherited filter of system calls may forbid the
/// calls that end the process. In the first process of a PID namespace, a signal that is sent has
/// no effect if its action is the default.
pub(crate) fn install() {
    if process_id() != 1 && !seccomp::may_be_filtered() {
        let handler = on_crash as *const () as usize;
        crash_actions::install(handler::action_with(handler));
    }
}

unsafe extern "C" fn on_crash(signal: i32, info: *const FaultSignal, context: *const Context) {
    // SAFETY: the kernel passes a valid description, because of SA_SIGINFO.
    let (Some(fault), Some(context)) = (unsafe { info.as_ref() }, unsafe { context.as_ref() })
    else {
        return;
    };
    record(fault, context);
    // The installed action may be that of a handler of the program that has called this one.
    crash_actions::reset(signal as u32);
    send_again(signal, ptr::from_ref(fault));
}

/// Sends the signal to the calling thread, with the same data if the system permits that. It
/// arrives when the handler returns.
fn send_again(signal: i32, info: *const FaultSignal) {
    let (process, thread) = (process_id() as usize, thread_id() as usize);
    let (number, place) = (signal as usize, info.expose_provenance());
    // SAFETY: the kernel reads the description that it has passed to the handler.
    let failed = unsafe {
        call(
            Call::RT_TGSIGQUEUEINFO,
            [process, thread, number, place, 0, 0],
        )
    };
    if failed != 0 {
        // SAFETY: sends a signal to the calling thread.
        unsafe { call3(Call::TGKILL, process, thread, number) };
    }
}

/// Records the crash, if it is the first one of this program.
fn record(fault: &FaultSignal, context: &Context) {
    let may_record = process::is_recorded()
        && process::may_call_system()
        && threads::is_own_process()
        && process::is_intact();
    let Some(header) = process::header().filter(|_| may_record) else {
        return;
    };
    let claims = header.crash_claimed.compare_exchange(
        CRASH_UNCLAIMED,
        CRASH_CLAIMED,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if claims.is_err() {
        return wait_for_other(header);
    }
    header.crash_address.store(fault.address, Ordering::Relaxed);
    header.crash_tid.store(thread_id(), Ordering::Relaxed);
    header.crash_code.store(fault.code, Ordering::Relaxed);
    header
        .crash_signal
        .store(fault.signal as u32, Ordering::Release);
    if write_sample(context) != Written::NoFile {
        header
            .crash_claimed
            .store(CRASH_RECORDED, Ordering::Release);
    }
}

/// Waits, for a limited time, until another thread has recorded its crash.
fn wait_for_other(header: &Header) {
    let own = thread_id();
    for _ in 0..MAX_WAIT_POLLS {
        let is_done = header.crash_claimed.load(Ordering::Acquire) != CRASH_CLAIMED;
        if is_done || header.crash_tid.load(Ordering::Relaxed) == own || !process::is_intact() {
            return;
        }
        let millisecond = [0_u64, 1_000_000];
        // SAFETY: the kernel reads two words from a local array.
        unsafe { call3(Call::NANOSLEEP, (&raw const millisecond).addr(), 0, 0) };
    }
}

/// Writes the mappings and the stack of the crash into the ring, as far as it has free pages.
fn write_sample(context: &Context) -> Written {
    let row = threads::row_of_caller();
    let uses = row.and_then(process::row);
    let head = SampleHead {
        at: process::now(),
        cpu_ns: Clock::THREAD.now_ns(),
        row: row.map_or(u32::MAX, |row| row as u32),
        uses: uses.map_or(0, |row| row.uses.load(Ordering::Relaxed)),
        flags: IS_CRASH,
        tid: thread_id(),
        ..SampleHead::default()
    };
    if crash_maps::write_maps(&head) == Written::NoFile {
        return Written::NoFile;
    }
    let sampled = Sampled {
        began: process::now(),
        own: row.and_then(threads::own_row),
        head,
    };
    handler::write_stack(context, &sampled)
}
