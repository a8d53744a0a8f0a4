//! Ctrl-C and similar signals, as events that a thread can wait for.
//!
//! Used by `record` and `view`, and by the commands that write files. The handler only writes one
//! byte to a socket, which is allowed on any thread at any time. Invariants: a signal that was
//! ignored when the command began stays ignored (`nohup`, a background job); programs that the
//! command starts do not inherit the handling.

pub(crate) use imp::Signals;

use profiler_files::output::remove_unfinished;
use profiler_sys::spawn_quiet;

use crate::progress::ProgressLine;

/// A caught signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caught {
    /// Its number.
    pub(crate) signal: i32,
    /// Whether the terminal sent it, to all processes of the foreground group.
    pub(crate) from_terminal: bool,
}

/// From now on, a signal removes unfinished files and the progress line, and then ends the command.
/// Call once per process, instead of [`Signals::catch`].
pub(crate) fn end_without_leftovers(line: &ProgressLine) -> std::io::Result<()> {
    let mut signals = Signals::catch()?;
    let line = line.clone();
    spawn_quiet("profiler-stop", move || {
        if let Ok(caught) = signals.next() {
            line.clear();
            end(caught);
        }
    })?;
    Ok(())
}

/// Removes unfinished files, and ends the command as the signal would have ended it: a shell then
/// ends the script that called the command, too.
pub(crate) fn end(caught: Caught) -> ! {
    remove_unfinished();
    imp::die_of(caught.signal)
}

#[cfg(unix)]
#[allow(unsafe_code)]
mod imp {
    use std::ffi::c_void;
    use std::io::{self, Read};
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, Ordering};

    #[cfg(not(any(target_vendor = "apple", target_os = "freebsd")))]
    use libc::__errno_location as errno_location;
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    use libc::__error as errno_location;

    use super::Caught;

    /// The signals that request an orderly end.
    const CAUGHT: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    /// A flag in the byte with the signal's number, which is smaller.
    const FROM_TERMINAL: u8 = 0x80;
    /// The socket to which the handler writes; -1 before anything is caught.
    static BELL: AtomicI32 = AtomicI32::new(-1);

    /// The signals of this process.
    #[derive(Debug)]
    pub(crate) struct Signals(UnixStream);

    impl Signals {
        /// Catches the signals from now on. Call once per process.
        pub(crate) fn catch() -> io::Result<Self> {
            let (receiver, bell) = UnixStream::pair()?;
            bell.set_nonblocking(true)?; // a full socket needs no further byte
            BELL.store(bell.into_raw_fd(), Ordering::Release);
            CAUGHT.into_iter().try_for_each(install)?;
            Ok(Self(receiver))
        }

        /// Waits for the next signal.
        pub(crate) fn next(&mut self) -> io::Result<Caught> {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            let [byte] = byte;
            let signal = i32::from(byte & !FROM_TERMINAL);
            Ok(Caught {
                signal,
                from_terminal: byte & FROM_TERMINAL != 0,
            })
        }
    }

    fn install(signal: i32) -> io::Result<()> {
        // SAFETY: all of its fields may be zero: no flags, an empty mask, the default action.
        let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: only queries; `old` lives through the call.
        if unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) } != 0 {
            return Err(io::Error::last_os_error());
        }
        if old.sa_sigaction == libc::SIG_IGN {
            return Ok(());
        }
        let mut new = old;
        new.sa_sigaction = ring as extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) as usize;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler makes one write(2) and restores errno; `new` lives through the call.
        match unsafe { libc::sigaction(signal, &new, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Ends this process by the default action of a signal.
    pub(super) fn die_of(signal: i32) -> ! {
        // SAFETY: the default action refers to no function.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: sends this process one of the signals that it has caught. Its main thread does
        // not block them.
        unsafe { libc::kill(std::process::id().cast_signed(), signal) };
        std::thread::sleep(std::time::Duration::from_secs(1));
        // Reached only if the program that started this command made it block the signal.
        std::process::exit(128 + signal)
    }

    extern "C" fn ring(signal: i32, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
        let is_kernels = !info.is_null() && unsafe { (*info).si_code } > 0;
        let byte = (signal & 0x7f) as u8 | if is_kernels { FROM_TERMINAL } else { 0 };
        // SAFETY: returns the calling thread's own errno, which outlives this call.
        let errno = unsafe { errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        // SAFETY: one byte that lives through the call; a wrong descriptor would only cause an
        // error.
        unsafe { libc::write(BELL.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
        // SAFETY: as above.
        unsafe { *errno = before };
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn signals_of_a_process_and_of_the_terminal_are_distinguished() {
            // The process that runs the tests may ignore it, as nohup does.
            // SAFETY: every signal has the default action.
            unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
            let mut signals = Signals::catch().unwrap();
            let own = std::process::id().cast_signed();
            // SAFETY: sends this process a signal that it has just begun to catch.
            unsafe { libc::kill(own, libc::SIGHUP) };
            assert_eq!(
                signals.next().unwrap(),
                Caught {
                    signal: libc::SIGHUP,
                    from_terminal: false
                }
            );
            let byte = FROM_TERMINAL | libc::SIGINT as u8;
            // SAFETY: one byte that lives through the call.
            unsafe { libc::write(BELL.load(Ordering::Acquire), (&raw const byte).cast(), 1) };
            assert_eq!(
                signals.next().unwrap(),
                Caught {
                    signal: libc::SIGINT,
                    from_terminal: true
                }
            );
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::io;

    use super::Caught;

    /// Ends this process.
    pub(super) fn die_of(signal: i32) -> ! {
        std::process::exit(128 + signal)
    }

    /// Signals are not caught on this system: Ctrl-C ends the command.
    #[derive(Debug)]
    pub(crate) struct Signals;

    impl Signals {
        /// Catches nothing.
        pub(crate) fn catch() -> io::Result<Self> {
            Ok(Self)
        }

        /// Never returns.
        pub(crate) fn next(&mut self) -> io::Result<Caught> {
            loop {
                std::thread::park();
            }
        }
    }
}
