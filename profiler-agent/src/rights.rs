//! What decides whether the system allows a thread to change its user: its users and groups,
//! capabilities, flags of capabilities, and the filter of its system calls.
//!
//! Used by [`crate::replaced`]. The profiler's threads have the rights that the program had when it
//! was loaded, and the C library changes them with those of the program. A program can also change
//! those of its calling thread alone: with `capset`, with `prctl`, or by a system call of its own.
//! Invariant: everything here is system calls and atomics, so a signal handler may call it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of words of [`Rights`].
const WORDS: usize = 13;
/// The third version of the capabilities: two words of each kind.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The rights of a thread: three users, three groups, three kinds of capabilities in two words
/// each, and their flags.
type Rights = [u32; WORDS];

/// The rights of the profiler's threads.
static NOTED: [AtomicU32; WORDS] = [const { AtomicU32::new(0) }; WORDS];
/// How the system filters their system calls.
static FILTER: AtomicU32 = AtomicU32::new(0);

/// Notes that the profiler's threads have the rights of the calling thread.
pub(crate) fn note() {
    FILTER.store(filter(), Ordering::Relaxed);
    for (noted, now) in NOTED.iter().zip(own()) {
        noted.store(now, Ordering::Relaxed);
    }
}

/// Whether the calling thread has other rights than the profiler's threads. Under a new filter,
/// which may allow few system calls, it makes no others.
pub(crate) fn have_changed() -> bool {
    let mut noted = NOTED.iter().map(|noted| noted.load(Ordering::Relaxed));
    FILTER.load(Ordering::Relaxed) != filter() || !noted.by_ref().eq(own())
}

fn filter() -> u32 {
    // SAFETY: returns a number.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) }.cast_unsigned()
}

/// The rights of the calling thread.
fn own() -> Rights {
    let [real_user, user, saved_user] = three(libc::getresuid);
    let [real_group, group, saved_group] = three(libc::getresgid);
    let [a, b, c, d, e, f] = capabilities();
    // SAFETY: returns a number; the flag of `PR_SET_KEEPCAPS` is one of its bits.
    let flags = unsafe { libc::prctl(libc::PR_GET_SECUREBITS) }.cast_unsigned();
    [
        real_user,
        user,
        saved_user,
        real_group,
        group,
        saved_group,
        a,
        b,
        c,
        d,
        e,
        f,
        flags,
    ]
}

/// The three numbers that this function of the C library reads.
fn three(read: unsafe extern "C" fn(*mut u32, *mut u32, *mut u32) -> i32) -> [u32; 3] {
    let [mut first, mut second, mut third] = [0; 3];
    // SAFETY: writes into three locals.
    unsafe { read(&raw mut first, &raw mut second, &raw mut third) };
    [first, second, third]
}

/// The capabilities of the calling thread; zeros if the system does not tell them.
fn capabilities() -> [u32; 6] {
    let mut which = [CAPABILITY_VERSION, 0]; // 0: the calling thread
    let mut found = [0_u32; 6];
    // SAFETY: this version reads and writes two words, and writes six.
    unsafe { libc::syscall(libc::SYS_capget, which.as_mut_ptr(), found.as_mut_ptr()) };
    found
}

#[cfg(test)]
mod tests {
    use profiler_sys::spawn_quiet;

    use super::*;

    /// One test, because the noted rights are those of the process.
    #[test]
    fn a_change_of_one_thread_is_noticed() {
        let change = || {
            note();
            assert!(!have_changed());
            // SAFETY: sets a flag of this thread.
            let failed = unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) };
            assert_eq!(failed, 0);
            assert!(have_changed());
            note();
            assert!(!have_changed());
        };
        spawn_quiet("rights", change).unwrap().join().unwrap();
    }
}
