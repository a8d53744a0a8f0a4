//! Counts the system calls of one thread, as the kernel sees them.
//!
//! The thread installs a seccomp filter that reports every call to a listener
//! (`SECCOMP_RET_USER_NOTIF`). The listener, a thread of this program, counts the call and lets it
//! continue. The caller is blocked until the call is counted, so the difference of two reads of the
//! count is exact. No privilege is needed. The filter stays for the rest of the thread's life.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use anyhow::Result;

/// `_IOWR('!', number, T)` as the kernel's headers compute it.
const fn request<T>(number: libc::c_ulong) -> libc::c_ulong {
    (3 << 30) | ((size_of::<T>() as libc::c_ulong) << 16) | ((b'!' as libc::c_ulong) << 8) | number
}

const RECEIVE: libc::c_ulong = request::<libc::seccomp_notif>(0);
const SEND: libc::c_ulong = request::<libc::seccomp_notif_resp>(1);

/// The state that the watched thread and the listener share.
#[derive(Debug)]
struct Watch {
    /// The listener's descriptor: -1 until it is known, -2 if the filter was not installed.
    descriptor: AtomicI32,
    count: AtomicU64,
}

/// The count of all system calls of a thread.
#[derive(Debug)]
pub(super) struct Watched(Arc<Watch>);

impl Watched {
    /// Starts to count the system calls of the calling thread.
    pub(super) fn start() -> Result<Self> {
        let watch = Arc::new(Watch {
            descriptor: AtomicI32::new(-1),
            count: AtomicU64::new(0),
        });
        let listener = Arc::clone(&watch);
        std::thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || listener.listen())?;
        let installed = install_filter();
        // Nothing between the filter and this store may make a system call: the listener could not
        // answer it.
        watch
            .descriptor
            .store(*installed.as_ref().unwrap_or(&-2), Ordering::Release);
        installed?;
        Ok(Self(watch))
    }

    /// Returns the number of system calls that the calling thread makes in `body`.
    pub(super) fn syscalls_of(&mut self, body: impl FnOnce()) -> u64 {
        let before = self.0.count.load(Ordering::SeqCst);
        body();
        self.0.count.load(Ordering::SeqCst) - before
    }
}

/// Installs a filter on the calling thread that reports every system call. Returns the listener's
/// descriptor.
fn install_filter() -> io::Result<i32> {
    let report = libc::SECCOMP_RET_USER_NOTIF;
    // BPF_RET | BPF_K: the verdict for every call.
    let mut all = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: report,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut all,
    };
    // SAFETY: the call takes integers only. It sets a flag of this thread that prevents it from
    // gaining privileges by an exec.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    // SAFETY: `program` and its one instruction are alive during the call, which copies them.
    let descriptor = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if descriptor < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(i32::try_from(descriptor).unwrap_or(-2))
    }
}

impl Watch {
    /// Counts every call and lets it continue, until the watched thread has ended.
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
        // SAFETY: the kernel has just returned the descriptor, and no other code owns it.
        let listener = unsafe { OwnedFd::from_raw_fd(descriptor) };
        while let Some(call) = next_call(&listener) {
            self.count.fetch_add(1, Ordering::SeqCst);
            let_go(&listener, call);
        }
    }
}

/// Returns the number of the next call, or `None` when the thread has ended.
fn next_call(listener: &OwnedFd) -> Option<u64> {
    loop {
        let mut poll = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `poll` is one valid `pollfd`.
        let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
        if ready < 0 || poll.revents & libc::POLLIN == 0 {
            return None; // hung up: the thread has ended
        }
        // SAFETY: the struct consists of integers, for which zero is valid. The kernel requires
        // zeros.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif` of the size that is part of the request.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut call) } == 0 {
            return Some(call.id);
        }
    }
}

/// Lets a call continue unchanged.
fn let_go(listener: &OwnedFd, id: u64) {
    let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(0);
    let mut answer = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags,
    };
    // SAFETY: the kernel reads one `seccomp_notif_resp` of the size that is part of the request.
    let _ = unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, ptr::from_mut(&mut answer)) };
}
