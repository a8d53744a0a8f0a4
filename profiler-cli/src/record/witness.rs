//! A process that witnesses which signals the whole process group gets.
//!
//! Used by `stop`. A signal to this command is passed on to the program, unless the program has got
//! it as well: the terminal, `kill -TERM -GROUP` and service managers send a signal to all
//! processes. No process can see which signals another one has got. So a copy of this process,
//! which only waits, is in the same process group: what it has got, the group has got.
//!
//! The witness blocks all signals, and the system keeps them until it is asked. It holds no
//! descriptor but its socket, shows its own name and no arguments, so that a signal that is sent by
//! name is not one to the group, and ends with this process. Invariants: the copy only makes system
//! calls; a question is answered with all signals that were sent to the group before it.

#![allow(unsafe_code)]

use std::io::{Read, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::time::Duration;

use rustix::process::{Pid, WaitOptions};

#[cfg(target_os = "linux")]
use super::inheritance::{change_mask, full};
#[cfg(target_os = "linux")]
use crate::at_start;

/// The name of the process. At most 15 bytes.
pub(crate) const NAME: &str = "signal-witness";
#[cfg(target_os = "linux")]
const NAME_BYTES: &[u8; 15] = b"signal-witness\0";
/// Numbers of signals, from 0.
const NUMBERS: usize = 65;
/// How often each signal was sent.
type Counts = [u8; NUMBERS];
/// The longest time that a question takes. The witness may be stopped.
#[cfg(target_os = "linux")]
const LONGEST: Duration = Duration::from_secs(1);

/// The witness process.
#[derive(Debug)]
pub(super) struct GroupWitness {
    socket: UnixStream,
}

impl GroupWitness {
    /// Starts the process. `None` if the system refuses it.
    #[cfg(target_os = "linux")]
    pub(super) fn start() -> Option<(Self, WitnessEnd)> {
        let (socket, of_witness) = UnixStream::pair().ok()?;
        socket.set_read_timeout(Some(LONGEST)).ok()?;
        // From its first instruction, the copy keeps the signals that it gets.
        let mask = change_mask(libc::SIG_BLOCK, &full()).ok()?;
        // Not fork(3): neither the C library nor a preloaded library has anything to do here.
        // SAFETY: without flags, the call is fork(2). The copy calls only `witness`.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        match pid {
            // SAFETY: this is the copy, and the descriptor is open.
            0 => unsafe { witness(of_witness.as_raw_fd()) },
            pid => {
                let _ = change_mask(libc::SIG_SETMASK, &mask);
                let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
                let pid = Pid::from_raw(pid?)?;
                Some((Self { socket }, WitnessEnd(pid)))
            }
        }
    }

    /// There is none on this system.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn start() -> Option<(Self, WitnessEnd)> {
        None
    }

    /// How often each signal was sent to the group since the last question. `None` if the process
    /// does not answer.
    pub(super) fn ask(&mut self) -> Option<Counts> {
        let mut counts = [0; NUMBERS];
        finish_sending();
        self.socket.write_all(&[0]).ok()?;
        self.socket.read_exact(&mut counts).ok()?;
        Some(counts)
    }
}

/// Ends the process when it is dropped, so that no zombie is left.
#[derive(Debug)]
pub(super) struct WitnessEnd(Pid);

impl Drop for WitnessEnd {
    fn drop(&mut self) {
        // Otherwise it ends when the socket is closed.
        let _ = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.0), WaitOptions::empty());
    }
}

/// Waits until signals that are being sent to a group have been sent to all of its processes. The
/// system sends them under a lock that a change of a process group takes, too.
fn finish_sending() {
    // Changes nothing.
    let _ = rustix::process::setpgid(None, Some(rustix::process::getpgrp()));
}

/// Whether a process is in the process group of this one.
pub(super) fn is_in_group(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let group = pid.and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
    group == Some(rustix::process::getpgrp())
}

/// The witness: answers each byte with [`Counts`], until the socket is closed.
///
/// # Safety
/// Only in a copy of the process that has no other thread and blocks all signals; the descriptor
/// must be open.
#[cfg(target_os = "linux")]
unsafe fn witness(socket: i32) -> ! {
    let all = full();
    // SAFETY: this process uses no other descriptor.
    unsafe { keep_only(socket) };
    hide_arguments();
    // SAFETY: the name ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, NAME_BYTES.as_ptr()) };
    let mut question = [0_u8; 1];
    // SAFETY: one byte that lives through the call.
    while unsafe { libc::read(socket, question.as_mut_ptr().cast(), 1) } == 1 {
        let counts = take_pending(&all);
        // SAFETY: the array lives through the call.
        unsafe { libc::write(socket, counts.as_ptr().cast(), NUMBERS) };
    }
    // SAFETY: runs no function of the program.
    unsafe { libc::_exit(0) }
}

/// Takes the signals that wait.
#[cfg(target_os = "linux")]
fn take_pending(all: &libc::sigset_t) -> Counts {
    let mut counts: Counts = [0; NUMBERS];
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    loop {
        // SAFETY: the set and the time live through the call, which ends at once.
        let signal = unsafe { libc::sigtimedwait(all, std::ptr::null_mut(), &at_once) };
        let Ok(number) = usize::try_from(signal) else {
            return counts;
        };
        if let Some(count) = counts.get_mut(number) {
            *count = count.saturating_add(1);
        }
    }
}

/// Closes all other descriptors: pipes of the program and of this command would stay open.
///
/// # Safety
/// No code of this process may use another descriptor.
#[cfg(target_os = "linux")]
unsafe fn keep_only(socket: i32) {
    let close = |from: i64, to: i64| -> bool {
        // SAFETY: as above.
        from > to || unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } == 0
    };
    let number = i64::from(socket);
    if close(0, number - 1) && close(number + 1, i64::from(u32::MAX)) {
        return;
    }
    // Before Linux 5.9.
    for other in (0..65_536).filter(|other| *other != socket) {
        // SAFETY: as above.
        unsafe { libc::close(other) };
    }
}

/// Overwrites the arguments that the system shows, which are those of this command.
#[cfg(target_os = "linux")]
fn hide_arguments() {
    let (first, bytes) = at_start::shown_arguments();
    let name = NAME.as_bytes();
    if bytes < name.len() {
        return;
    }
    // SAFETY: the arguments are in writable memory of this process; nothing reads them.
    unsafe { std::ptr::write_bytes(first, 0, bytes) };
    // SAFETY: as above; they are not shorter than the name.
    unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), first, name.len()) };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_witness_has_what_was_sent_to_it_and_nothing_twice() {
        let (mut witness, end) = GroupWitness::start().unwrap();
        let pid = end.0;
        let send = |signal| rustix::process::kill_process(pid, signal).unwrap();
        send(rustix::process::Signal::USR1);
        send(rustix::process::Signal::TERM);
        let counts = witness.ask().unwrap();
        let seen = |signal: i32| counts[usize::try_from(signal).unwrap()];
        assert_eq!((seen(libc::SIGUSR1), seen(libc::SIGTERM)), (1, 1));
        assert_eq!(witness.ask().unwrap(), [0; NUMBERS]);
        let shown = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
        assert!(shown.unwrap().starts_with(NAME.as_bytes()));
    }

    #[test]
    fn the_witness_ends_with_its_owner() {
        let (_witness, end) = GroupWitness::start().unwrap();
        let pid = end.0;
        drop(end);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }
}
