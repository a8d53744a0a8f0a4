//! What the system reports to a process about its own threads, and reasons why it reports less.

#![allow(unsafe_code)]

use std::io;

use anyhow::{Result, ensure};

/// The user without rights.
pub(super) const NOBODY: libc::uid_t = 65534;

/// A process that can learn less and less about its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostSetup {
    /// Everything is reported.
    Plain,
    /// It has become another user: files about its threads that only the owner may read belong to
    /// root.
    Setuid,
    /// The same, because it is not dumpable.
    NotDumpable,
    /// There is no `/proc`.
    NoProc,
    /// A filter of system calls refuses to open any file.
    Seccomp,
}

impl HostSetup {
    /// All, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("plain", Self::Plain),
        ("setuid", Self::Setuid),
        ("not_dumpable", Self::NotDumpable),
        ("no_proc", Self::NoProc),
        ("seccomp", Self::Seccomp),
    ];

    /// The scene of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, scene)| scene)
    }

    /// Whether the system reports which threads run: then they are signalled for their stacks.
    pub const fn tells_who_runs(self) -> bool {
        matches!(self, Self::Plain | Self::Setuid | Self::NotDumpable)
    }

    /// Why the scene cannot be set here.
    pub fn missing(self) -> Option<String> {
        let needs_root = matches!(self, Self::Setuid | Self::NoProc);
        let is_root = rustix::process::geteuid().is_root();
        (needs_root && !is_root).then(|| "needs root".to_owned())
    }

    /// Done before anything is sampled: steps that a process with several threads cannot take.
    pub(super) fn prepare(self) -> Result<()> {
        match self {
            Self::NoProc => {
                // SAFETY: moves the only thread into a mount namespace of its own.
                done(unsafe { libc::unshare(libc::CLONE_NEWNS) }, "unshare")?;
                let (none, flags) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
                // SAFETY: names that end with a zero; changes only this namespace from now on.
                let failed = unsafe { libc::mount(none, c"/".as_ptr(), none, flags, std::ptr::null()) };
                done(failed, "private mounts")
            }
            // The step changes nothing for root.
            Self::NotDumpable if rustix::process::geteuid().is_root() => {
                become_nobody()?;
                set_dumpable(1)
            }
            _ => Ok(()),
        }
    }

    /// Done while the process is sampled.
    pub(super) fn enter(self) -> Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Setuid => become_nobody(),
            Self::NotDumpable => set_dumpable(0),
            Self::NoProc => {
                let (kind, none) = (c"tmpfs".as_ptr(), std::ptr::null());
                // SAFETY: names that end with a zero; in a namespace of this process.
                done(unsafe { libc::mount(kind, c"/proc".as_ptr(), kind, 0, none) }, "a mount over /proc")
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
    // SAFETY: plain numbers.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, can_be_dumped, 0, 0, 0) }, "dumpable")
}

/// All threads of the process.
fn become_nobody() -> Result<()> {
    // SAFETY: a plain number.
    done(unsafe { libc::setgid(NOBODY) }, "setgid")?;
    // SAFETY: as above.
    done(unsafe { libc::setuid(NOBODY) }, "setuid")
}

/// Has the kernel answer every `open` of this process, on all its threads, with `EACCES`.
fn refuse_to_open() -> Result<()> {
    let step = |code: u32, k: u32, else_skip: u8| -> Result<libc::sock_filter> {
        Ok(libc::sock_filter { code: u16::try_from(code)?, jt: 0, jf: else_skip, k })
    };
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let denied = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EACCES)?;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)?];
    for call in [
        #[cfg(target_arch = "x86_64")] // others do not have it
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
    ] {
        program.push(step(equals, u32::try_from(call)?, 1)?);
        program.push(step(answer, denied, 0)?);
    }
    program.push(step(answer, libc::SECCOMP_RET_ALLOW, 0)?);
    let filter = libc::sock_fprog { len: u16::try_from(program.len())?, filter: program.as_mut_ptr() };
    // SAFETY: plain numbers; afterwards no execve gives this process more rights.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, "no_new_privs")?;
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the pointer is to a filter of that length, which the kernel copies in the call.
    let failed = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter) };
    ensure!(failed == 0, "seccomp: {}", io::Error::last_os_error());
    Ok(())
}
