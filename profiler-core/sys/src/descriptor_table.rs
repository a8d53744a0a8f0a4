//! A descriptor table for the threads of the profiler, apart from that of the program.
//!
//! The threads of a process usually share one table, so a program that closes all descriptors, or
//! that puts a file under a number of its choice, does this to the files of the profiler, too. A
//! thread that calls [`leave_program_table`] has a table of its own, and so have the threads that
//! it starts:
//!
//! ```text
//! program's threads ──▶ table of the program:  0 1 2 3 4 …     /proc/PID/fd; fork and exec copy it
//! profiler-io       ──▶ table of the profiler: 0 … 15 (empty), 16 … pool, socket, perf events
//!   └─ profiler-control, profiler-chunks, profiler-stacks        /proc/PID/task/TID/fd
//! ```
//!
//! The lowest numbers of the new table refer to an empty file. Code of the program may run on
//! threads of the profiler: an allocator that writes a log, a panic hook. It knows numbers of the
//! program's table, which are low, and must not act on the files of the profiler.
//!
//! An exec and the end of the process close both. Memory that is mapped from a file is that of all
//! threads. Paths below `/proc/self/fd` belong to the table of the first thread of the process,
//! those below `/proc/thread-self/fd` to that of the calling thread.
//!
//! Invariant: a number is used in the table in which it was made. Each thread knows its table
//! ([`DescriptorTable::current`]), and `OwnDescriptor` and `PerfEvent` remember it.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use std::sync::atomic::{AtomicU64, Ordering};

/// A descriptor table of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorTable {
    /// That of the program's threads.
    Program,
    /// That of the profiler's threads.
    Profiler,
}

thread_local! {
    static TABLE_OF_THREAD: Cell<DescriptorTable> = const { Cell::new(DescriptorTable::Program) };
}

/// The number of the thread that has made the profiler's table; 0 if the profiler has none.
static TABLE_MAKER: AtomicU64 = AtomicU64::new(0);

/// The numbers of the new table that are occupied, unless the process may have few descriptors. Each
/// costs a system call, and files that a program keeps open for its own diagnosis have low numbers.
const OCCUPIED: RawFd = 16;

impl DescriptorTable {
    /// The table of the calling thread.
    #[inline]
    pub fn current() -> Self {
        TABLE_OF_THREAD.get()
    }

    /// Whether the calling thread can use the descriptors of the profiler. False on threads of the
    /// program if the profiler has a table of its own.
    pub fn is_that_of_profiler() -> bool {
        TABLE_MAKER.load(Ordering::Acquire) == 0 || Self::current() == Self::Profiler
    }

    /// The directory with links to the open files of this table.
    pub(super) fn directory(self) -> String {
        if self == Self::current() {
            "/proc/thread-self/fd".to_owned()
        } else {
            let thread = match self {
                Self::Program => u64::from(std::process::id()),
                Self::Profiler => TABLE_MAKER.load(Ordering::Acquire),
            };
            format!("/proc/self/task/{thread}/fd")
        }
    }

    /// Notes the table of the calling thread, which a thread with this table has started.
    pub(super) fn inherit(self) {
        TABLE_OF_THREAD.set(self);
    }
}

/// Gives the calling thread a descriptor table of its own. It contains only the descriptors `kept`,
/// which the program's table keeps, too.
///
/// For a moment, files of the program with numbers below 64, or below the highest kept one, are
/// open in both tables, as in a process that is forked and executes a program.
///
/// # Errors
/// If the system cannot do it (before Linux 5.9, in a sandbox that refuses `close_range`). The
/// thread then keeps the table of the program.
pub fn leave_program_table(kept: &[RawFd]) -> io::Result<()> {
    if DescriptorTable::current() == DescriptorTable::Profiler {
        return Ok(());
    }
    enter_own_table(kept)?;
    TABLE_MAKER.store(super::current_thread_number(), Ordering::Release);
    Ok(())
}

/// Called at the end of the thread that has called [`leave_program_table`], if no other thread uses
/// its table: threads of the program may use what they make themselves.
pub fn end_profiler_table() {
    let own = super::current_thread_number();
    // Another thread may have made the next table.
    let _ = TABLE_MAKER.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
}

/// [`leave_program_table`] for one thread, of which other threads need not know.
pub fn enter_own_table(kept: &[RawFd]) -> io::Result<()> {
    separate(kept)?;
    DescriptorTable::Profiler.inherit();
    occupy_low_numbers();
    Ok(())
}

/// In a forked child that begins anew: the profiler has no table there.
pub(crate) fn forget_parent() {
    TABLE_MAKER.store(0, Ordering::Release);
    DescriptorTable::Program.inherit();
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
fn separate(kept: &[RawFd]) -> io::Result<()> {
    let mut kept: Vec<u32> = kept
        .iter()
        .filter_map(|kept| (*kept).try_into().ok())
        .collect();
    kept.sort_unstable();
    // First the numbers above all kept ones: the system copies the table up to this number.
    let above = kept.last().map_or(0, |last| last.saturating_add(1));
    close_range(above, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    let mut first = 0;
    for number in kept {
        if let Some(last) = number.checked_sub(1).filter(|last| first <= *last) {
            // Without a flag, the call fails only for an invalid range.
            let _ = close_range(first, last, 0);
        }
        first = number.saturating_add(1);
    }
    Ok(())
}

#[cfg(all(target_os = "linux", not(profiler_portable)))]
fn close_range(first: u32, last: u32, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: takes numbers. With `CLOSE_RANGE_UNSHARE` it closes nothing in the table that other
    // threads use; without, it is called only after that call, on a table that no other thread has.
    let failed = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
fn separate(_: &[RawFd]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens an empty file under each free number below [`OCCUPIED`], or below half of the numbers that
/// the process may use. Called again after kept descriptors have been closed. Does nothing in the
/// program's table.
pub fn occupy_low_numbers() {
    if DescriptorTable::current() == DescriptorTable::Program {
        return;
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = most.map_or(OCCUPIED, |most| {
        RawFd::try_from(most / 2).unwrap_or(OCCUPIED)
    });
    let end = half.clamp(3, OCCUPIED);
    let mut options = File::options();
    let Ok(null) = options.read(true).write(true).open("/dev/null") else {
        return; // a root directory without devices
    };
    let mut next = null.as_raw_fd();
    while next < end {
        let Ok(copy) = rustix::io::fcntl_dupfd_cloexec(&null, 0) else {
            break;
        };
        next = copy.as_raw_fd();
        if next < end {
            let _ = copy.into_raw_fd(); // stays open as long as the table
        }
    }
    if null.as_raw_fd() < end {
        let _ = null.into_raw_fd();
    }
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd};

    use super::*;
    use crate::{FileIdentity, OwnDescriptor, spawn_quiet};

    /// The numbers from [`OCCUPIED`] to 999 that are open on the calling thread.
    fn open_numbers() -> Vec<RawFd> {
        let is_open = |number: &RawFd| FileIdentity::of_number(*number).is_ok();
        (OCCUPIED..1000).filter(is_open).collect()
    }

    fn at(number: RawFd) -> File {
        let zero = File::open("/dev/zero").unwrap();
        File::from(rustix::io::fcntl_dupfd_cloexec(&zero, number).unwrap())
    }

    #[test]
    fn a_thread_with_a_table_of_its_own_has_the_kept_descriptors_and_no_other() {
        let files: Vec<_> = (0..8).map(|_| at(300)).collect();
        let kept = vec![files[5].as_raw_fd(), files[2].as_raw_fd()];
        let expected = vec![files[2].as_raw_fd(), files[5].as_raw_fd()];
        let inside = spawn_quiet("apart", move || {
            enter_own_table(&kept).unwrap();
            let inherited = spawn_quiet("inner", || (open_numbers(), DescriptorTable::current()));
            (open_numbers(), inherited.unwrap().join().unwrap())
        });
        let (outer, (inner, table)) = inside.unwrap().join().unwrap();
        assert_eq!(outer, expected);
        assert_eq!(inner, expected);
        assert_eq!(table, DescriptorTable::Profiler);
        assert_eq!(DescriptorTable::current(), DescriptorTable::Program);
        let is_open = |file: &File| FileIdentity::of_number(file.as_raw_fd()).is_ok();
        assert!(files.iter().all(is_open));
    }

    #[test]
    fn low_numbers_are_those_of_an_empty_file_also_after_a_kept_one_is_closed() {
        let file = File::open("/dev/zero").unwrap();
        let kept = file.as_raw_fd();
        let inside = spawn_quiet("apart", move || {
            enter_own_table(&[kept]).unwrap();
            // SAFETY: the number is that of the kept file in this table, and has no owner in it.
            drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(kept) });
            occupy_low_numbers();
            let next = File::open("/dev/null").unwrap();
            let null = FileIdentity::of_number(next.as_raw_fd()).unwrap();
            let is_null = |number| FileIdentity::of_number(number).is_ok_and(|it| it == null);
            ((0..OCCUPIED).all(is_null), next.as_raw_fd())
        });
        assert_eq!(inside.unwrap().join().unwrap(), (true, OCCUPIED));
    }

    #[test]
    fn a_descriptor_is_neither_used_nor_closed_in_the_other_table() {
        let own = spawn_quiet("apart", || {
            enter_own_table(&[]).unwrap();
            let own = OwnDescriptor::new(at(900));
            (own.get().is_ok(), own)
        });
        let (is_usable, own) = own.unwrap().join().unwrap();
        assert!(is_usable);
        // The program has the same file under the same number.
        let number = own.number().unwrap();
        let same = at(number);
        assert_eq!(same.as_raw_fd(), number);
        assert!(own.get().is_err());
        drop(own);
        assert!(FileIdentity::of_number(number).is_ok(), "it is closed");
    }
}
