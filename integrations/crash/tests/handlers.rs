//! The handlers of the program: called as without the profiler, or ignored, or the default.

use std::hint::black_box;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;
use test_support::own_process;

use crate::children::{CALLS_FILE, crashed, ran};
use crate::ways::fall;

/// Installs a handler.
pub(crate) fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: zeros are an action with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    (action.sa_sigaction, action.sa_flags) = (handler, flags);
    // SAFETY: the handler has the arguments that the flags promise.
    let failed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(failed, 0);
}

extern "C" fn exit_with_the_address(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the system passes it to the handler.
    let info = unsafe { &*info };
    // SAFETY: the signal of a fault has an address.
    let address = unsafe { info.si_addr() } as usize;
    let is_as_promised = signal == libc::SIGSEGV && address == 0x60 && !context.is_null();
    // SAFETY: ends the process.
    unsafe { libc::_exit(if is_as_promised { 42 } else { 43 }) };
}

#[test]
fn an_earlier_handler_is_called_with_the_arguments_of_the_system() {
    own_process!();
    let handler = exit_with_the_address as *const () as usize;
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let ended = crashed(|| handle(libc::SIGSEGV, handler, flags), || fall(0x60));
    assert_eq!(ended.status.code(), Some(42));
    let crash = ended.crash();
    assert_eq!(
        (crash.signal.as_str(), crash.address.as_str()),
        ("SIGSEGV", "0x60")
    );
}

static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: c_int) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn note_call(_: c_int) {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
    // SAFETY: a handler may call this function, and the name is a C string.
    let file = unsafe { libc::open(CALLS_FILE.as_ptr(), flags, 0o600) };
    // SAFETY: a handler may call this function, and the name has a byte.
    unsafe { libc::write(file, CALLS_FILE.as_ptr().cast(), 1) };
}

#[test]
fn a_handler_that_asks_for_one_call_is_called_once() {
    own_process!();
    let handler = note_call as *const () as usize;
    let flags = libc::SA_RESETHAND;
    // The instruction crashes again after the handler, with the default action.
    let ended = crashed(|| handle(libc::SIGSEGV, handler, flags), || fall(0x70));
    assert_eq!(ended.signal(), Some(libc::SIGSEGV));
    assert_eq!(ended.crash().address, "0x70");
    assert_eq!(ended.calls, 1);
}

/// Sends signals whose handler returns.
fn survive_aborts(times: u32) {
    for _ in 0..times {
        // SAFETY: the handler returns.
        unsafe { libc::raise(libc::SIGABRT) };
    }
}

#[test]
fn a_program_that_survives_its_faults_goes_on_and_its_verdict_is_unchanged() {
    own_process!();
    let ended = crashed(
        || handle(libc::SIGABRT, count as *const () as usize, 0),
        || {
            survive_aborts(300);
            assert_eq!(CALLS.load(Ordering::Relaxed), 300);
            exit(7);
        },
    );
    assert_eq!(
        (ended.status.code(), ended.verdict.as_str()),
        (Some(7), "complete")
    );
    assert!(!ended.crashes().is_empty());
}

#[test]
fn after_many_faults_that_the_program_survived_a_crash_is_recorded() {
    own_process!();
    let ended = crashed(
        || handle(libc::SIGABRT, count as *const () as usize, 0),
        || {
            survive_aborts(300);
            fall(0x80);
        },
    );
    let told = "SIGSEGV: address not mapped, at 0x80";
    assert!(ended.verdict.ends_with(told), "{}", ended.verdict);
}

#[test]
fn a_signal_that_the_program_ignores_stays_ignored() {
    own_process!();
    let ended = crashed(
        || handle(libc::SIGTRAP, libc::SIG_IGN, 0),
        || {
            // SAFETY: the signal is ignored.
            unsafe { libc::raise(libc::SIGTRAP) };
            exit(3);
        },
    );
    assert_eq!(
        (ended.status.code(), ended.verdict.as_str()),
        (Some(3), "complete")
    );
    assert!(ended.crashes().is_empty());
}

#[test]
fn a_second_installation_changes_nothing_and_a_later_handler_is_an_error() {
    own_process!();
    let ended = ran(|| {
        profiler_crash::install().unwrap();
        profiler_crash::prepare_thread().unwrap();
        handle(libc::SIGFPE, count as *const () as usize, 0);
        let error = profiler_crash::install().unwrap_err().to_string();
        let told = "another handler has replaced the one for signal 8";
        exit(if error == told { 0 } else { 1 });
    });
    assert_eq!(ended.status.code(), Some(0));
}

/// Crashes on a thread that the C library has made, without an alternate stack.
#[test]
fn a_thread_without_an_alternate_stack_is_recorded() {
    own_process!();
    extern "C" fn body(_: *mut libc::c_void) -> *mut libc::c_void {
        fall(0x90);
        std::ptr::null_mut()
    }
    let ended = crashed(
        || {},
        || {
            let mut thread = 0;
            let null = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: starts a thread, and waits for it.
            let failed = unsafe { libc::pthread_create(&raw mut thread, null.cast(), body, null) };
            assert_eq!(failed, 0);
            // SAFETY: as above.
            unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        },
    );
    let crash = ended.crash();
    assert_eq!(crash.address, "0x90");
    assert!(crash.has_function("read_address"), "{crash:?}");
    black_box(crash.pid);
}
