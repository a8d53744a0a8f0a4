//! The sampler's signal: one handler for the life of the process, and a function that sends the
//! signal to one thread with a word.
//!
//! The signal is SIGURG and not SIGPROF, as in Gecko, because the system ignores a SIGURG without a
//! handler. A SIGURG that is pending while the process executes another program, or while the
//! program removes our handler, is lost; a SIGPROF would end the process. Go's runtime signals its
//! own threads with SIGURG for the same reason. Debuggers pass SIGURG on silently. Programs that
//! set a profiling timer keep SIGPROF for themselves.
//!
//! The previous handler is kept and still called, with the signal mask that it asked for. Ours is
//! never removed. If the program replaces our handler later, no more signals are sent
//! ([`is_ours`]).
//!
//! If two such signals are pending in one thread, the system keeps the first. So a signal that is
//! sent to a single thread (by the program itself, as Go does, or by the system for urgent data of
//! a socket whose owner is a thread) may be merged into ours. Therefore the previous handler is
//! also called after each signal of ours: it receives too many signals rather than too few. An
//! additional signal has the form of one that the thread sent to itself.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use profiler_sys::keeping_errno;

use crate::ids::ThreadId;

/// The signal that takes samples.
pub(crate) const SIGNAL: libc::c_int = libc::SIGURG;

/// The sampler's function for a word that came with a signal; returns false if the word is not its
/// own.
pub(crate) type Answer = unsafe fn(word: u64, context: *const libc::ucontext_t) -> bool;

static BEFORE: OnceLock<(libc::sigaction, Answer)> = OnceLock::new();

/// Installs our handler, unless it is installed. False if the program has replaced it.
///
/// # Errors
/// Errors of the system.
pub(crate) fn install(answer: Answer) -> io::Result<bool> {
    if BEFORE.get().is_some() {
        return Ok(is_ours());
    }
    // Stored before the first signal can arrive.
    let before = current(SIGNAL)?;
    if BEFORE.set((before, answer)).is_err() {
        return Ok(is_ours());
    }
    let action = action(&before, on_signal, restart_flag(&before));
    // SAFETY: the handler is a static function with the three arguments that SA_SIGINFO promises.
    let failed = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    if failed == 0 {
        Ok(true)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The type of a handler of three arguments.
pub(super) type Handler =
    unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// An action of one of our handlers, with these flags in addition to those that all of them have.
pub(super) fn action(
    before: &libc::sigaction,
    handler: Handler,
    flags: libc::c_int,
) -> libc::sigaction {
    let mut action = *before;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    // All other signals are blocked, so that no other handler leaves ours by a long jump. Faults
    // are not blocked, because the program must still be able to report them. `sigfillset` leaves
    // out the signals of the C library. One of them cancels a thread, which would unwind our
    // handler.
    // SAFETY: the set is ours, and is an array of bits that may have any value.
    unsafe { (&raw mut action.sa_mask).write_bytes(0xff, 1) };
    // SIGSYS is not blocked either: the program's sandbox may answer system calls with it.
    for fault in [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
    ] {
        // SAFETY: removes a valid signal from an initialised set.
        unsafe { libc::sigdelset(&raw mut action.sa_mask, fault) };
    }
    action
}

/// `SA_RESTART` or 0: whether the system restarts a system call that the signal interrupts.
///
/// A program that handles the signal itself has chosen this flag, and may rely on `EINTR` to end
/// its own waits. So its choice also applies to the sampler's signals, which are sent to threads
/// that run.
fn restart_flag(before: &libc::sigaction) -> libc::c_int {
    if is_handler(before.sa_sigaction) {
        before.sa_flags & libc::SA_RESTART
    } else {
        libc::SA_RESTART
    }
}

pub(super) fn is_handler(handler: libc::sighandler_t) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// The present action of a signal.
pub(super) fn current(signal: libc::c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action only the present one is written, into memory of its type.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written by the call; zeroed before it.
    Ok(unsafe { action.assume_init() })
}

/// Whether a signal that is sent now reaches our handler.
pub(crate) fn is_ours() -> bool {
    let is_ours = |action: libc::sigaction| {
        // Without the flag the handler would be called without the arguments that it reads.
        action.sa_sigaction == on_signal as *const () as usize
            && action.sa_flags & libc::SA_SIGINFO != 0
    };
    current(SIGNAL).is_ok_and(is_ours)
}

/// Whether the calling thread blocks this signal.
pub(crate) fn is_blocked_here(signal: libc::c_int) -> bool {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: without a new mask the call only writes the present one, into memory of its type.
    let failed =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr()) };
    // SAFETY: written by the call; zeroed before it.
    failed != 0 || unsafe { libc::sigismember(set.as_ptr(), signal) } == 1
}

/// Whether the system restarts calls that the signal interrupts, where it can. It does not if the
/// program wants its own signals to end them.
pub(crate) fn begins_calls_anew() -> bool {
    current(SIGNAL).is_ok_and(|action| action.sa_flags & libc::SA_RESTART != 0)
}

/// Sends the signal with a word to a thread of this process.
///
/// # Errors
/// `ESRCH` if it has ended, `EAGAIN` if too many signals are pending in it.
pub(crate) fn send(thread: ThreadId, word: u64) -> io::Result<()> {
    let tid = libc::pid_t::try_from(thread.get()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let pid = std::process::id().cast_signed();
    let info = with_word(pid, word);
    // SAFETY: the kernel reads 128 bytes of `info`, which has that size, and sends only to our own
    // process.
    let failed =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, SIGNAL, info.as_ptr()) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The data of a signal, in the kernel's layout on 64-bit machines.
type Info = [u64; 16];

const fn halves(low: i32, high: i32) -> u64 {
    low.cast_unsigned() as u64 | ((high.cast_unsigned() as u64) << 32)
}

fn with_word(pid: libc::pid_t, word: u64) -> Info {
    // SAFETY: has no arguments and cannot fail.
    let user = unsafe { libc::getuid() };
    let mut info = [0; 16];
    // Signal, error, code, padding, sender, its user, word.
    let [first, second, sender, value, ..] = &mut info;
    (*first, *second) = (halves(SIGNAL, 0), halves(libc::SI_QUEUE, 0));
    (*sender, *value) = (halves(pid, user.cast_signed()), word);
    info
}

/// The data of a signal that this process sends to one of its threads, as `tgkill(2)` does.
fn sent_to_self() -> Info {
    let mut info = with_word(std::process::id().cast_signed(), 0);
    let [_, code, ..] = &mut info;
    *code = halves(libc::SI_TKILL, 0);
    info
}

/// The signal handler. The functions that it calls allocate nothing, take no lock, and cannot
/// panic.
unsafe extern "C" fn on_signal(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    keeping_errno(|| {
        if let Some((before, answer)) = BEFORE.get() {
            // SAFETY: the kernel passed both to us, and they live until we return.
            let is_answered = unsafe { word_in(info) }
                .is_some_and(|word| unsafe { answer(word, context.cast_const().cast()) });
            if is_answered && is_handler(before.sa_sigaction) {
                let mut merged = sent_to_self();
                // SAFETY: the layout that the kernel uses for a signal of the program; it lives until
                // the handler returns.
                unsafe { chain(before, signal, merged.as_mut_ptr().cast(), context) };
            } else if !is_answered {
                // SAFETY: the arguments that the kernel passed to us go to the previous handler.
                unsafe { chain(before, signal, info, context) };
            }
        }
    });
}

/// The word of a signal that this process, or a timer, sent; `None` for any other signal.
///
/// # Safety
/// `info` is the one that the kernel passed to a handler that still runs.
unsafe fn word_in(info: *const libc::siginfo_t) -> Option<u64> {
    // SAFETY: the caller's promise.
    let info = unsafe { &*info };
    if info.si_code == libc::SI_TIMER {
        // SAFETY: a timer's signal has a value. Only timers of this process send it.
        return Some(unsafe { info.si_value() }.sival_ptr as u64);
    }
    if info.si_code != libc::SI_QUEUE {
        return None;
    }
    // SAFETY: a queued signal has a sender.
    let sender = unsafe { info.si_pid() };
    // In the child of a vfork, which shares our memory and our handler, the sender is another
    // process.
    // SAFETY: has no arguments and cannot fail.
    if sender != unsafe { libc::getpid() } {
        return None;
    }
    // SAFETY: a queued signal has a value.
    Some(unsafe { info.si_value() }.sival_ptr as u64)
}

/// Calls the previous handler, if there is one; otherwise the signal has no effect.
///
/// # Safety
/// The arguments are those of a handler that runs now.
unsafe fn chain(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let handler = before.sa_sigaction;
    if !is_handler(handler) {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { set_mask_of(before, context) };
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        type Full = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
        // SAFETY: the program installed it as a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Full>(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program installed it as a handler of one argument.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
        handler(signal);
    }
}

/// Sets the signal mask that the system would have set for the program's handler. Our handler
/// blocks all signals. It has no work left at this point, and the return from the handler restores
/// the previous mask.
///
/// # Safety
/// `context` is the one passed to a handler that runs now.
unsafe fn set_mask_of(before: &libc::sigaction, context: *const libc::c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller's promise.
    let interrupted = unsafe { &raw const (*context).uc_sigmask };
    // SAFETY: the kernel's mask is the first 64 bits of the C library's; the kernel writes no more
    // of it.
    let interrupted = unsafe { interrupted.cast::<u64>().read() };
    let mask = interrupted | mask_of(before);
    // SAFETY: the kernel reads 8 bytes; the C library's own signals stay as the program had them.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<u64>(),
            8_usize,
        )
    };
}

/// The signals that an action blocks while its handler runs.
fn mask_of(action: &libc::sigaction) -> u64 {
    // SAFETY: the set is longer than 64 bits on every system of this module.
    let asked = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
    let own = 1_u64 << (SIGNAL - 1);
    if action.sa_flags & libc::SA_NODEFER != 0 {
        asked
    } else {
        asked | own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_previous_handler_receives_a_signal_of_the_thread_to_itself() {
        let pid = std::process::id().cast_signed();
        let ours = with_word(pid, 0x9f0f_0000_0000_0012);
        // SAFETY: has the kernel's layout, and lives through the call.
        let word = unsafe { word_in(ours.as_ptr().cast()) };
        assert_eq!(word, Some(0x9f0f_0000_0000_0012));
        let merged = sent_to_self();
        // SAFETY: of the same layout and size.
        let info = unsafe { &*merged.as_ptr().cast::<libc::siginfo_t>() };
        // SAFETY: a signal of a thread to itself has a sender.
        let sender = unsafe { info.si_pid() };
        assert_eq!(
            (info.si_signo, info.si_code, sender),
            (SIGNAL, libc::SI_TKILL, pid)
        );
        // SAFETY: as above; a word that is not ours goes to the previous handler.
        assert_eq!(unsafe { word_in(merged.as_ptr().cast()) }, None);
    }

    #[test]
    fn the_handler_is_not_interrupted_by_the_signals_of_the_c_library() {
        let before = action(libc::SIG_DFL, 0);
        let ours = super::action(&before, on_signal, 0);
        let is_blocked = |signal: i32| {
            // SAFETY: the set is initialised.
            unsafe { libc::sigismember(&raw const ours.sa_mask, signal) == 1 }
        };
        // Signal 32 cancels a thread; signal 33 changes the user of all threads.
        assert!(is_blocked(32) && is_blocked(33) && is_blocked(libc::SIGALRM));
        assert!(!is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGSYS));
    }

    fn action(handler: usize, flags: libc::c_int) -> libc::sigaction {
        // SAFETY: all zeros are an action without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        action
    }

    #[test]
    fn a_programs_handler_decides_on_restarts_and_its_mask() {
        let handler = on_signal as *const () as usize;
        assert_eq!(restart_flag(&action(handler, 0)), 0);
        assert_eq!(
            restart_flag(&action(handler, libc::SA_RESTART)),
            libc::SA_RESTART
        );
        for none in [libc::SIG_DFL, libc::SIG_IGN] {
            assert_eq!(
                restart_flag(&action(none, 0)),
                libc::SA_RESTART,
                "the program has no handler"
            );
        }
        let mut action = action(handler, 0);
        assert_eq!(mask_of(&action), 1 << (SIGNAL - 1));
        action.sa_flags = libc::SA_NODEFER;
        assert_eq!(mask_of(&action), 0);
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1) };
        assert_eq!(mask_of(&action), 1 << (libc::SIGUSR1 - 1));
    }
}
