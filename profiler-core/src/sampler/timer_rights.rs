//! Which timers and perf events this process may make, and which timers it may delete.
//!
//! Two things limit the timers. A filter of system calls that the program installs during a session
//! may refuse the calls, or end the process for them. And the system counts each timer as a queued
//! signal of the user, whose number `RLIMIT_SIGPENDING` limits: half of this number is left to the
//! program.
//!
//! The sampler's thread notes its filters before it makes and deletes its first timer. As long as
//! it has the same filters, it may do both. Another thread may have more filters, and can only
//! check whether it has any ([`may_create`]).

use std::io;

use crate::ids::ThreadId;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys::native::tasks;
use crate::sys::native::timer::{self, FilterMode, TimerId};

/// The [`FilterMode`] of the sampler's thread at the start of the session, as a number.
static FILTER_AT_START: AtomicU64 = AtomicU64::new(0);
/// The number of filters of the sampler's thread at that time; [`NOT_NOTED`] before the first
/// session, [`NOT_REPORTED`] if the system does not report it.
static FILTERS_AT_START: AtomicU64 = AtomicU64::new(NOT_NOTED);
const NOT_NOTED: u64 = u64::MAX;
const NOT_REPORTED: u64 = u64::MAX - 1;
/// The number of timers that exist, including those that could not be deleted.
static TIMERS: AtomicU64 = AtomicU64::new(0);
/// The number of the process that has these timers: a forked child has none.
static PROCESS: AtomicU64 = AtomicU64::new(0);
/// The most timers that this process makes, see [`timer::most_timers`].
static MAX_TIMERS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Makes a stopped timer, see [`timer::create`].
///
/// # Errors
/// Those of [`timer::create`]; also `EAGAIN` if the process has [`MAX_TIMERS`] timers.
pub(super) fn create(thread: ThreadId, word: u64) -> io::Result<TimerId> {
    let is_one_of = TIMERS.fetch_add(1, Ordering::Relaxed) < MAX_TIMERS.load(Ordering::Relaxed);
    let timer = if is_one_of {
        timer::create(thread, word)
    } else {
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    };
    if timer.is_err() {
        TIMERS.fetch_sub(1, Ordering::Relaxed);
    }
    timer
}

/// Deletes a timer.
pub(super) fn delete(timer: TimerId) {
    timer::delete(timer);
    TIMERS.fetch_sub(1, Ordering::Relaxed);
}

/// Deletes a timer that is no longer in a place, unless a new filter may end the process for it. A
/// timer that is not deleted does no harm: its word no longer names a thread, so its signals have
/// no effect.
pub(super) fn delete_if_allowed(timer: TimerId) {
    if may_manage() {
        delete(timer);
    }
}

/// Whether the calling thread may make timers, see [`timer::may_create`].
pub(super) fn may_create() -> bool {
    timer::may_create(filter_at_start())
}

fn filter_at_start() -> FilterMode {
    let at_start = FILTER_AT_START.load(Ordering::SeqCst);
    [FilterMode::None, FilterMode::Inherited]
        .into_iter()
        .find(|mode| *mode as u64 == at_start)
        .unwrap_or(FilterMode::Other)
}

/// Notes the filters of the sampler's thread and the limit, before the first timer of a session.
/// False if the filters are not those of an earlier session, or cannot be recognised later.
pub(super) fn begin_session() -> bool {
    let is_first = FILTERS_AT_START.load(Ordering::SeqCst) == NOT_NOTED;
    if !is_first && !may_manage() {
        return false;
    }
    let process = u64::from(std::process::id());
    if PROCESS.swap(process, Ordering::Relaxed) != process {
        TIMERS.store(0, Ordering::Relaxed);
    }
    let mode = timer::filter_mode();
    let filters = if mode == FilterMode::None {
        0
    } else {
        tasks::own_filters().map_or(NOT_REPORTED, u64::from)
    };
    FILTER_AT_START.store(mode as u64, Ordering::SeqCst);
    FILTERS_AT_START.store(filters, Ordering::SeqCst);
    MAX_TIMERS.store(timer::most_timers(), Ordering::Relaxed);
    may_manage()
}

/// Whether the sampler's thread may make and delete timers. Not for threads of the program, because
/// it may read a file.
pub(super) fn may_manage() -> bool {
    let filters = FILTERS_AT_START.load(Ordering::SeqCst);
    may_create()
        || filter_at_start() == FilterMode::Other
            && tasks::own_filters().is_some_and(|now| u64::from(now) == filters)
}
