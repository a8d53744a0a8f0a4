//! Counts the system calls of one thread, as the kernel sees them.
//!
//! The thread gives itself a seccomp filter that reports every call to a listener
//! (`SECCOMP_RET_USER_NOTIF`); the listener, a thread of this program, counts the call and lets it
//! go on. The caller stands still until it is counted, so a look at the count before and after
//! some work is exact. No privilege is needed. The filter stays for the rest of the thread's life.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use anyhow::{Result, ensure};

/// `_IOWR('!', number, T)` as the kernel's headers compute it.
const fn request<T>(number: libc::c_ulong) -> libc::c_ulong {
    (3 << 30) | ((size_of::<T>() as libc::c_ulong) << 16) | ((b'!' as libc::c_ulong) << 8) | number
}

const RECEIVE: libc::c_ulong = request::<libc::seccomp_notif>(0);
const SEND: libc::c_ulong = request::<libc::seccomp_notif_resp>(1);

/// What the watched thread and the listener share.
#[derive(Debug)]
struct Watch {
    /// The listener's descriptor, -1 until it is there, -2 if it never will be.
    descriptor: AtomicI32,
    count: AtomicU64,
}

/// The calling thread, all of whose system calls are counted.
#[derive(Debug)]
pub(super) struct Watched(Arc<Watch>);

impl Watched {
    /// Has the calling thread watched from now on.
    pub(super) fn start() -> Result<Self> {
        let watch = Arc::new(Watch { descriptor: AtomicI32::new(-1), count: AtomicU64::new(0) });
        let listener = Arc::clone(&watch);
        std::thread::Builder::new().name("listener".to_owned()).spawn(move || listener.listen())?;
        let installed = install_filter();
        // Nothing between the filter and this store may make a system call: nobody would answer.
        watch.descriptor.store(*installed.as_ref().unwrap_or(&-2), Ordering::Release);
        installed?;
        Ok(Self(watch))
    }

    /// How many system calls the calling thread makes in `body`.
    pub(super) fn syscalls_of(&mut self, body: impl FnOnce()) -> Result<u64> {
        let before = self.0.count.load(Ordering::SeqCst);
        body();
        let after = self.0.count.load(Ordering::SeqCst);
        ensure!(after >= before, "the listener has gone");
        Ok(after - before)
    }
}

/// Gives the calling thread a filter that reports every system call.
fn install_filter() -> io::Result<i32> {
    let report = libc::SECCOMP_RET_USER_NOTIF;
    // BPF_RET | BPF_K: the verdict for every call.
    let mut all = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: report };
    let program = libc::sock_fprog { len: 1, filter: &raw mut all };
    // SAFETY: changes one flag of this thread; it can gain no privilege by an exec any more.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the program and its one instruction live through the call, which copies them.
    let descriptor = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::try_from(descriptor).unwrap_or(-2)) }
}

impl Watch {
    /// Counts and lets go every call until the watched thread has ended.
    fn listen(&self) {
        let descriptor = loop {
            match self.descriptor.load(Ordering::Acquire) {
                -1 => std::thread::yield_now(),
                other => break other,
            }
        };
        if descriptor < 0 {
            return;
        }
        // SAFETY: the descriptor was just made for us, and nobody else closes it.
        let listener = unsafe { OwnedFd::from_raw_fd(descriptor) };
        while let Some(call) = next_call(&listener) {
            self.count.fetch_add(1, Ordering::SeqCst);
            let_go(&listener, call);
        }
    }
}

/// Number of the next call; `None` when there will be none.
fn next_call(listener: &OwnedFd) -> Option<u64> {
    loop {
        let mut poll = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
        if ready < 0 || poll.revents & libc::POLLIN == 0 {
            return None; // hung up: the thread has ended
        }
        // SAFETY: integers only, for which zero is valid; the kernel asks for zeros.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif` of the size that is part of the request.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut call) } == 0 {
            return Some(call.id);
        }
    }
}

/// Lets a call go on as if nobody had looked.
fn let_go(listener: &OwnedFd, id: u64) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(0);
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags };
    // SAFETY: the kernel reads one `seccomp_notif_resp` of the size that is part of the request.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, ptr::from_mut(&mut answer)) };
}
