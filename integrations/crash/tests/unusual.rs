//! Faults in the recording itself, signals that arrive meanwhile, and handlers that do not return.

use std::hint::{black_box, spin_loop};
use std::os::unix::process::ExitStatusExt;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::c_int;
use test_support::{own_process, patience};

use crate::children::{crashed, crashed_unless_killed, ran};
use crate::handlers::handle;
use crate::ways::{fall, raise};

extern "C" fn exit_42(_: c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(42) };
}

/// Takes the access to the shared memory that the process has mapped, as a part of the recording's.
/// If a thread of the profiler accesses the memory first, the kernel ends the process by `SIGSEGV`,
/// because that thread blocks all signals.
fn lose_shared_memory() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lost = maps.lines().filter(|line| line.contains("rw-s"));
    let mut count = 0;
    for line in lost {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        // SAFETY: none: the recording crashes, as it should.
        unsafe { libc::mprotect(start as *mut _, end - start, libc::PROT_NONE) };
        count += 1;
    }
    assert!(count > 0, "{maps}");
}

#[test]
fn a_fault_in_the_recording_ends_neither_the_process_nor_its_handler() {
    own_process!();
    let ended = crashed_unless_killed(
        || handle(libc::SIGSEGV, exit_42 as *const () as usize, 0),
        || {
            lose_shared_memory();
            fall(0x60);
        },
        |status| status.code() == Some(42),
    );
    assert!(ended.crashes().is_empty(), "the recording has failed");
}

#[test]
fn after_a_fault_in_the_recording_the_default_action_is_that_of_the_crash() {
    own_process!();
    crashed_unless_killed(
        || {},
        || {
            lose_shared_memory();
            raise(libc::SIGILL);
        },
        |status| status.signal() == Some(libc::SIGILL),
    );
}

static CALLS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: c_int) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn signals_that_are_sent_during_a_recording_are_handled_afterwards() {
    own_process!();
    let ended = crashed(
        || handle(libc::SIGILL, count as *const () as usize, 0),
        || {
            static IS_DONE: AtomicBool = AtomicBool::new(false);
            // SAFETY: names the calling thread.
            let target = unsafe { libc::pthread_self() };
            let builder = std::thread::Builder::new();
            let sender = builder.spawn(move || {
                // Signals that arrive during a recording are one signal afterwards.
                let is_enough = || {
                    for _ in 0..20 {
                        // SAFETY: the thread lives until this one has ended.
                        unsafe { libc::pthread_kill(target, libc::SIGILL) };
                    }
                    CALLS.load(Ordering::Relaxed) > 1
                };
                patience::until(is_enough);
                IS_DONE.store(true, Ordering::Release);
            });
            while !IS_DONE.load(Ordering::Acquire) {
                spin_loop();
            }
            sender.unwrap().join().unwrap();
            exit(if CALLS.load(Ordering::Relaxed) > 1 {
                7
            } else {
                8
            });
        },
    );
    assert_eq!(ended.status.code(), Some(7), "{}", ended.verdict);
    assert!(ended.crashes().len() > 1);
}

extern "C" fn need_stack(_: c_int) {
    let room = black_box([1_u8; 64 * 1024]);
    let sum: u64 = room.iter().map(|byte| u64::from(*byte)).sum();
    // SAFETY: ends the process.
    unsafe { libc::_exit(if sum == 64 * 1024 { 42 } else { 43 }) };
}

#[test]
fn a_handler_that_is_not_on_the_alternate_stack_has_the_ordinary_one() {
    own_process!();
    let handler = need_stack as *const () as usize;
    let ended = crashed(|| handle(libc::SIGSEGV, handler, 0), || fall(0x70));
    assert_eq!(ended.status.code(), Some(42), "{}", ended.verdict);
    assert_eq!(ended.crash().address, "0x70");
}

extern "C" fn abort_in_handler(_: c_int) {
    std::process::abort();
}

/// Checks a handler with these flags that aborts.
fn check_abort_in_handler(flags: c_int) {
    let handler = abort_in_handler as *const () as usize;
    let ended = crashed(|| handle(libc::SIGSEGV, handler, flags), || fall(0x80));
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.verdict);
    assert_eq!(ended.crash().signal, "SIGSEGV");
    let told = "SIGSEGV: address not mapped, at 0x80";
    assert!(ended.verdict.ends_with(told), "{}", ended.verdict);
}

#[test]
fn an_abort_in_an_earlier_handler_is_no_second_crash() {
    own_process!();
    check_abort_in_handler(0);
}

#[test]
fn an_abort_in_an_earlier_handler_on_the_alternate_stack_is_no_second_crash() {
    own_process!();
    check_abort_in_handler(libc::SA_ONSTACK);
}

/// Where [`leave`] goes on, on another stack.
static mut ELSEWHERE: std::mem::MaybeUninit<libc::ucontext_t> = std::mem::MaybeUninit::uninit();

extern "C" fn go_on() {
    std::process::abort();
}

extern "C" fn leave(_: c_int) {
    let context = &raw const ELSEWHERE;
    // SAFETY: the context was made before, and its stack stays.
    unsafe { libc::setcontext(context.cast()) };
}

/// A handler that never returns, as one that calls `siglongjmp`.
fn handle_by_leaving() {
    let stack = Box::leak(vec![0_u8; 256 * 1024].into_boxed_slice());
    let context: *mut libc::ucontext_t = (&raw mut ELSEWHERE).cast();
    // SAFETY: fills the context in.
    unsafe { libc::getcontext(context) };
    // SAFETY: it is filled in, and no other thread uses it.
    let stack_of_context = unsafe { &mut (*context).uc_stack };
    stack_of_context.ss_sp = stack.as_mut_ptr().cast();
    stack_of_context.ss_size = stack.len();
    // SAFETY: the context has a stack that stays.
    unsafe { libc::makecontext(context, go_on, 0) };
    let flags = libc::SA_ONSTACK;
    handle(libc::SIGSEGV, leave as *const () as usize, flags);
}

#[test]
fn an_abort_after_a_handler_that_did_not_return_is_recorded() {
    own_process!();
    let ended = crashed(handle_by_leaving, || fall(0x90));
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.verdict);
    let mut signals: Vec<_> = ended.crashes().into_iter().map(|one| one.signal).collect();
    signals.sort();
    assert_eq!(signals, ["SIGABRT", "SIGSEGV"]);
    let told = "SIGABRT: aborted";
    assert!(ended.verdict.ends_with(told), "{}", ended.verdict);
}

/// A signal with the data of a fault, but without an instruction that crashes again.
fn queue_fault(signal: c_int) {
    // SAFETY: zeros are valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    (info.si_signo, info.si_code) = (signal, 1);
    let process = std::process::id();
    // SAFETY: has no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    let (call, info) = (libc::SYS_rt_tgsigqueueinfo, &raw const info);
    // SAFETY: reads the data, and sends the signal to this thread.
    unsafe { libc::syscall(call, process, thread, signal, info) };
}

#[test]
fn a_fault_that_does_not_repeat_ends_the_process() {
    own_process!();
    let ended = crashed(|| {}, || queue_fault(libc::SIGFPE));
    assert_eq!(ended.signal(), Some(libc::SIGFPE), "{}", ended.verdict);
    assert_eq!(ended.crash().reason, "integer division by zero");
}

#[test]
fn a_second_installation_replaces_a_default() {
    own_process!();
    let ended = ran(|| {
        handle(libc::SIGFPE, libc::SIG_DFL, 0);
        profiler_crash::install().unwrap();
        raise(libc::SIGFPE);
    });
    assert_eq!(ended.signal(), Some(libc::SIGFPE), "{}", ended.verdict);
    assert_eq!(ended.crash().signal, "SIGFPE");
}

extern "C" fn prepare_this(_: *mut libc::c_void) -> *mut libc::c_void {
    profiler_crash::prepare_thread().unwrap();
    std::ptr::null_mut()
}

#[test]
fn the_alternate_stack_of_a_thread_is_freed_with_the_thread() {
    own_process!();
    let mappings = || {
        std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count()
    };
    let mut first = 0;
    for number in 0..200 {
        let mut thread = 0;
        let null = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: starts a thread, and waits for it.
        let failed =
            unsafe { libc::pthread_create(&raw mut thread, null.cast(), prepare_this, null) };
        assert_eq!(failed, 0);
        // SAFETY: the thread was started, and is joined once.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        if number == 0 {
            first = mappings();
        }
    }
    assert!(mappings() < first + 100, "{first} {}", mappings());
}
