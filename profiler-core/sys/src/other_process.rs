//! Another process as the system shows it: its threads, its memory, its clocks.
//!
//! Called for observed processes by the thread that reads what they record. Invariants: everything
//! that is read through [`OtherProcess`] is of the process that it was opened for, also if the
//! process ends and another one gets its number; any bytes are accepted; nothing is changed in the
//! process, and no page is brought into its memory: a page could be in a file system that never
//! answers. A process that changes its mappings may delay a read for that moment.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, open, openat, statat};

use crate::page_size::page_size;
use crate::process_stat::ProcessStat;
use crate::tasks::{Doing, STAT_BYTES, STATUS_BYTES, Switches, Tasks, field, read_at};
use crate::thread_activity::{ThreadActivity, parse_schedule};
use profiler_ids::{ProcessId, ProcessStart, ThreadId};

/// In the system's table of pages: the page is in memory.
const IS_PRESENT: u64 = 1 << 63;
/// The same: the page is in swapped-out memory.
const IS_SWAPPED: u64 = 1 << 62;
/// The same: the page belongs to a file, or to memory that processes share.
const IS_OF_FILE: u64 = 1 << 61;
/// The most pages of one read.
const MAX_PAGES: usize = 32;

/// A process.
#[derive(Debug)]
pub struct OtherProcess {
    folder: OwnedFd,
    pid: ProcessId,
    stat: ProcessStat,
    threads: u64,
}

/// What distinguishes the programs that a process has executed one after the other. All zero if
/// the system does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramPlace {
    code: u64,
    stack: u64,
}

impl OtherProcess {
    /// Opens the process that has this number and this start time. `None` if it has ended, or if
    /// only its first thread is left and has ended.
    pub fn open(pid: ProcessId, start: ProcessStart) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
        let stat = read_stat(&folder)?;
        let process = Self {
            folder,
            pid,
            threads: stat.number(20).unwrap_or(0),
            stat,
        };
        (process.stat.start() == Some(start) && !process.has_ended_whole()).then_some(process)
    }

    /// Reads again how many threads it has, without reading its `stat` file. False if it has ended.
    pub fn count_threads(&mut self) -> bool {
        let tasks = statat(&self.folder, c"task", AtFlags::empty());
        // The link count of a directory is two plus the number of its subdirectories.
        #[allow(clippy::useless_conversion)] // the number is shorter on aarch64
        let links = |about: Stat| u64::from(about.st_nlink);
        let threads = tasks.map_or(0, links).saturating_sub(2);
        self.threads = threads;
        threads > 0
    }

    /// Reads again what [`Self::threads`] and [`Self::program`] return. False if it has ended, or
    /// if only its first thread is left and has ended.
    pub fn read_again(&mut self) -> bool {
        let Some(stat) = read_stat(&self.folder) else {
            return false;
        };
        self.threads = stat.number(20).unwrap_or(0);
        self.stat = stat;
        !self.has_ended_whole()
    }

    fn has_ended_whole(&self) -> bool {
        self.stat.state() == Some("Z") && self.threads <= 1
    }

    /// The number of its threads when it was last read.
    pub const fn threads(&self) -> u64 {
        self.threads
    }

    /// Where its program was when that was last read.
    pub fn program(&self) -> ProgramPlace {
        let number = |field| self.stat.number(field).unwrap_or(0);
        ProgramPlace {
            code: number(26),
            stack: number(28),
        }
    }

    /// Whether the process is in a PID namespace of its own.
    pub fn is_in_namespace(&self) -> bool {
        let mut text = [0; STATUS_BYTES];
        let status = read_at(self.folder.as_fd(), c"status", &mut text);
        let numbers = status.and_then(|status| {
            let text = String::from_utf8_lossy(status);
            Some(field(&text, "NSpid:")?.split_ascii_whitespace().count())
        });
        numbers.is_some_and(|numbers| numbers > 1)
    }

    /// Its resident memory in bytes. `None` for a process that has given up its memory.
    pub fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let statm = std::str::from_utf8(read_at(self.folder.as_fd(), c"statm", &mut text)?).ok()?;
        let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (pages > 0).then(|| pages.saturating_mul(page_size()))
    }

    fn tasks(&self) -> Tasks<'_> {
        Tasks::of(self.folder.as_fd())
    }

    /// Writes the numbers of all threads, sorted, into `all`.
    ///
    /// # Errors
    /// The error of the system that does not provide the list; `all` is empty then.
    pub fn list(&self, all: &mut Vec<ThreadId>) -> std::io::Result<()> {
        self.tasks().list(all)
    }

    /// The present state of a thread.
    pub fn doing(&self, thread: ThreadId) -> Doing {
        self.tasks().doing(thread)
    }

    /// Whether a thread has ended, although it is still listed, as the first one may be.
    pub fn has_ended(&self, thread: ThreadId) -> bool {
        let mut text = [0; STAT_BYTES];
        let stat = self.tasks().read_bytes(thread, "stat", &mut text);
        let stat = stat.and_then(ProcessStat::parse);
        stat.is_none_or(|stat| matches!(stat.state(), Some("Z" | "X")))
    }

    /// A thread's name in the system, at most 15 bytes.
    pub fn name(&self, thread: ThreadId) -> Option<String> {
        let mut text = [0; 64];
        let name = self.tasks().read_bytes(thread, "comm", &mut text)?;
        Some(String::from_utf8_lossy(name).trim_ascii_end().to_owned())
    }

    /// The number that a thread has in its own PID namespace.
    pub fn own_number(&self, thread: ThreadId) -> Option<ThreadId> {
        let mut text = [0; STATUS_BYTES];
        let status = self.tasks().read(thread, "status", &mut text)?;
        let innermost = field(status, "NSpid:")?.split_ascii_whitespace().last()?;
        innermost.parse().ok().map(ThreadId::new)
    }

    /// How much a thread has run. `None` if it has ended.
    pub fn activity(&self, thread: ThreadId) -> Option<ThreadActivity> {
        let mut text = [0; 128];
        let schedule = self.tasks().read(thread, "schedstat", &mut text);
        schedule
            .and_then(parse_schedule)
            .or_else(|| self.coarse_activity(thread))
    }

    /// The same for a system that does not count how often threads run.
    #[cold]
    fn coarse_activity(&self, thread: ThreadId) -> Option<ThreadActivity> {
        let mut text = [0; STAT_BYTES];
        let stat = ProcessStat::parse(self.tasks().read_bytes(thread, "stat", &mut text)?)?;
        let ticks = stat.number(14)?.saturating_add(stat.number(15)?);
        let Switches { waited, lost } = self.switches(thread)?;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        Some(ThreadActivity {
            cpu_ns: ticks.saturating_mul(tick_ns),
            delay_ns: 0,
            runs: waited.saturating_add(lost),
        })
    }

    /// The processor that a thread has run on last. `None` if the system does not report it.
    pub fn last_processor(&self, thread: ThreadId) -> Option<u32> {
        self.tasks().last_processor(thread)
    }

    /// How often a thread has stopped running. `None` if the system does not report it.
    pub fn switches(&self, thread: ThreadId) -> Option<Switches> {
        self.tasks().switches(thread)
    }
}

/// The `stat` file in the folder of a process.
fn read_stat(folder: &OwnedFd) -> Option<ProcessStat> {
    let mut text = [0; STAT_BYTES];
    ProcessStat::parse(read_at(folder.as_fd(), c"stat", &mut text)?)
}

/// What memory is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Memory of the process alone.
    Private,
    /// Any memory, such as that of a loaded file.
    Any,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryRead {
    /// How many bytes were read.
    pub bytes: usize,
    /// Whether the bytes that follow are swapped out.
    pub is_cut: bool,
    /// Whether the system forbids it.
    pub is_forbidden: bool,
}

/// Reads the memory of a process, as far as it is resident.
#[derive(Debug)]
pub struct OtherMemory {
    pid: libc::pid_t,
    /// The system's table of the process's pages.
    pages: Option<OwnedFd>,
}

impl OtherMemory {
    /// The memory of this process.
    pub fn of(process: &OtherProcess) -> Self {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Self {
            pid: libc::pid_t::try_from(process.pid.get()).unwrap_or(-1),
            pages: openat(&process.folder, c"pagemap", flags, Mode::empty()).ok(),
        }
    }

    /// Whether nothing can be read, because the system forbids it.
    pub const fn is_closed(&self) -> bool {
        self.pages.is_none()
    }

    /// Fills `room` with the bytes from `address` on, up to the first page that is not resident or
    /// is of another kind. A page of private memory that the process has never touched, such as a
    /// part of a large variable on a stack, is filled with zeros if a resident page follows.
    pub fn read(&self, address: u64, room: &mut [u8], kind: MemoryKind) -> MemoryRead {
        let Some(pages) = &self.pages else {
            return MemoryRead {
                is_forbidden: true,
                ..MemoryRead::default()
            };
        };
        let table = PageTable::read(pages.as_fd(), address, room.len());
        let mut read = MemoryRead::default();
        let mut at = 0;
        while let Some((state, bytes)) = table.run(at, kind) {
            let Some(part) = room.get_mut(at..at + bytes) else {
                break;
            };
            match state {
                PageState::Resident => match self.copy(address + at as u64, part) {
                    Ok(copied) => read.bytes = at + copied,
                    Err(errno) => read.is_forbidden = errno == libc::EPERM,
                },
                PageState::Untouched if kind == MemoryKind::Private => part.fill(0),
                PageState::Swapped => read.is_cut = true,
                PageState::Untouched | PageState::Other => {}
            }
            at += bytes;
            let goes_on = match state {
                PageState::Resident => read.bytes == at,
                PageState::Untouched => kind == MemoryKind::Private,
                PageState::Swapped | PageState::Other => false,
            };
            if !goes_on {
                break;
            }
        }
        read
    }

    /// Like [`Self::read`], for whole words. `bytes` is a multiple of 8.
    pub fn read_words(&self, address: u64, room: &mut [u64], kind: MemoryKind) -> MemoryRead {
        // SAFETY: any bytes are valid words, and u8 has no alignment; the borrow is exclusive.
        let (_, bytes, _) = unsafe { room.align_to_mut::<u8>() };
        let read = self.read(address, bytes, kind);
        MemoryRead {
            bytes: read.bytes & !7,
            ..read
        }
    }

    /// Copies bytes; the number of the system's error otherwise.
    fn copy(&self, address: u64, room: &mut [u8]) -> Result<usize, i32> {
        if room.is_empty() {
            return Ok(0);
        }
        let own = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let other = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: room.len(),
        };
        // SAFETY: the system writes at most `room.len()` bytes into `room`, and checks every page
        // of the source, which is in another process.
        let read =
            unsafe { libc::process_vm_readv(self.pid, &raw const own, 1, &raw const other, 1, 0) };
        usize::try_from(read)
            .map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// The state of a page in the system's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageState {
    /// It is in memory, and of the wanted kind.
    Resident,
    /// It is not in memory, and not swapped out.
    Untouched,
    Swapped,
    /// It is of another kind.
    Other,
}

/// The entries of the system's table for a range of memory.
struct PageTable {
    entries: [u8; MAX_PAGES * 8],
    read: usize,
    address: u64,
    len: usize,
}

impl PageTable {
    fn read(pages: BorrowedFd<'_>, address: u64, len: usize) -> Self {
        let mut entries = [0_u8; MAX_PAGES * 8];
        let place = (address / page_size()).saturating_mul(8);
        let read = rustix::io::pread(pages, &mut entries, place).unwrap_or(0);
        Self {
            entries,
            read,
            address,
            len,
        }
    }

    /// The state of the page at an offset, and the number of bytes from there on that have the same
    /// state. `None` after the end of the range, or of the entries that were read.
    fn run(&self, at: usize, kind: MemoryKind) -> Option<(PageState, usize)> {
        let first = self.state(at, kind)?;
        let mut end = self.page_end(at);
        while self.state(end, kind) == Some(first) {
            end = self.page_end(end);
        }
        Some((first, end - at))
    }

    /// The offset of the end of the page that contains the byte at an offset.
    fn page_end(&self, at: usize) -> usize {
        let page = page_size();
        let address = self.address.saturating_add(at as u64);
        let end = (address - address % page).saturating_add(page);
        usize::try_from(end.saturating_sub(self.address)).map_or(self.len, |end| end.min(self.len))
    }

    fn state(&self, at: usize, kind: MemoryKind) -> Option<PageState> {
        let page = page_size();
        let address = self.address.saturating_add(at as u64);
        let number = usize::try_from(address / page - self.address / page).ok()?;
        let known = self.entries.get(..self.read)?.as_chunks::<8>().0;
        let entry = u64::from_ne_bytes(*known.get(number).filter(|_| at < self.len)?);
        let excluded = match kind {
            MemoryKind::Private => IS_OF_FILE,
            MemoryKind::Any => 0,
        };
        Some(if entry & IS_SWAPPED != 0 {
            PageState::Swapped
        } else if entry & IS_PRESENT == 0 {
            PageState::Untouched
        } else if entry & excluded == 0 {
            PageState::Resident
        } else {
            PageState::Other
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use test_support::patience;

    use super::*;
    use crate::thread_id::current_thread_id;

    fn own() -> ProcessId {
        ProcessId::new(std::process::id())
    }

    fn start_of(pid: ProcessId) -> ProcessStart {
        ProcessStat::of(pid).and_then(|stat| stat.start()).unwrap()
    }

    fn open_own() -> OtherProcess {
        OtherProcess::open(own(), start_of(own())).unwrap()
    }

    /// A process that sleeps; killed when dropped.
    struct Sleeper(Child);

    impl Sleeper {
        fn start() -> (Self, ProcessId, ProcessStart) {
            let child = Command::new("sleep").arg("1000").spawn().unwrap();
            let pid = ProcessId::new(child.id());
            (Self(child), pid, start_of(pid))
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_is_opened_only_with_its_start_time_and_while_it_runs() {
        let (mut sleeper, pid, start) = Sleeper::start();
        assert!(OtherProcess::open(pid, start).is_some());
        let later = ProcessStart::new(start.get() + 1);
        assert!(OtherProcess::open(pid, later).is_none());
        sleeper.0.kill().unwrap();
        // Nobody has waited for it yet.
        assert!(patience::until(|| OtherProcess::open(pid, start).is_none()));
    }

    #[test]
    fn an_ended_process_shows_nothing_although_its_number_is_in_use() {
        let (sleeper, pid, start) = Sleeper::start();
        let other = OtherProcess::open(pid, start).unwrap();
        let thread = ThreadId::new(u64::from(pid.get()));
        assert!(other.activity(thread).is_some());
        drop(sleeper);
        assert_eq!(other.activity(thread), None);
        assert_eq!(other.name(thread), None);
        assert_eq!(other.resident_bytes(), None);
        assert!(other.has_ended(thread));
    }

    #[test]
    fn a_thread_that_has_not_run_has_the_same_activity() {
        let (_sleeper, pid, start) = Sleeper::start();
        let other = OtherProcess::open(pid, start).unwrap();
        let thread = ThreadId::new(u64::from(pid.get()));
        let sleeps = || matches!(other.doing(thread), Doing::Waiting(wait) if wait.is_in_a_call());
        assert!(patience::until(sleeps));
        let activity = other.activity(thread);
        assert!(activity.is_some() && activity == other.activity(thread));
        let coarse = other.coarse_activity(thread);
        assert!(coarse.is_some() && coarse == other.coarse_activity(thread));
        let own = current_thread_id();
        let this = open_own();
        let before = this.activity(own);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(before != this.activity(own), "it has run");
    }

    #[test]
    fn the_threads_of_a_process_are_listed_by_number_and_name() {
        let other = open_own();
        let thread = current_thread_id();
        let mut all = Vec::new();
        other.list(&mut all).unwrap();
        assert!(all.contains(&thread) && all.is_sorted());
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert_eq!(other.name(thread).as_deref(), name.strip_suffix('\n'));
        assert_eq!(other.own_number(thread), Some(thread));
        assert!(!other.has_ended(thread));
        assert!(other.has_ended(ThreadId::new(0x3f_fffe)));
        assert!(other.resident_bytes().unwrap() > 1 << 16);
        assert!(other.program() != ProgramPlace::default());
    }

    #[test]
    fn resident_memory_is_read_and_other_memory_is_left_alone() {
        let page = usize::try_from(page_size()).unwrap();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: maps new memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * page, rights, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the first page of this test's own mapping.
        unsafe { start.cast::<u64>().write_volatile(7) };
        let memory = OtherMemory::of(&open_own());
        let mut room = vec![1_u64; 2 * page / 8];
        let read = memory.read_words(start as u64, &mut room, MemoryKind::Private);
        assert_eq!((read.bytes, read.is_forbidden), (page, false), "{read:?}");
        assert_eq!(room[0], 7);
        let code = open_own as *const () as u64;
        let read = |address, kind| memory.read(address, &mut [0; 16], kind).bytes;
        assert_eq!(read(code, MemoryKind::Any), 16);
        assert_eq!(read(code, MemoryKind::Private), 0, "of a file");
        for nowhere in [0, 8, u64::MAX, u64::MAX - 4096, 1 << 63] {
            assert_eq!(read(nowhere, MemoryKind::Any), 0, "{nowhere:#x}");
        }
        // SAFETY: this test's own mapping.
        unsafe { libc::munmap(start, 2 * page) };
    }

    #[test]
    fn a_page_that_was_never_touched_does_not_hide_those_behind_it() {
        let page = usize::try_from(page_size()).unwrap();
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: maps new memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4 * page, rights, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let words = page / 8;
        for number in [0, 2] {
            let word = start.cast::<u64>().wrapping_add(number * words);
            // SAFETY: in a page of this test's own mapping.
            unsafe { word.write_volatile(7) };
        }
        let memory = OtherMemory::of(&open_own());
        let mut room = vec![1_u64; 4 * words];
        let read = memory.read_words(start as u64, &mut room, MemoryKind::Private);
        assert_eq!((read.bytes, read.is_cut), (3 * page, false), "{read:?}");
        assert_eq!((room[0], room[words], room[2 * words]), (7, 0, 7));
        // SAFETY: this test's own mapping.
        unsafe { libc::munmap(start, 4 * page) };
    }
}
