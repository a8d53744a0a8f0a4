//! The states of a process in which the system reports more or less about the threads of the
//! process.
//!
//! Used by [`super::play`], which enters one of them.

#![allow(unsafe_code)]

use std::io;

use anyhow::{Result, ensure};

/// A user without special rights.
pub(super) const UNPRIVILEGED: libc::uid_t = 65534;

/// A state of the process, which determines what it can learn about its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostSetup {
    /// Everything is reported.
    Plain,
    /// The process has become another user. The files about its threads that only their owner may
    /// read belong to root.
    Setuid,
    /// The process is not dumpable. The same files belong to root.
    NotDumpable,
    /// There is no `/proc`.
    NoProc,
    /// A filter of system calls prevents the process from opening files.
    Seccomp,
}

impl HostSetup {
    /// All states, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("plain", Self::Plain),
        ("setuid", Self::Setuid),
        ("not_dumpable", Self::NotDumpable),
        ("no_proc", Self::NoProc),
        ("seccomp", Self::Seccomp),
    ];

    /// Returns the state with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, scene)| scene)
    }

    /// Returns whether the system reports which threads run. If it does, the sampler signals these
    /// threads for their stacks.
    pub const fn reports_running_threads(self) -> bool {
        matches!(self, Self::Plain | Self::Setuid | Self::NotDumpable)
    }

    /// Returns why this process cannot enter the state, or `None` if it can.
    pub fn missing(self) -> Option<String> {
        let needs_root = matches!(self, Self::Setuid | Self::NoProc);
        let is_root = rustix::process::geteuid().is_root();
        (needs_root && !is_root).then(|| "needs root".to_owned())
    }

    /// Takes the steps that a process with several threads cannot take, before anything is sampled.
    pub(super) fn prepare(self) -> Result<()> {
        match self {
            Self::NoProc => {
                // SAFETY: takes only numbers. Moves the only thread into a new mount namespace.
                done(unsafe { libc::unshare(libc::CLONE_NEWNS) }, "unshare")?;
                let none = std::ptr::null();
                let flags = libc::MS_REC | libc::MS_PRIVATE;
                // SAFETY: the names end with a zero. From here on, mounts change only this
                // namespace.
                let failed =
                    unsafe { libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()) };
                done(failed, "private mounts")
            }
            // Root can read the files even if the process is not dumpable. The change of the user
            // also makes the process not dumpable, which is undone until `enter`.
            Self::NotDumpable if rustix::process::geteuid().is_root() => {
                become_unprivileged()?;
                set_dumpable(1)
            }
            _ => Ok(()),
        }
    }

    /// Enters the state, while the process is sampled.
    pub(super) fn enter(self) -> Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Setuid => become_unprivileged(),
            Self::NotDumpable => set_dumpable(0),
            Self::NoProc => {
                let kind = c"tmpfs".as_ptr();
                let none = std::ptr::null();
                // SAFETY: the names end with a zero. Changes only the namespace of this process.
                done(
                    unsafe { libc::mount(kind, c"/proc".as_ptr(), kind, 0, none) },
                    "a mount over /proc",
                )
            }
            Self::Seccomp => refuse_to_open(),
        }
    }
}

fn done(failed: libc::c_int, what: &str) -> Result<()> {
    ensure!(failed == 0, "{what}: {}", io::Error::last_os_error());
    Ok(())
}

fn set_dumpable(can_be_dumped: libc::c_ulong) -> Result<()> {
    // SAFETY: takes only numbers.
    done(
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, can_be_dumped, 0, 0, 0) },
        "dumpable",
    )
}

/// Changes the user of all threads of the process.
fn become_unprivileged() -> Result<()> {
    // SAFETY: takes only a number.
    done(unsafe { libc::setgid(UNPRIVILEGED) }, "setgid")?;
    // SAFETY: as above.
    done(unsafe { libc::setuid(UNPRIVILEGED) }, "setuid")
}

/// Makes every `open` on all threads of this process fail with `EACCES`.
fn refuse_to_open() -> Result<()> {
    let step = |code: u32, k: u32, else_skip: u8| -> Result<libc::sock_filter> {
        Ok(libc::sock_filter {
            code: u16::try_from(code)?,
            jt: 0,
            jf: else_skip,
            k,
        })
    };
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let denied = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EACCES)?;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)?];
    for call in [
        #[cfg(target_arch = "x86_64")] // other architectures do not have it
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
    ] {
        program.push(step(equals, u32::try_from(call)?, 1)?);
        program.push(step(answer, denied, 0)?);
    }
    program.push(step(answer, libc::SECCOMP_RET_ALLOW, 0)?);
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len())?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: takes only numbers. Afterwards, no execve gives this process more rights.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    done(result, "no_new_privs")?;
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    // SAFETY: the pointer is to a filter of that length, which the kernel copies in the call.
    let failed = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter) };
    ensure!(failed == 0, "seccomp: {}", io::Error::last_os_error());
    Ok(())
}
