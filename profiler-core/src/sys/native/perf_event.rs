//! Perf events on the time that a thread runs in the program's own code. They send a signal to this
//! thread.
//!
//! `perf_event_open(2)` with `sigtrap`, which exists since Linux 5.13: the system sends `SIGTRAP`
//! to the thread at the end of each interval, at the instruction that runs then. The event's clock
//! is finer than the system's tick. An interval that ends while the system works for the thread
//! takes no sample.
//!
//! An event takes a descriptor. Events use at most a quarter of the descriptors that the process
//! may have, so that enough are left for the program, or for the profiler's other files. The
//! descriptors are closed at `exec`, which also removes the events. A forked child inherits the
//! descriptors and no event. If the profiler has a descriptor table of its own, events are made and
//! closed by threads of the profiler; what a thread of the program wants to close waits for
//! [`close_left_over`].

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use crate::ids::ThreadId;
use crate::sync::fixed::{AtomicU64, Ordering};
use profiler_sys::{DescriptorTable, above_streams};

/// An event: its descriptor, and a part of the number that the system gave it.
///
/// The program may close the descriptor, and open a file that gets the same one. The system never
/// gives a number to two events, so the number tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerfEvent {
    descriptor: libc::c_int,
    /// The lowest [`NUMBER_BITS`] bits.
    number: u64,
    table: DescriptorTable,
}

const NUMBER_BITS: u32 = 28;
const DESCRIPTOR_BITS: u32 = 32;
/// The bit of a word that is set for the profiler's table.
const TABLE_BIT: u32 = NUMBER_BITS + DESCRIPTOR_BITS;

impl PerfEvent {
    /// The event as a number, for an atomic; never 0, and less than 2⁶¹.
    pub(crate) fn to_word(self) -> u64 {
        let table = u64::from(self.table == DescriptorTable::Profiler);
        let descriptor = u64::from(self.descriptor.cast_unsigned()) + 1;
        table << TABLE_BIT | self.number << DESCRIPTOR_BITS | descriptor
    }

    /// The event of a word from [`PerfEvent::to_word`]; `None` for 0.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let descriptor = (word & ((1 << DESCRIPTOR_BITS) - 1)).checked_sub(1)?;
        Some(Self {
            descriptor: u32::try_from(descriptor).ok()?.cast_signed(),
            number: (word >> DESCRIPTOR_BITS) & ((1 << NUMBER_BITS) - 1),
            table: match word >> TABLE_BIT {
                0 => DescriptorTable::Program,
                _ => DescriptorTable::Profiler,
            },
        })
    }
}

/// `struct perf_event_attr` in the kernel's layout, up to `sig_data`.
type Attributes = [u64; 16];

const SOFTWARE: u64 = 1;
const TASK_CLOCK: u64 = 1;
/// Bits of the attributes: `disabled`, `exclude_kernel`, `exclude_hv`, `remove_on_exec`, `sigtrap`.
const FLAGS: u64 = 1 | 1 << 5 | 1 << 6 | 1 << 36 | 1 << 37;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// The requests of `ioctl(2)` that start and stop an event.
const ENABLE: libc::Ioctl = 0x2400;
const DISABLE: libc::Ioctl = 0x2401;
/// The request that reads an event's number. The system reads 32 bits; musl's type has a sign.
const NUMBER: libc::Ioctl = 0x8008_2407_u32 as libc::Ioctl;
/// The request that sets another interval.
const PERIOD: libc::Ioctl = 0x4008_2404;
/// The first version of the system that holds the signal back while the thread blocks it, and loses
/// none. Before 5.18 the signal ends the process, and before 6.1 an event may stop by itself.
const FIRST_HARMLESS: (u32, u32) = (6, 1);

/// The number of events that exist.
static OPEN: AtomicU64 = AtomicU64::new(0);
/// [`PerfEvent::to_word`] of each event that a thread with another table has given up; 0 in a free
/// place.
static LEFT_OVER: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];

/// Makes a stopped event whose signals carry `word`.
///
/// # Errors
/// `EMFILE` if a quarter of the descriptors is used; `EACCES` or `EPERM` if the system does not
/// allow events; `ESRCH` if the thread has ended.
pub(crate) fn open(thread: ThreadId, word: u64, interval: Duration) -> io::Result<PerfEvent> {
    let tid = libc::pid_t::try_from(thread.get()).map_err(|_| io::ErrorKind::InvalidInput)?;
    if OPEN.fetch_add(1, Ordering::Relaxed) >= most_events() {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let attributes = attributes(word, interval);
    // SAFETY: the attributes contain their size, and the kernel reads no more.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            tid,
            -1, // on any processor
            -1, // in no group
            CLOSE_ON_EXEC,
        )
    };
    let event = match libc::c_int::try_from(opened) {
        Ok(descriptor) if descriptor >= 0 => kept(descriptor),
        _ => Err(io::Error::last_os_error()),
    };
    match event {
        Ok(descriptor) => checked(descriptor, tid),
        Err(error) => {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            Err(error)
        }
    }
}

/// The number under which a new event stays open.
fn kept(descriptor: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: the system has just created the descriptor, and no other value owns it.
    let event = unsafe { OwnedFd::from_raw_fd(descriptor) };
    above_streams(event).map(OwnedFd::into_raw_fd)
}

/// The new event with this descriptor, if its thread is of this process: the number of a thread
/// that has ended may belong to another process.
fn checked(descriptor: libc::c_int, tid: libc::pid_t) -> io::Result<PerfEvent> {
    let number = number_of(descriptor).unwrap_or(0);
    let table = DescriptorTable::current();
    let event = PerfEvent {
        descriptor,
        number,
        table,
    };
    let pid = std::process::id().cast_signed();
    // SAFETY: sends no signal, only asks whether there is such a thread.
    if unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) } == 0 {
        return Ok(event);
    }
    let error = io::Error::last_os_error();
    close(event);
    Err(error)
}

/// The number of the event with this descriptor, see [`PerfEvent`]. `None` if it is no event.
fn number_of(descriptor: libc::c_int) -> Option<u64> {
    let mut number = 0_u64;
    // SAFETY: the kernel writes the number.
    let failed = unsafe { libc::ioctl(descriptor, NUMBER, &raw mut number) };
    (failed == 0).then_some(number & ((1 << NUMBER_BITS) - 1))
}

/// Whether the program has closed the event's descriptor. False if that is not known, because the
/// descriptor is in another table than that of the calling thread.
pub(crate) fn is_lost(event: PerfEvent) -> bool {
    event.table == DescriptorTable::current() && !is_open(event)
}

/// Whether the event's descriptor is open in the table of the calling thread, and still the
/// event's.
fn is_open(event: PerfEvent) -> bool {
    event.table == DescriptorTable::current() && number_of(event.descriptor) == Some(event.number)
}

fn attributes(word: u64, interval: Duration) -> Attributes {
    let mut attributes: Attributes = [0; 16];
    let size = size_of::<Attributes>() as u64;
    let [kind, config, period, _, _, flags, .., data] = &mut attributes;
    (*kind, *config, *flags) = (SOFTWARE | size << 32, TASK_CLOCK, FLAGS);
    *period = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    *data = word;
    attributes
}

/// Starts an event: it fires after each interval in which its thread has run.
///
/// # Errors
/// Errors of the system.
pub(crate) fn start(event: PerfEvent) -> io::Result<()> {
    // SAFETY: has no argument.
    let failed = unsafe { libc::ioctl(event.descriptor, ENABLE, 0) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives an event another interval, if its thread lives.
pub(crate) fn set_interval(event: PerfEvent, interval: Duration) {
    let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    if is_open(event) {
        // SAFETY: the kernel reads the number.
        unsafe { libc::ioctl(event.descriptor, PERIOD, &raw const nanos) };
    }
}

/// Stops an event and closes its descriptor, unless the program has closed it. Called once for each
/// event. On a thread with another table, notes the event for [`close_left_over`].
pub(crate) fn close(event: PerfEvent) {
    if event.table != DescriptorTable::current() {
        return leave_over(event);
    }
    OPEN.fetch_sub(1, Ordering::Relaxed);
    if !is_open(event) {
        return;
    }
    // A forked child may hold the descriptor too: closing alone would not stop the event.
    // SAFETY: has no argument.
    unsafe { libc::ioctl(event.descriptor, DISABLE, 0) };
    // SAFETY: the descriptor is the event's, and is not used afterwards.
    unsafe { libc::close(event.descriptor) };
}

/// Notes an event that another thread is to close. If no place is free, the event stays open until
/// an exec or the end of the process.
fn leave_over(event: PerfEvent) {
    let word = event.to_word();
    let take = |place: &AtomicU64| {
        let taken = place.compare_exchange(0, word, Ordering::Release, Ordering::Relaxed);
        taken.is_ok()
    };
    LEFT_OVER.iter().any(take);
}

/// Closes the events in the table of the calling thread that other threads have given up. Called by
/// the sampler's thread.
pub(crate) fn close_left_over() {
    for place in &LEFT_OVER {
        let word = place.load(Ordering::Acquire);
        let event = PerfEvent::from_word(word);
        let event = event.filter(|event| event.table == DescriptorTable::current());
        let take = || place.compare_exchange(word, 0, Ordering::Acquire, Ordering::Relaxed);
        if let Some(event) = event
            && take().is_ok()
        {
            close(event);
        }
    }
}

/// The most events that this process may have at a time.
fn most_events() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes into memory of its type.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur / 4
}

/// Whether the system gives an event to this thread, and its signal does no harm.
pub(crate) fn is_allowed(thread: ThreadId) -> bool {
    super::timer::release() >= FIRST_HARMLESS
        && open(thread, 0, Duration::from_secs(3600))
            .map(close)
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    #[test]
    fn the_attributes_have_the_systems_layout() {
        let attributes = attributes(7, Duration::from_micros(250));
        assert_eq!(attributes[0], 1 | 128 << 32);
        assert_eq!((attributes[2], attributes[15]), (250_000, 7));
        assert_eq!(attributes[5], 0x30_0000_0061);
    }

    #[test]
    fn an_event_is_made_started_and_closed_where_the_system_allows_it() {
        let own = sys::current_thread_id();
        if !is_allowed(own) {
            return println!("no events here: nothing to check");
        }
        let event = open(own, 7, Duration::from_secs(3600)).unwrap();
        assert_eq!(PerfEvent::from_word(event.to_word()), Some(event));
        start(event).unwrap();
        close(event);
        assert!(start(event).is_err());
    }

    #[test]
    fn an_event_that_the_program_gives_up_is_closed_by_a_thread_of_the_profiler() {
        let own = sys::current_thread_id();
        if !is_allowed(own) {
            return println!("no events here: nothing to check");
        }
        let event = open(own, 7, Duration::from_secs(3600)).unwrap();
        let close_elsewhere = move || {
            profiler_sys::enter_own_table(&[]).unwrap();
            close(event);
            close_left_over();
        };
        let elsewhere = profiler_sys::spawn_quiet("elsewhere", close_elsewhere);
        elsewhere.unwrap().join().unwrap();
        assert!(is_open(event), "it is not in that table");
        assert!(!is_lost(event));
        close_left_over();
        assert!(!is_open(event));
    }

    #[test]
    fn a_file_of_the_program_with_the_descriptor_of_an_event_is_not_closed() {
        let own = sys::current_thread_id();
        if !is_allowed(own) {
            return println!("no events here: nothing to check");
        }
        let event = open(own, 7, Duration::from_secs(3600)).unwrap();
        let mut pipe = [0; 2];
        // SAFETY: writes two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // The program closes the event and opens a file instead.
        // SAFETY: takes numbers.
        unsafe { libc::dup2(pipe[0], event.descriptor) };
        assert!(!is_open(event));
        close(event);
        // SAFETY: takes a number.
        let flags = unsafe { libc::fcntl(event.descriptor, libc::F_GETFD) };
        assert_ne!(flags, -1, "the program's file is closed");
        for descriptor in [event.descriptor, pipe[0], pipe[1]] {
            // SAFETY: the descriptors are this test's.
            unsafe { libc::close(descriptor) };
        }
    }

    #[test]
    fn an_event_survives_its_word() {
        for table in [DescriptorTable::Program, DescriptorTable::Profiler] {
            let event = PerfEvent {
                descriptor: libc::c_int::MAX,
                number: (1 << NUMBER_BITS) - 1,
                table,
            };
            assert!(event.to_word() < 1 << 61);
            assert_eq!(PerfEvent::from_word(event.to_word()), Some(event));
        }
    }

    #[test]
    fn a_thread_that_does_not_exist_has_no_event() {
        let absent = ThreadId::new(0x3f_fffe);
        assert!(open(absent, 7, Duration::from_secs(1)).is_err());
        assert_eq!(PerfEvent::from_word(0), None);
    }
}
