//! The threads of a process as the system reports them: numbers, names, clocks, waits.
//!
//! Called by the sampler's thread for this process, and through `other_process` for others. Reading
//! names allocates; [`cpu_ns`] and [`doing`], called at every tick, and [`list`] into a reused
//! vector do not.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::Write;
use std::os::fd::BorrowedFd;

use profiler_ids::{ProcessId, ThreadId};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, StatxFlags};

use crate::FileIdentity;
use crate::thread_activity::{ThreadActivity, parse_schedule};
use crate::thread_id::current_thread_id;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It runs, or is ready to run.
    Running,
    /// It waits in the kernel.
    Waiting(Wait),
    /// It waits, and the system does not report where.
    WaitingSomewhere,
    /// The system does not report the state.
    Unknown,
}

/// The place where a thread waits. If two waits of a thread are equal, its stack is almost
/// certainly the same in both, and so is what it waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// The system call; -1 if there is none, that is, for a page fault.
    pub call: i64,
    /// Its first three arguments. Only the first one distinguishes waits: it is a descriptor, a
    /// process or the address of a lock. The others may be addresses of buffers.
    pub arguments: [u64; 3],
    /// Whether its fourth argument is not 0; for a wait on a futex that is the timeout.
    pub has_fourth: bool,
    /// The stack pointer.
    pub sp: u64,
    /// The next instruction.
    pub pc: u64,
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        let key = |wait: &Self| {
            let [first, ..] = wait.arguments;
            (wait.call, first, wait.has_fourth, wait.sp, wait.pc)
        };
        key(self) == key(other)
    }
}

impl Eq for Wait {}

impl Wait {
    /// Whether it is in a system call, and not in a page fault.
    pub const fn is_in_a_call(self) -> bool {
        self.call >= 0
    }

    /// Whether the program is certain not to notice a signal during this wait: the system restarts
    /// a wait on a futex. A wait with a timeout is excluded: it ends with `EINTR`, which
    /// `sem_timedwait` returns.
    pub const fn bears_signals(self) -> bool {
        self.call == libc::SYS_futex && !self.has_fourth
    }
}

/// How often a thread has stopped running so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Because it waited.
    pub waited: u64,
    /// Because another thread got its processor.
    pub lost: u64,
}

/// The place of the files about the threads of a process.
#[derive(Clone, Copy, Debug)]
pub struct Tasks<'a> {
    /// The folder to which `path` is relative.
    folder: BorrowedFd<'a>,
    path: &'static str,
}

impl<'a> Tasks<'a> {
    /// The threads of this process.
    const OWN: Tasks<'static> = Tasks {
        folder: CWD,
        path: "/proc/self/task",
    };

    /// The threads of the process whose folder in `/proc` this is.
    pub(crate) const fn of(folder: BorrowedFd<'a>) -> Self {
        Self {
            folder,
            path: "task",
        }
    }

    /// See [`list`].
    pub(crate) fn list(self, all: &mut Vec<ThreadId>) -> std::io::Result<()> {
        all.clear();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(self.folder, self.path, flags, Mode::empty())?;
        let mut room = [std::mem::MaybeUninit::<u8>::uninit(); 4096];
        let mut tasks = RawDir::new(folder, &mut room);
        while let Some(Ok(task)) = tasks.next() {
            all.extend(
                task.file_name()
                    .to_str()
                    .ok()
                    .and_then(|name| name.parse().ok())
                    .map(ThreadId::new),
            );
        }
        all.sort_unstable();
        // A file system that is not the real `/proc`, or that hides this process, lists nothing.
        if all.is_empty() {
            Err(std::io::ErrorKind::NotFound.into())
        } else {
            Ok(())
        }
    }

    /// See [`doing`].
    pub(crate) fn doing(self, thread: ThreadId) -> Doing {
        let mut text = [0; 256];
        if let Some(doing) = self.read(thread, "syscall", &mut text).and_then(parse) {
            return doing;
        }
        // Only the owner of the process may read `syscall`. For a process that has changed its
        // user, or is not dumpable, the owner is root. Some kernels do not have the file. All users
        // may read `stat`.
        self.read(thread, "stat", &mut text)
            .and_then(parse_state)
            .unwrap_or(Doing::Unknown)
    }

    /// The processor that a thread has run on last. `None` if the system does not report it.
    pub(crate) fn last_processor(self, thread: ThreadId) -> Option<u32> {
        let mut text = [0; STAT_BYTES];
        let stat = self.read(thread, "stat", &mut text)?;
        // The number in proc(5) is 39; the state, which follows the name, is the third field.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_ascii_whitespace().nth(39 - 3)?.parse().ok()
    }

    /// How often a thread has stopped running. `None` if the system does not report it.
    pub(crate) fn switches(self, thread: ThreadId) -> Option<Switches> {
        let mut text = [0; STATUS_BYTES];
        let status = self.read(thread, "status", &mut text)?;
        let count = |name| field(status, name)?.parse().ok();
        Some(Switches {
            waited: count("voluntary_ctxt_switches:")?,
            lost: count("nonvoluntary_ctxt_switches:")?,
        })
    }

    /// Reads the start of a file about a thread, without allocating. A name in it may contain any
    /// bytes: the longest part that is text is returned.
    pub(crate) fn read<'t>(
        self,
        thread: ThreadId,
        file: &str,
        text: &'t mut [u8],
    ) -> Option<&'t str> {
        let text = self.read_bytes(thread, file, text)?;
        match std::str::from_utf8(text) {
            Ok(text) => Some(text),
            Err(_) => text
                .utf8_chunks()
                .map(|chunk| chunk.valid())
                .max_by_key(|valid| valid.len()),
        }
    }

    /// Like [`Self::read`], for bytes.
    pub(crate) fn read_bytes<'t>(
        self,
        thread: ThreadId,
        file: &str,
        text: &'t mut [u8],
    ) -> Option<&'t [u8]> {
        let mut path = [0; 64];
        write!(path.as_mut_slice(), "{}/{thread}/{file}\0", self.path).ok()?;
        read_at(self.folder, CStr::from_bytes_until_nul(&path).ok()?, text)
    }
}

/// Reads the start of a file in a folder, without allocating.
pub(crate) fn read_at<'t>(
    folder: BorrowedFd<'_>,
    path: &CStr,
    text: &'t mut [u8],
) -> Option<&'t [u8]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, path, flags, Mode::empty()).ok()?;
    let len = rustix::io::pread(&file, &mut *text, 0).ok()?;
    text.get(..len)
}

/// The file that a descriptor of a thread of this process refers to. The thread may use another
/// descriptor table than the caller. Opens no file, and does not wait for a file system.
pub fn file_of(thread: ThreadId, descriptor: i32) -> Option<FileIdentity> {
    let mut path = [0; 64];
    let own = Tasks::OWN.path;
    write!(path.as_mut_slice(), "{own}/{thread}/fd/{descriptor}\0").ok()?;
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(CWD, path, flags, StatxFlags::INO).ok()?;
    Some(FileIdentity {
        device: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
        inode: found.stx_ino,
    })
}

/// Writes the numbers of all threads of this process, sorted, into `all`.
///
/// # Errors
/// The error of the system that does not provide the list; `all` is empty then.
pub fn list(all: &mut Vec<ThreadId>) -> std::io::Result<()> {
    Tasks::OWN.list(all)
}

/// The number of threads of this process: a directory has a link for itself, one from its parent,
/// and one from each directory in it. `None` if the system does not report it. One system call; a
/// list takes four.
pub fn count() -> Option<u32> {
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(CWD, c"/proc/self/task", flags, StatxFlags::NLINK).ok()?;
    found.stx_nlink.checked_sub(2)
}

/// A thread's name in the system, at most 15 bytes.
pub fn name(thread: ThreadId) -> Option<String> {
    let name = crate::read_text(format!("/proc/self/task/{thread}/comm")).ok()?;
    Some(name.trim_ascii_end().to_owned())
}

/// Whether a thread blocks this signal. `None` if the system does not report it.
pub fn blocks_signal(thread: ThreadId, signal: libc::c_int) -> Option<bool> {
    let mut text = [0; STATUS_BYTES];
    let status = Tasks::OWN.read(thread, "status", &mut text)?;
    let mask = u64::from_str_radix(field(status, "SigBlk:")?, 16).ok()?;
    Some(mask & (1 << (signal - 1)) != 0)
}

/// The number of times a thread has waited so far, if it runs or is ready to run at the moment.
/// `None` if it waits, or if the system does not report it.
///
/// If this returns the same number for a thread twice, the thread has not waited in between.
pub fn waits_of_running(thread: ThreadId) -> Option<u64> {
    let mut text = [0; STATUS_BYTES];
    let status = Tasks::OWN.read(thread, "status", &mut text)?;
    let waits = field(status, "voluntary_ctxt_switches:")?.parse().ok()?;
    field(status, "State:")?.starts_with('R').then_some(waits)
}

/// The number of filters of the calling thread's system calls. `None` if the system does not report
/// it, as before Linux 5.9.
pub fn own_filters() -> Option<u32> {
    let mut text = [0; STATUS_BYTES];
    let status = Tasks::OWN.read(current_thread_id(), "status", &mut text)?;
    field(status, "Seccomp_filters:")?.parse().ok()
}

/// The value of a line of a `status` file.
pub(crate) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

/// The size of the buffer for a `status` file. The file is longer only for a process in a thousand
/// groups, whose threads are therefore not signalled.
pub(crate) const STATUS_BYTES: usize = 8192;

/// The most bytes of a `stat` file: 52 numbers and a name of 15 bytes.
pub(crate) const STAT_BYTES: usize = 2048;

/// Processor time of a thread so far; `None` if it has ended.
pub fn cpu_ns(thread: ThreadId) -> Option<u64> {
    // The kernel's number for a thread's clock: the complement of the thread's number, "per thread"
    // and "scheduler's".
    clock_ns((!libc::clockid_t::try_from(thread.get()).ok()? << 3) | 4 | 2)
}

/// Processor time of all threads of a process so far, also of those that have ended. `None` if the
/// process has ended and its parent has waited for it.
pub fn process_cpu_ns(process: ProcessId) -> Option<u64> {
    // The same for a process: without the bit for a thread.
    clock_ns((!libc::clockid_t::try_from(process.get()).ok()? << 3) | 2)
}

/// How much a thread of this process has run. `None` if it has ended, or if the system does not
/// count it.
pub fn activity(thread: ThreadId) -> Option<ThreadActivity> {
    let mut text = [0; 128];
    parse_schedule(Tasks::OWN.read(thread, "schedstat", &mut text)?)
}

/// How often a thread of this process has stopped running. `None` if the system does not report it.
pub fn switches(thread: ThreadId) -> Option<Switches> {
    Tasks::OWN.switches(thread)
}

/// The processor that a thread of this process has run on last, or runs on.
pub fn last_processor(thread: ThreadId) -> Option<u32> {
    Tasks::OWN.last_processor(thread)
}

/// Processor time of the calling thread so far; 0 if the system does not report it.
pub fn own_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// The time of a clock; `None` if there is no such clock.
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes into a timespec that lives through the call; an invalid clock is an error.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    (failed == 0).then_some(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

/// The present state of a thread, read without disturbing it.
pub fn doing(thread: ThreadId) -> Doing {
    Tasks::OWN.doing(thread)
}

/// The error that explains why the system reports nothing about threads; `None` if it does report.
pub fn why_unknown() -> Option<std::io::Error> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/thread-self/stat", flags, Mode::empty())
        .err()
        .map(Into::into)
}

/// Parses number, name in parentheses, state; the name may contain parentheses, too.
fn parse_state(text: &str) -> Option<Doing> {
    let (_, rest) = text.rsplit_once(')')?;
    let is_running = rest.trim_ascii_start().chars().next()? == 'R';
    Some(if is_running {
        Doing::Running
    } else {
        Doing::WaitingSomewhere
    })
}

/// Parses `running`, or the call, its six arguments if it is a call, and the two addresses.
fn parse(text: &str) -> Option<Doing> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if first == "running" {
        return Some(Doing::Running);
    }
    let hex = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let pc = hex(words.next_back()?)?;
    let sp = hex(words.next_back()?)?;
    let mut argument = || words.next().and_then(hex).unwrap_or(0);
    let arguments = [argument(), argument(), argument()];
    let has_fourth = argument() != 0;
    Some(Doing::Waiting(Wait {
        call: first.parse().ok()?,
        arguments,
        has_fourth,
        sp,
        pc,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_threads_is_that_of_their_list() {
        let mut all = Vec::new();
        let is_same = || {
            let before = count();
            list(&mut all).unwrap();
            before == count() && before == u32::try_from(all.len()).ok()
        };
        // Other tests start and end threads.
        assert!(std::iter::repeat_with(is_same).take(1_000).any(|same| same));
    }

    #[test]
    fn the_last_processor_of_a_running_thread_is_the_one_that_it_runs_on() {
        let is_same = || {
            let own = || u32::try_from(rustix::thread::sched_getcpu()).ok();
            let before = own();
            let last = last_processor(current_thread_id());
            (before == own()).then(|| assert_eq!(last, before))
        };
        assert!(
            std::iter::repeat_with(is_same)
                .take(1_000)
                .flatten()
                .count()
                > 0
        );
    }

    #[test]
    fn a_threads_state_is_parsed_from_the_systems_line() {
        assert_eq!(parse("running\n"), Some(Doing::Running));
        let waiting = Wait {
            call: 7,
            arguments: [1, 2, 3],
            has_fourth: true,
            sp: 0x7ffe,
            pc: 0x7f00,
        };
        let found = parse("7 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe 0x7f00\n");
        assert_eq!(found, Some(Doing::Waiting(waiting)));
        assert!(matches!(found, Some(Doing::Waiting(wait)) if wait.arguments == [1, 2, 3]));
        let of = |arguments| Wait {
            arguments,
            ..waiting
        };
        assert_eq!(of([1, 9, 9]), waiting, "another buffer");
        assert_ne!(of([2, 2, 3]), waiting, "another descriptor");
        let fault = Wait {
            call: -1,
            arguments: [0; 3],
            has_fourth: false,
            sp: 0x10,
            pc: 0x20,
        };
        assert_eq!(parse("-1 0x10 0x20\n"), Some(Doing::Waiting(fault)));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_state_of_a_thread_is_found_behind_its_name() {
        assert_eq!(parse_state("7 (a) S) R 1 2"), Some(Doing::Running));
        assert_eq!(parse_state("7 (R) S 1 2"), Some(Doing::WaitingSomewhere));
        assert_eq!(parse_state("7 (R) "), None);
        assert_eq!(parse_state(""), None);
    }

    #[test]
    fn the_number_of_waits_grows_with_each_wait() {
        let own = current_thread_id();
        let waits = || waits_of_running(own).expect("it runs");
        let before = waits();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(waits() > before, "it has waited");
        assert_eq!(waits_of_running(ThreadId::new(0x3f_fffe)), None);
    }

    #[test]
    fn a_wait_for_a_futex_bears_signals_unless_it_has_a_timeout() {
        let bears = |timeout: &str| {
            let line = format!(
                "{} 0x7f01 0x80 0x0 {timeout} 0x0 0xffffffff 0x7ffe 0x7f00\n",
                libc::SYS_futex
            );
            matches!(parse(&line), Some(Doing::Waiting(wait)) if wait.bears_signals())
        };
        assert!(bears("0x0"));
        assert!(!bears("0x7ffd10"));
    }

    /// Blocks a signal in the calling thread.
    fn block(signal: libc::c_int) {
        // SAFETY: all zeros are an empty set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: changes the mask of this thread only.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    }

    #[test]
    fn the_calling_thread_is_listed_and_uses_time() {
        let own = current_thread_id();
        let mut all = Vec::new();
        list(&mut all).unwrap();
        assert!(all.contains(&own));
        assert!(
            matches!(doing(own), Doing::Waiting(_)),
            "in the call that reads this"
        );
        assert_eq!(blocks_signal(own, libc::SIGURG), Some(false));
        let deaf = || {
            block(libc::SIGURG);
            let own = current_thread_id();
            (
                blocks_signal(own, libc::SIGURG),
                blocks_signal(own, libc::SIGTRAP),
            )
        };
        let deaf = std::thread::scope(|scope| scope.spawn(deaf).join().unwrap());
        assert_eq!(deaf, (Some(true), Some(false)));
        let before = cpu_ns(own).unwrap();
        while cpu_ns(own).unwrap() == before {}
        assert!((cpu_ns(own).unwrap()..).contains(&own_cpu_ns()));
        assert_eq!(cpu_ns(ThreadId::new(0x3f_fffe)), None);
    }
}
