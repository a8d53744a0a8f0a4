//! The profiler's own threads and descriptors in a host process, files of the host, and what the
//! system says about processes and threads.
//!
//! Used by all crates of the profiler that start a thread, keep a descriptor or open a file of the
//! program. It knows nothing of pools, sessions or profiles. Not an interface for applications.
//!
//! Invariants: a thread of the profiler never runs a signal handler of the host
//! ([`spawn_quiet`]); a descriptor that the program has closed is neither used nor closed again
//! ([`OwnDescriptor`]); a file of the program is opened and closed without an effect on the
//! program's locks ([`ForeignFile`], [`FoundFile`]).
//!
//! `linux` is complete; `portable` has the same functions for other systems, and is compiled and
//! tested on Linux with `--cfg profiler_portable`.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(all(target_os = "linux", not(profiler_portable)))]
#[path = "linux.rs"]
mod imp;

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable.rs"]
mod imp;

mod address_space;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod crash_cause;
mod descriptor;
mod descriptor_table;
mod errno;
mod file_identity;
mod file_stamp;
mod foreign_file;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod found_file;
#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
#[path = "portable_found_file.rs"]
mod found_file;
mod maps;
mod native_thread;
#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod other_process;
mod own_threads;
mod page_size;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod process_stat;
mod renewable;
mod secret;
#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod tasks;
mod tell;
#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod thread_activity;
mod thread_id;
mod threads;
mod wake;

pub use address_space::check_address_space;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub use crash_cause::CrashCause;
pub use descriptor::{
    DescriptorLost, OwnDescriptor, OwnFile, above_streams, allocated_bytes, open_file, read_file,
    read_text,
};
pub use descriptor_table::{
    DescriptorTable, end_profiler_table, enter_own_table, leave_program_table, occupy_low_numbers,
};
pub use errno::keeping_errno;
pub use file_identity::FileIdentity;
pub use file_stamp::FileStamp;
pub use foreign_file::ForeignFile;
pub use found_file::{FoundFile, open_regular};
pub use imp::{
    current_thread_number, descriptor_limit, path_of, read_at, vdso_image, wake_precisely,
};
pub use maps::{Mapping, Maps};
pub use own_threads::{own_thread_count, own_thread_numbers};
pub use page_size::page_size;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub use process_stat::{ProcessStat, open_process};
pub use renewable::Renewable;
pub use secret::new_secret;
pub use tell::tell;
pub use thread_id::current_thread_id;
pub use threads::{
    QuietThread, is_quiet_thread, run_quiet, spawn_quiet, spawn_quiet_for_host_code,
};
pub use wake::{wait_on_word, wake_word};

/// In a forked child that begins anew, whose only thread is the calling one: forgets what is kept
/// about the threads and files of the parent.
///
/// # Safety
/// The process is a forked child, and the calling thread is its only one: elsewhere, descriptors of
/// the profiler would be taken for those of the program, and the reverse.
#[doc(hidden)]
#[allow(unsafe_code)]
pub unsafe fn forget_parent() {
    own_threads::forget_parent();
    descriptor_table::forget_parent();
    foreign_file::forget_parent();
}
