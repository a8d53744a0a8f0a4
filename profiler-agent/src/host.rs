//! What the agent learns about the program into which it was loaded.
//!
//! Used by `start`, before anything else. Invariant: nothing here changes the process.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use ipc_protocol::environment::{SESSION_VARIABLE, VARIABLE};
use profiler_child::JOIN_WAIT;
use profiler_core::internal::recorder_note::{self, Note};

/// Tells a later copy of the agent in a forked child that this file is one.
#[used]
#[unsafe(link_section = ".note.mp-agent")]
static NOTE: Note = Note::AGENT;

/// The variable that changes how long a program waits for the session.
const WAIT_VARIABLE: &str = "PROFILER_JOIN_WAIT_MS";
/// The longest time that the variable can set.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The profiler needs up to a dozen descriptors, in addition to the low numbers that it occupies in
/// its own table. Where it has none, a program with a limit below this one may have counted its
/// own.
const FEW_DESCRIPTORS: libc::rlim_t = 64;

/// The profiler's addresses are the memory limit of its session, and about 70 MiB for each of its
/// threads, most of which are never used. A program with a limit below this one, in bytes, may have
/// counted its own.
const LITTLE_MEMORY: libc::rlim_t = 4 << 30;

/// Functions of the run-time libraries of sanitizers. They replace the allocator and watch all
/// memory, so they would report the profiler's memory and threads.
const SANITIZERS: [&CStr; 4] = [
    c"__asan_init",
    c"__hwasan_init",
    c"__msan_init",
    c"__tsan_init",
];

/// Whether a profiler is asked for: one of its variables is in the environment.
pub(crate) fn is_profiled() -> bool {
    let has = |name| std::env::var_os(name).is_some();
    has(SESSION_VARIABLE) || has(VARIABLE)
}

/// The address of the session, as it is in the environment.
pub(crate) fn session_address() -> Option<CString> {
    let address = std::env::var_os(SESSION_VARIABLE)?;
    CString::new(address.into_encoded_bytes()).ok()
}

/// How long a program waits for the session: [`JOIN_WAIT`], unless the variable [`WAIT_VARIABLE`]
/// contains another number of milliseconds.
pub(crate) fn join_wait() -> Duration {
    let text = std::env::var(WAIT_VARIABLE).unwrap_or_default();
    let milliseconds = text.parse().map_or(JOIN_WAIT, Duration::from_millis);
    milliseconds.min(LONGEST_WAIT)
}

/// Whether the library was loaded with the program, and not later by `dlopen`.
///
/// The loader's list of files begins with those that it loads with the program, and contains the
/// loader itself behind most of them. A library that is behind the loader counts as loaded later.
pub(crate) fn is_loaded_at_start() -> bool {
    let mut search = Search {
        own: own_base(),
        // SAFETY: reads a value that the kernel has passed to the process.
        loader: unsafe { libc::getauxval(libc::AT_BASE) },
        is_first: false,
    };
    // SAFETY: `compare` has the signature that the loader calls, and `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(compare), (&raw mut search).cast()) };
    search.is_first
}

/// Looks for this library and for the loader, and notes whether the library is before the loader.
struct Search {
    own: u64,
    loader: u64,
    is_first: bool,
}

/// Called by the loader for each loaded file. Returns 1 to end the iteration.
unsafe extern "C" fn compare(
    file: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid description, which stays valid during the call.
    let Some(file) = (unsafe { file.as_ref() }) else {
        return 0;
    };
    // SAFETY: the pointer that `is_loaded_at_start` has passed, to a local of it.
    let Some(search) = (unsafe { search.cast::<Search>().as_mut() }) else {
        return 1;
    };
    search.is_first = file.dlpi_addr == search.own;
    c_int::from(search.is_first || file.dlpi_addr == search.loader)
}

/// The address at which this library is loaded; 0 if the loader does not tell it.
fn own_base() -> u64 {
    let mut about = MaybeUninit::<libc::Dl_info>::zeroed();
    let own = is_loaded_at_start as *const () as *const c_void;
    // SAFETY: the loader writes into a local of that type.
    unsafe { libc::dladdr(own, about.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the loader has written.
    let base = unsafe { about.assume_init() }.dli_fbase;
    base.addr() as u64
}

/// Whether the profiler must stay out of this process.
pub(crate) fn forbids() -> bool {
    is_privileged()
        || has_few_descriptors()
        || has_little_memory()
        || is_instrumented()
        || recorder_note::is_in_another_file()
}

/// Whether the process may have so little memory that that of the profiler is missing.
fn has_little_memory() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA]
        .into_iter()
        .any(|resource| limit(resource).is_some_and(|most| most < LITTLE_MEMORY))
}

/// A limit of this process.
fn limit(resource: libc::__rlimit_resource_t) -> Option<libc::rlim_t> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the system writes into a local of that type.
    let failed = unsafe { libc::getrlimit(resource, limit.as_mut_ptr()) };
    // SAFETY: zeros are valid, and so is what the system has written.
    let limit = unsafe { limit.assume_init() }.rlim_cur;
    (failed == 0).then_some(limit)
}

/// Whether the process may have so few descriptors that it may lack those of the profiler.
fn has_few_descriptors() -> bool {
    limit(libc::RLIMIT_NOFILE).is_some_and(|most| most < FEW_DESCRIPTORS)
}

/// Whether the process has more rights than its parent process, which has written the environment.
fn is_privileged() -> bool {
    // SAFETY: reads a value that the kernel has passed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the program is built with a sanitizer.
fn is_instrumented() -> bool {
    let is_present = |name: &&CStr| {
        // SAFETY: the name is terminated by a zero; looking a symbol up runs no code of it.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        !found.is_null()
    };
    let found = SANITIZERS.iter().any(is_present);
    // SAFETY: takes the message of a failed look-up, which the program would read as its own.
    let _ = unsafe { libc::dlerror() };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_program_may_be_profiled() {
        assert!(!is_privileged());
        assert!(!is_instrumented());
        assert!(!has_few_descriptors());
        assert!(!has_little_memory());
        assert!(is_loaded_at_start());
        // SAFETY: as above.
        assert!(unsafe { libc::dlerror() }.is_null());
    }
}
