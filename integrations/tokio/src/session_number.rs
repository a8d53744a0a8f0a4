//! The number of the latest session, which tells the tasks of an earlier session from its own.
//!
//! Used by the tables of tasks and by the readers of runtimes. The core calls [`after_switch`]
//! after each start and stop. Invariant: the number changes between a stop and the next start, so
//! everything that one session records has one number. Only if a session stops and another starts
//! at once, the first entries of the second may have the number of the first; the interval of a
//! task that is seen then begins twice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use profiler_core::session;

static NUMBER: AtomicU32 = AtomicU32::new(1);
/// A session ran at the latest call.
static WAS_ACTIVE: AtomicBool = AtomicBool::new(false);
static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);

/// The number of the running session, or of the next one.
#[inline]
pub(crate) fn session_number() -> u32 {
    NUMBER.load(Ordering::Relaxed)
}

/// Follows starts and stops from now on. Costs one load after the first call.
#[inline]
pub(crate) fn follow_sessions() {
    if !IS_FOLLOWED.load(Ordering::Relaxed) && !IS_FOLLOWED.swap(true, Ordering::Relaxed) {
        WAS_ACTIVE.store(session::is_active(), Ordering::Relaxed);
        // Without a place among the functions, the number stays: a task that is open at a stop is
        // then not seen again in the next session.
        let _ = session::on_switch(after_switch);
    }
}

fn after_switch() {
    let is_active = session::is_active();
    // One call may stand for a stop and the start after it.
    if WAS_ACTIVE.swap(is_active, Ordering::Relaxed) || !is_active {
        NUMBER.fetch_add(1, Ordering::Relaxed);
    }
}
