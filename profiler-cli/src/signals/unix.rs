//! The handler of signals. It only writes one byte to a socket, which is allowed on any thread at
//! any time.
//!
//! Invariant: an error of the command's own code (`SIGSEGV`, `abort`) has the effect that it has
//! without the handler.

use std::ffi::c_void;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use profiler_sys::keeping_errno;

use super::Caught;
use crate::at_start;

/// The signals that request an orderly end.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// The other signals for a program, apart from real-time signals: those that end a process by
/// default, and those that only mean something to a program that handles them. The signals of job
/// control have their usual effect (`SIGTSTP`, `SIGCONT`).
const FOR_PROGRAMS: [i32; 17] = [
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPIPE,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGFPE,
    libc::SIGWINCH,
    libc::SIGTTIN,
    libc::SIGTTOU,
];
/// The signals for a program that only Linux has, without the real-time signals.
#[cfg(target_os = "linux")]
const FOR_PROGRAMS_OF_LINUX: [i32; 2] = [libc::SIGPWR, libc::SIGSTKFLT];
/// A flag in the byte with the signal's number, which is smaller.
const FROM_SYSTEM: u8 = 0x80;
/// The socket to which the handler writes; -1 before anything is caught.
static BELL: AtomicI32 = AtomicI32::new(-1);

/// All signals that [`Signals::catch_all`] catches.
pub(crate) fn caught() -> impl Iterator<Item = i32> {
    let all = ENDING.into_iter().chain(FOR_PROGRAMS);
    #[cfg(target_os = "linux")]
    let all = all
        .chain(FOR_PROGRAMS_OF_LINUX)
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all
}

/// The signals of this process.
#[derive(Debug)]
pub(crate) struct Signals(UnixStream);

impl Signals {
    /// Catches the requests to end from now on, unless they are ignored. Call once per process.
    pub(crate) fn catch() -> io::Result<Self> {
        let acts = |signal: &i32| !at_start::is_ignored_now(*signal);
        Self::catch_these(ENDING.into_iter().filter(acts))
    }

    /// Catches every signal that a program may get, also those that were ignored when this process
    /// began: a program may handle them all the same. Call once per process.
    pub(crate) fn catch_all() -> io::Result<Self> {
        Self::catch_these(caught())
    }

    fn catch_these(mut signals: impl Iterator<Item = i32>) -> io::Result<Self> {
        let (receiver, bell) = UnixStream::pair()?;
        bell.set_nonblocking(true)?; // a full socket needs no further byte
        BELL.store(bell.into_raw_fd(), Ordering::Release);
        signals.try_for_each(install)?;
        Ok(Self(receiver))
    }

    /// Waits for the next signal.
    pub(crate) fn next(&mut self) -> io::Result<Caught> {
        let mut byte = [0];
        self.0.set_read_timeout(None)?;
        self.0.read_exact(&mut byte)?;
        Ok(parse(byte))
    }

    /// Waits for the next signal, at most this long.
    pub(crate) fn next_within(&mut self, time: Duration) -> io::Result<Option<Caught>> {
        let mut byte = [0];
        // The system has no time-out of zero.
        self.0
            .set_read_timeout(Some(time.max(Duration::from_micros(1))))?;
        match self.0.read_exact(&mut byte) {
            Ok(()) => Ok(Some(parse(byte))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn parse([byte]: [u8; 1]) -> Caught {
    Caught {
        signal: i32::from(byte & !FROM_SYSTEM),
        from_system: byte & FROM_SYSTEM != 0,
    }
}

fn install(signal: i32) -> io::Result<()> {
    // SAFETY: all of its fields may be zero: no flags, an empty mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    // One after the other, in the order in which the system delivers them.
    // SAFETY: the set lives through the call.
    unsafe { libc::sigfillset(&mut new.sa_mask) };
    new.sa_sigaction = ring as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler makes some system calls and restores errno; `new` lives through the call.
    match unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a signal the action that this process had for it when it began. Only makes system calls.
pub(crate) fn restore(signal: i32) {
    let action = match at_start::ignored(signal) {
        true => libc::SIG_IGN,
        false => libc::SIG_DFL,
    };
    // SAFETY: neither action refers to a function.
    unsafe { libc::signal(signal, action) };
}

/// Ends this process by the default action of a signal.
pub(super) fn die_of(signal: i32) -> ! {
    // SAFETY: the default action refers to no function.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let mut only = MaybeUninit::uninit();
    // SAFETY: the call initialises the set, which lives through it.
    unsafe { libc::sigemptyset(only.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::sigaddset(only.as_mut_ptr(), signal) };
    // SAFETY: the set is initialised; the calling thread ends here.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: sends this process a signal.
    unsafe { libc::kill(std::process::id().cast_signed(), signal) };
    std::thread::sleep(Duration::from_secs(1));
    // Reached only if the signal ends no process: one that a debugger has taken.
    std::process::exit(128 + signal)
}

/// Makes a later death of this process leave no core dump.
pub(super) fn dump_no_core() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `none` lives through the call. An error: there may be a core dump.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    // A program that receives core dumps ignores the limit.
    #[cfg(target_os = "linux")]
    // SAFETY: changes a flag of this process.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)
    };
}

/// What a signal means, by its sender.
enum Origin {
    /// A process has sent it, or the system has, for the terminal or a timer of the process.
    Sender { is_system: bool },
    /// An instruction of this process has caused it, and causes it again.
    OwnFault,
    /// It is about this process itself: a broken pipe, a limit, `abort`.
    Own,
    /// The terminal stops the processes of a background job.
    JobControl,
}

fn origin(signal: i32, info: *const libc::siginfo_t) -> Origin {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let Some(info) = (unsafe { info.as_ref() }) else {
        return Origin::Sender { is_system: false };
    };
    let is_system = info.si_code > 0;
    // SAFETY: the field exists if a process has sent the signal.
    let sender = || unsafe { info.si_pid() };
    let is_own = !is_system && sender() == std::process::id().cast_signed();
    match signal {
        libc::SIGTRAP | libc::SIGSYS | libc::SIGFPE | libc::SIGABRT if is_system => {
            Origin::OwnFault
        }
        libc::SIGXCPU | libc::SIGXFSZ | libc::SIGPIPE if is_system => Origin::Own,
        libc::SIGTTIN | libc::SIGTTOU if is_system => Origin::JobControl,
        _ if is_own => Origin::Own,
        _ => Origin::Sender { is_system },
    }
}

extern "C" fn ring(signal: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
    keeping_errno(|| match origin(signal, info) {
        Origin::Own => {}
        // SAFETY: the default action refers to no function.
        Origin::OwnFault => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
        // SAFETY: sends this process a signal.
        Origin::JobControl => unsafe {
            libc::kill(std::process::id().cast_signed(), libc::SIGSTOP);
        },
        Origin::Sender { is_system } => write((signal & 0x7f) as u8, is_system),
    });
}

fn write(signal: u8, is_system: bool) {
    let byte = signal | if is_system { FROM_SYSTEM } else { 0 };
    // SAFETY: one byte that lives through the call; a wrong descriptor would only cause an error.
    unsafe { libc::write(BELL.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_a_process_and_of_the_system_are_distinguished() {
        // The process that runs the tests may ignore it, as nohup does.
        let mut signals = Signals::catch_these([libc::SIGHUP].into_iter()).unwrap();
        let own = std::process::id();
        // Another process, because a signal of this one is about itself.
        let sent = std::process::Command::new("kill")
            .args(["-HUP", &own.to_string()])
            .status();
        assert!(sent.unwrap().success());
        let caught = |signal, from_system| Caught {
            signal,
            from_system,
        };
        assert_eq!(signals.next().unwrap(), caught(libc::SIGHUP, false));
        // SAFETY: sends this process a signal that it catches.
        unsafe { libc::kill(own.cast_signed(), libc::SIGHUP) };
        let none = signals.next_within(Duration::from_millis(1));
        assert_eq!(none.unwrap(), None);
        write(libc::SIGINT as u8, true);
        assert_eq!(signals.next().unwrap(), caught(libc::SIGINT, true));
    }
}
