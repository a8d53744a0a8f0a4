//! The interface to the operating system: memory of pools, quiet threads, fork, identities.
//!
//! All Linux-only code is in `linux`; `portable` has the same functions for other systems and is
//! compiled and tested on Linux with `--cfg profiler_portable`. A port is a new file here.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod linux;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
use linux as imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
mod portable;
#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
use portable as imp;

mod thread_end;

/// The system functions that sampling needs. Without them nothing is sampled, see `sampler`.
#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod native;

pub(crate) use imp::punch_hole;
pub(crate) use imp::{
    ResidentMemory, THREAD_NAME_BYTES, advise_mapping, barrier_on_all_threads, cannot_shrink,
    create_pool_file, current_thread_name, has_other_threads, on_fork, populate, process_name,
    process_start, release, running_process, stretch, time_namespace, wipe_on_fork,
};
pub use imp::{boot_id, clock_error};
pub(crate) use profiler_sys::current_thread_id;
pub use profiler_sys::page_size;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub use profiler_sys::{ProcessStat, open_process};
pub use thread_end::ThreadEnd;

use std::os::fd::AsFd;

use crate::ids::{ProcessId, ProcessKey, ProcessStart, ThreadId};

/// Obtains the values that later checks of alternate stacks need. May make a system call.
pub(crate) fn prepare_alternate_stack_checks() {
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    native::alternate_stack::prepare();
}

/// Notes whether a signal to the calling thread, whose number is `thread`, would overflow its
/// alternate stack. Makes a system call on systems where threads are signalled.
pub(crate) fn check_alternate_stack(_thread: ThreadId) {
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    native::alternate_stack::check_own(_thread);
}

/// Removes the note about the calling thread's alternate stack.
pub(crate) fn forget_alternate_stack() {
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    native::alternate_stack::forget_own(current_thread_id());
}

/// In a forked child that begins anew, whose only thread is the calling one: forgets what is kept
/// about the threads and files of the parent. Only `session::after_fork` calls it.
#[allow(unsafe_code)]
pub(crate) fn forget_parent() {
    // SAFETY: `session::after_fork` has checked that this is a forked child without other threads.
    unsafe { profiler_sys::forget_parent() };
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    native::alternate_stack::forget_parent();
}

/// This process's number.
pub fn process_id() -> ProcessId {
    ProcessId::new(std::process::id())
}

/// Processor time that this process has used.
pub(crate) fn process_cpu_ns() -> Option<u64> {
    cpu_clock_ns(rustix::time::ClockId::ProcessCPUTime)
}

/// Processor time that the calling thread has used: a system call.
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    cpu_clock_ns(rustix::time::ClockId::ThreadCPUTime)
}

fn cpu_clock_ns(clock: rustix::time::ClockId) -> Option<u64> {
    let used = rustix::time::clock_gettime(clock);
    let whole = u64::try_from(used.tv_sec)
        .ok()?
        .checked_mul(1_000_000_000)?;
    whole.checked_add(u64::try_from(used.tv_nsec).ok()?)
}

/// When this process started.
pub fn own_process_start() -> ProcessStart {
    process_start(process_id())
}

/// Whether the process that runs under `key`'s pid now is still the owner of its pool file.
pub fn is_alive(key: &ProcessKey) -> bool {
    key.pid.get() != 0 && process_start(key.pid) == key.start
}

/// Whether only this user may change the file: a regular file that the user owns, closed to others.
pub(crate) fn is_private(file: &impl AsFd) -> bool {
    let own = rustix::process::geteuid().as_raw();
    rustix::fs::fstat(file).is_ok_and(|stat| {
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        is_file && stat.st_uid == own && stat.st_mode & 0o077 == 0
    })
}

/// What the system knows about the error of its wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockError {
    /// Whether a service keeps the clock synchronised, for example with NTP.
    pub is_synchronized: bool,
    /// The largest possible difference from the correct time, in nanoseconds.
    pub most_ns: u64,
    /// The estimated difference, in nanoseconds.
    pub estimated_ns: u64,
}
