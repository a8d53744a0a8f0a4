//! Every way to crash is recorded, and the process ends as it does without the profiler.

use std::os::unix::process::ExitStatusExt;

use test_support::own_process;

use crate::children::crashed;
use crate::ways::WAYS;

/// Checks the way of this name.
fn check(name: &str) {
    let way = WAYS.iter().find(|way| way.name == name).unwrap();
    let ended = crashed(|| {}, way.crash);
    assert!(ended.signal().is_some(), "{:?}", ended.status);
    let crash = ended.crash();
    assert!(way.signals.contains(&crash.signal.as_str()), "{crash:?}");
    assert!(ended.verdict.contains(way.told), "{}", ended.verdict);
    let told = format!(": {}: {}", crash.signal, crash.reason);
    assert!(ended.verdict.contains(&told), "{} {told}", ended.verdict);
    assert!(crash.has_function(way.function), "{crash:?}");
    assert!(crash.registers.contains("sp=0x"), "{crash:?}");
}

macro_rules! ways {
    ($($rule:ident: $name:literal;)*) => {$(
        #[test]
        fn $rule() {
            own_process!();
            check($name);
        }
    )*};
}

ways! {
    an_access_to_an_address_without_memory_is_recorded: "read";
    a_write_to_code_is_recorded: "write";
    a_read_behind_the_end_of_a_file_is_recorded: "bus";
    an_illegal_instruction_is_recorded: "illegal";
    a_division_by_zero_is_recorded: "divide";
    an_abort_is_recorded: "abort";
    a_breakpoint_is_recorded: "trap";
    a_signal_that_the_process_sends_to_itself_is_recorded: "sent";
    a_jump_to_an_address_without_code_shows_the_caller: "jump";
    a_smashed_stack_is_recorded: "smashed stack";
    a_lost_stack_pointer_is_recorded: "lost stack";
}

#[test]
fn an_overflow_of_the_stack_is_recorded_and_the_standard_library_reports_it() {
    own_process!();
    check("overflow");
}

#[test]
fn an_overflow_in_a_named_thread_is_on_that_thread() {
    own_process!();
    let ended = crashed(|| {}, || crate::ways::crash("overflow of a thread"));
    // The standard library aborts after its report.
    assert_eq!(ended.signal(), Some(libc::SIGABRT), "{}", ended.verdict);
    let told = "recovered: crashed with signal 6 (SIGABRT";
    assert!(ended.verdict.starts_with(told), "{}", ended.verdict);
    let crash = ended.crash();
    assert_eq!(
        (crash.thread.as_str(), crash.signal.as_str()),
        ("deep", "SIGSEGV")
    );
    assert_eq!(crash.reason, "stack overflow");
    assert!(
        crash.stack.len() > 50 && crash.has_function("recurse"),
        "{crash:?}"
    );
}

/// Allows core dumps, as far as the system does.
fn allow_core_dumps() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads the limit.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
}

/// Whether a core dump is a file in the present directory.
fn have_core_dumps() -> bool {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_CORE, &raw mut limit) };
    pattern.trim() == "core" && limit.rlim_max > 1 << 30
}

/// The statuses that are compared have the flag of a core dump.
#[test]
fn a_core_dump_is_made_as_without_the_handlers() {
    own_process!();
    let ended = crashed(allow_core_dumps, || crate::ways::crash("sent"));
    assert_eq!(ended.signal(), Some(libc::SIGILL));
    assert!(ended.verdict.contains("SIGILL"), "{}", ended.verdict);
    assert!(ended.status.core_dumped() || !have_core_dumps());
}

#[test]
fn a_core_dump_of_a_fault_is_made_as_without_the_handlers() {
    own_process!();
    let ended = crashed(allow_core_dumps, || crate::ways::crash("bus"));
    assert_eq!(ended.signal(), Some(libc::SIGBUS));
    assert!(ended.status.core_dumped() || !have_core_dumps());
}
