//! Records sampled allocations and their frees.
//!
//! Called by the allocator while a session runs. Invariants: a free is recorded if and only if its
//! allocation was; memory that the profiler allocates while it records a sample is not sampled;
//! the profiler's own threads are not sampled. A thread that the session's filter excludes records
//! neither allocations nor frees.

use std::cell::Cell;

use super::byte_counter;
use super::live::LiveSamples;
use super::sampling_interval::{Sampling, trial};
use crate::backtrace::Backtrace;
use crate::entry::sample::write_allocation;
use crate::entry::{Kind, Timing, head_of, length_bits};
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::params::Features;
use crate::pool::tag::pool_tag;
use crate::record::writer::{Front, PayloadBuffer};
use crate::record::{local, session_state};
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// Places for 65,536 addresses. The pages of this megabyte are not touched before allocations are
/// sampled.
static LIVE: LiveSamples<8192> = LiveSamples::new();

/// The session whose allocations are sampled; 0 = none.
static SESSION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread is recording a sample. Constant initial value and no destructor.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Starts a session. Called before the gate is opened.
pub(crate) fn begin_session(epoch: u64, features: Features) {
    byte_counter::clear();
    let wanted = features.contains(Features::NATIVE_ALLOCATIONS);
    if wanted {
        LIVE.clear();
    }
    SESSION.store(if wanted { epoch } else { 0 }, Ordering::Release);
}

/// Ends the session. Called after the gate was closed.
pub(crate) fn end_session() {
    SESSION.store(0, Ordering::Release);
}

/// Counts an allocation, and records it if it is sampled.
#[inline]
pub(super) fn allocated(address: u64, size: u64, sampling: &Sampling) {
    let session = SESSION.load(Ordering::Relaxed);
    if session != 0
        && let Some(bytes) = trial(size, sampling)
    {
        sample(address, bytes, session);
    }
}

/// Records a free if its allocation was recorded.
#[inline]
pub(super) fn freed(address: u64) {
    let session = SESSION.load(Ordering::Relaxed);
    if session != 0
        && let Some(bytes) = LIVE.take(address, session)
    {
        give_back(address, bytes);
    }
}

#[cold]
#[inline(never)]
fn sample(address: u64, bytes: u64, session: u64) {
    let own = 0_u8;
    let is_paused = session_state::word() & session_state::PAUSED != 0;
    if is_paused || profiler_sys::is_quiet_thread() || BUSY.replace(true) {
        return;
    }
    if !LIVE.put(address, bytes, session) {
        local::count_in_process_row(DropReason::Full);
    } else if !record(
        address,
        i64::try_from(bytes).unwrap_or(i64::MAX),
        std::ptr::from_ref(&own),
    ) {
        LIVE.take(address, session);
    }
    BUSY.set(false);
}

#[cold]
#[inline(never)]
fn give_back(address: u64, bytes: u64) {
    let own = 0_u8;
    if BUSY.replace(true) {
        return local::count_in_process_row(DropReason::Reentrant);
    }
    // A dropped entry is counted.
    record(
        address,
        i64::try_from(bytes).map_or(i64::MIN, |bytes| -bytes),
        std::ptr::from_ref(&own),
    );
    BUSY.set(false);
}

/// Records one entry; returns whether it was written. Frames at and below `own` are the profiler's.
fn record(address: u64, bytes: i64, own: *const u8) -> bool {
    let at = Timestamp::now();
    let stack = Backtrace::full(own.addr() as u64);
    let head = head_of(
        Kind::Allocation,
        Timing::Instant(at),
        false,
        DefinitionId::NONE,
    );
    let front = Front {
        head: head | length_bits(pool_tag()),
        fixed: [at.raw(), 0, 0],
    };
    let mut is_written = false;
    let encode = |room: PayloadBuffer<'_>| {
        let len = write_allocation(room.bytes, bytes, address, stack.frames(), stack.is_cut());
        is_written = len.is_some();
        Ok(len)
    };
    local::with_recorder_in_allocator(|recorder| recorder.with_tail(front, "", encode));
    is_written
}
