//! The implementation for Linux: inherited descriptors, pidfds, and a waker that ends a `poll`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::sys;
use profiler_core::internal::sys::ProcessStat;
use profiler_sys::{DescriptorLost, FileIdentity, OwnDescriptor};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus};

use super::other_process::{reaped_status, zombie_status};
use super::{Reaped, Woken};

/// Whether a child can inherit a descriptor.
pub(crate) const INHERITS: bool = true;

/// Whether a child is ending: its files may be closed already, but its exit status is not available
/// yet, or was taken a moment ago. A child of which only the main thread has ended is not ending.
/// The threads of a process end one by one, and those of the profiler have files of their own, so
/// some of them may not have begun to exit when the program's files are closed.
pub(crate) fn is_ending(pid: u32) -> bool {
    match ends(Path::new(&format!("/proc/{pid}/stat"))) {
        Some(false) => false,
        Some(true) => {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
                .into_iter()
                .flatten()
                .flatten();
            let mut stats = tasks.map(|task| task.path().join("stat"));
            stats.all(|stat| ends(&stat) != Some(false))
        }
        None => {
            // The process is gone, or `/proc` is not available.
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| {
                rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
            })
        }
    }
}

/// Whether a thread exits, or will exit because its process ends, according to its `stat`. `None`
/// if that cannot be read.
fn ends(stat: &Path) -> Option<bool> {
    /// `PF_EXITING` of the kernel's `sched.h`, which is set before the thread releases any
    /// resource.
    const EXITING: u64 = 4;
    /// The bit of `SIGKILL` among the signals that are pending for the thread. The kernel sends it
    /// to all threads of a process that ends, also without this signal.
    const KILLED: u64 = 1 << (libc::SIGKILL - 1);
    let stat = ProcessStat::read(stat)?;
    let (flags, pending) = (stat.number(9)?, stat.number(31).unwrap_or(0));
    Some(flags & EXITING != 0 || pending & KILLED != 0)
}

/// Copies an open file to a descriptor above those of the standard streams, so that `Command` does
/// not replace it by one of them.
pub(crate) fn copy_for_child(file: &File) -> io::Result<File> {
    Ok(rustix::io::fcntl_dupfd_cloexec(file, 3)?.into())
}

/// Makes the child that `command` starts inherit `files`. No other process inherits them. The
/// descriptors stay open until `command` is dropped.
#[allow(unsafe_code)]
pub(crate) fn inherit(command: &mut Command, files: Vec<File>) -> io::Result<()> {
    let clear = move || files.iter().try_for_each(clear_close_on_exec);
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are
    // allowed. It makes one fcntl call per file, and reads a vector that was filled before the
    // fork. It does not allocate, lock or drop anything; an error contains only a number.
    unsafe { command.pre_exec(clear) };
    Ok(())
}

#[allow(unsafe_code)]
fn clear_close_on_exec(file: &File) -> io::Result<()> {
    // SAFETY: fcntl with F_SETFD takes plain numbers and accesses no memory; the descriptor is
    // open, because `file` owns it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// An unambiguous reference to a child process: it never refers to a later process with the same
/// id, or to a file of the program that reuses the descriptor.
#[derive(Debug)]
pub(crate) struct ChildHandle {
    descriptor: OwnDescriptor<OwnedFd>,
    pid: u32,
}

impl ChildHandle {
    /// Opens the handle of a child whose exit status has not been taken. `None` on kernels without
    /// pidfds.
    pub(crate) fn open(child: &Child) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self {
            descriptor: OwnDescriptor::new(descriptor),
            pid: child.id(),
        })
    }

    /// The handle of a process that need not be a child of this one.
    ///
    /// # Errors
    /// Never on Linux.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn of_other(descriptor: OwnDescriptor<OwnedFd>, pid: ProcessId) -> io::Result<Self> {
        Ok(Self {
            descriptor,
            pid: pid.get(),
        })
    }

    /// Opens the handle of a process again. `None` if it has ended.
    pub(crate) fn reopen(pid: ProcessId, start: ProcessStart) -> Option<Self> {
        let descriptor = sys::open_process(pid, start).ok()?;
        Self::of_other(descriptor, pid).ok()
    }

    /// Whether the descriptor is still this handle's: the program may have closed it.
    pub(crate) fn is_ours(&self) -> bool {
        self.get().is_ok()
    }

    /// The descriptor, if it is still this handle's. Before Linux 6.9 all pidfds have the same
    /// inode, so the process id is compared as well.
    fn get(&self) -> io::Result<&OwnedFd> {
        let descriptor = self.descriptor.get()?;
        let is_known = *HANDLES_HAVE_INODES || names_process(descriptor.as_raw_fd(), self.pid);
        if is_known {
            Ok(descriptor)
        } else {
            Err(DescriptorLost.into())
        }
    }

    /// Sends a signal to the process. Fails if the process has ended.
    #[allow(unsafe_code)]
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        let real_time = || {
            let is_one = (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal);
            // SAFETY: the C library does not use these numbers for itself.
            is_one.then(|| unsafe { Signal::from_raw_unchecked(signal) })
        };
        let named = Signal::from_named_raw(signal);
        let signal = named
            .or_else(real_time)
            .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(rustix::process::pidfd_send_signal(self.get()?, signal)?)
    }

    /// Takes the exit status of the process, if it has ended.
    pub(crate) fn reap(&self) -> Reaped {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let Ok(descriptor) = self.get() else {
            return Reaped::Running;
        }; // the next call uses a new handle
        match rustix::process::waitid(WaitId::PidFd(descriptor.as_fd()), options) {
            Ok(None) | Err(rustix::io::Errno::INTR | rustix::io::Errno::BADF) => Reaped::Running,
            Ok(Some(status)) => exit_status(&status).map_or(Reaped::Elsewhere, Reaped::Ended),
            Err(_) => Reaped::Elsewhere,
        }
    }

    /// The state of a process that need not be a child of this one; its exit status if the system
    /// tells it. Never takes the exit status, which belongs to the parent of the process.
    pub(crate) fn state_of_other(&self, start: ProcessStart) -> Reaped {
        let Ok(descriptor) = self.get() else {
            return Reaped::Running;
        }; // the next call uses a new handle
        let mut polled = [readable(descriptor.as_fd())];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match rustix::event::poll(&mut polled, Some(&at_once)) {
            // First without `/proc`: a process that reaps another one waits there for everybody who
            // looks at it, and it usually does so now.
            Ok(1..) => reaped_status(descriptor)
                .or_else(|| zombie_status(self.pid, start))
                .or_else(|| reaped_status(descriptor))
                .map(ExitStatus::from_raw)
                .map_or(Reaped::Elsewhere, Reaped::Ended),
            Ok(0) | Err(_) => Reaped::Running,
        }
    }
}

/// Whether processes can be watched that this process does not reap: the system has pidfds.
pub(crate) fn watches_others() -> bool {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).is_ok()
}

/// A descriptor (pidfd) of a child, and its start; 0 if that is not known. The exit status must not
/// have been taken, so the number still belongs to the child.
pub(crate) fn open_untaken(child: ProcessId) -> io::Result<(OwnDescriptor<OwnedFd>, ProcessStart)> {
    let number = i32::try_from(child.get()).ok().and_then(Pid::from_raw);
    let number = number.ok_or(io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(number, PidfdFlags::empty())?;
    let start = ProcessStat::of(child).and_then(|stat| stat.start());
    let start = start.unwrap_or(ProcessStart::new(0));
    Ok((OwnDescriptor::new(process), start))
}

/// Whether handles of different processes have different inodes.
static HANDLES_HAVE_INODES: LazyLock<bool> = LazyLock::new(|| {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
    let identity = |number: &OwnedFd| FileIdentity::of_number(number.as_raw_fd()).ok();
    // An `eventfd` has the inode that all files without their own inode share.
    own.is_ok_and(|own| bell.is_ok_and(|bell| identity(&own) != identity(&bell)))
});

/// Whether a descriptor is a pidfd of the process `pid`.
fn names_process(number: i32, pid: u32) -> bool {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let named = about.lines().find_map(|line| line.strip_prefix("Pid:"));
    named.is_some_and(|named| named.trim().parse() == Ok(pid))
}

/// Converts a status to the form of `wait`: the signal in the low bits, or the exit code in the
/// high bits.
fn exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    const CORE_DUMPED: i32 = 0x80;
    let core = if status.dumped() { CORE_DUMPED } else { 0 };
    let code = status.exit_status().map(|code| (code & 0xff) << 8);
    code.or_else(|| status.terminating_signal().map(|signal| signal | core))
        .map(ExitStatus::from_raw)
}

/// Wakes the thread that waits on it. It is a pipe, because a pipe has its own inode, which
/// distinguishes it from all other files.
#[derive(Debug)]
pub(crate) struct Waker {
    heard: OwnDescriptor<OwnedFd>,
    rung: OwnDescriptor<OwnedFd>,
}

impl Waker {
    /// Creates a waker that has not been rung.
    pub(crate) fn new() -> io::Result<Self> {
        let (heard, rung) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self {
            heard: OwnDescriptor::new(heard),
            rung: OwnDescriptor::new(rung),
        })
    }

    /// Ends the current wait, or the next one.
    pub(crate) fn ring(&self) {
        if let Ok(rung) = self.rung.get() {
            let _ = rustix::io::write(rung, &[1]); // a full pipe ends the wait, too
        }
    }

    /// Whether both descriptors are still this waker's: the program may have closed them. A closed
    /// waker wakes no thread.
    pub(crate) fn is_ours(&self) -> bool {
        self.heard.is_ours() && self.rung.is_ours()
    }

    /// Waits until the waker is rung, a child may have ended, or the time is over. Returns the
    /// indices of these children.
    pub(crate) fn wait(&self, children: &[Arc<ChildHandle>], timeout: Duration) -> Woken {
        let timeout = Timespec::try_from(timeout).ok();
        // Waiting for a file of the program that reuses the descriptor is harmless.
        let handles = children.iter().map(|child| child.descriptor.unchecked());
        let heard = self.heard.get().ok();
        let mut polled: Vec<PollFd<'_>> = handles
            .chain(heard)
            .map(|fd| readable(fd.as_fd()))
            .collect();
        // After an interruption the caller waits again.
        let _ = rustix::event::poll(&mut polled, timeout.as_ref());
        let ready = polled
            .iter()
            .enumerate()
            .filter(|(_, polled)| !polled.revents().is_empty());
        let (children, bell): (Vec<usize>, Vec<usize>) = ready
            .map(|(place, _)| place)
            .partition(|place| *place < children.len());
        let rung = !bell.is_empty();
        if rung && let Ok(heard) = self.heard.get() {
            let _ = rustix::io::read(heard, &mut [0; 64]); // remaining bytes ring again
        }
        Woken { rung, children }
    }
}

fn readable(fd: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, PollFlags::IN)
}

/// Whether a process is stopped, or held by a debugger.
pub(crate) fn is_stopped(pid: profiler_core::ids::ProcessId) -> bool {
    let stat = ProcessStat::of(pid);
    stat.is_some_and(|stat| matches!(stat.state(), Some("T" | "t")))
}

/// The current resource usage of a process.
pub(crate) fn usage(pid: profiler_core::ids::ProcessId) -> Option<super::Usage> {
    usage_in(&ProcessStat::of(pid)?)
}

fn usage_in(stat: &ProcessStat) -> Option<super::Usage> {
    let ticks = stat.number(14)?.checked_add(stat.number(15)?)?;
    let pages = stat.number(24)?;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let cpu_ns = ticks.saturating_mul(1_000_000_000 / per_second);
    let resident_bytes = pages.saturating_mul(u64::try_from(rustix::param::page_size()).ok()?);
    Some(super::Usage {
        cpu_ns,
        resident_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_process_is_parsed_from_its_stat() {
        let fields = b"1 (p) S 1 2 2 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 3 0 12345 999424 250 18446744073709551615 1";
        let usage = usage_in(&ProcessStat::parse(fields).unwrap()).unwrap();
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(usage.cpu_ns, 12 * tick);
        assert_eq!(
            usage.resident_bytes,
            250 * rustix::param::page_size() as u64
        );
        assert_eq!(usage_in(&ProcessStat::parse(b"1 (p) S 1 2").unwrap()), None);
        assert!(
            super::usage(profiler_core::internal::sys::process_id())
                .unwrap()
                .resident_bytes
                > 0
        );
    }
}
