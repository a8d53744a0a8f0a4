//! How soon the calling thread gets a processor when it wakes, where all of them are busy.
//!
//! Called by the sampler's thread once. The scheduler runs first whose turn is over first: a thread that asks for short
//! turns gets them sooner, and its share of the time stays what it was. Needs no right. Linux since
//! 6.12 heeds it; before, such a thread waits for the end of another's turn, some milliseconds.

use std::mem::size_of;

/// The shortest turn that there is to be had. A tick with some threads takes about as long.
const TURN_NS: u64 = 100_000;

/// Asks for short turns. Whoever chose another way of scheduling keeps it.
pub(crate) fn ask_for_short_turns() {
    let mut own = libc::sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: writes at most `size` bytes into the value that it is given, of the calling thread.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, size, 0) };
    if failed != 0 || own.sched_policy != libc::SCHED_OTHER.cast_unsigned() {
        return;
    }
    own.sched_runtime = TURN_NS;
    // SAFETY: reads the value, whose `size` the kernel has filled in. A refusal changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const own, 0) };
}
