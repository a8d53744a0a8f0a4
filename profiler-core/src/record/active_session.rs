//! The running session as recording threads see it, and which threads its filters select.
//!
//! Set by `session` when a session starts and stops. Read by a thread that joins the session
//! (`join`), and by threads without a recorder. Invariant: a recording thread never waits for the
//! lock; while a session starts or stops, it finds none.

use std::cell::Cell;
use std::sync::{Arc, PoisonError, RwLock};

use super::session_state;
use crate::ids::{ThreadId, ThreadIndex};
use crate::manager::ChunkManager;
use crate::thread_filter::ThreadFilter;
use profiler_sys::Renewable;

/// A session as recording threads see it.
#[derive(Debug)]
pub(crate) struct ActiveSession {
    pub(crate) epoch: u64,
    pub(crate) manager: Arc<ChunkManager>,
    pub(crate) filter: ThreadFilter,
    pub(crate) markers_of_all: bool,
    pub(crate) main: Option<(ThreadId, ThreadIndex)>,
    pub(crate) fast_fill: u64,
}

static CURRENT: Renewable<RwLock<Option<Arc<ActiveSession>>>> = Renewable::new(RwLock::new(None));

thread_local! {
    /// The thread records for others: filters do not apply to it.
    static ALWAYS_SELECTED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread record regardless of filters. For the sampler's thread.
pub(crate) fn select_always() {
    ALWAYS_SELECTED.with(|always| always.set(true));
}

impl ActiveSession {
    /// Whether the calling thread, which has this name, records.
    pub(super) fn selects(&self, name: &str) -> bool {
        let by_name = self.markers_of_all || self.filter.selects(name);
        !self.filter.excludes_process() && (by_name || ALWAYS_SELECTED.with(Cell::get))
    }

    /// Whether a thread of this name is sampled.
    pub(super) fn samples(&self, name: &str) -> bool {
        !self.filter.excludes_process() && self.filter.selects(name)
    }
}

/// Sets the session that threads join; returns the previous one. Called by `session`, which opens
/// the gate afterwards.
pub(crate) fn set_current(session: Option<Arc<ActiveSession>>) -> Option<Arc<ActiveSession>> {
    std::mem::replace(
        &mut *CURRENT.write().unwrap_or_else(PoisonError::into_inner),
        session,
    )
}

/// The session; `None` without one, and while one starts or stops.
pub(super) fn current() -> Option<Arc<ActiveSession>> {
    CURRENT.try_read().ok()?.clone()
}

/// In a forked child that begins anew: forgets the session of the parent. Does not drop it, because
/// it refers to a pool that is not mapped here.
pub(super) fn forget_parent() {
    CURRENT.renew(RwLock::new(None));
}

/// Runs `body` with the session's chunk manager, for a thread that has not joined the session.
#[inline(never)]
pub(super) fn with_shared_manager<T>(body: impl FnOnce(&ChunkManager) -> Option<T>) -> Option<T> {
    // A forked child still has its parent's session, whose pool is not mapped there.
    if session_state::is_forked_child() {
        return None;
    }
    let session = current()?;
    body(&session.manager)
}
