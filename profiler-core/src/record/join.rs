//! How a thread joins a session: its filters are applied, and the thread gets a row.
//!
//! Called by `recorder` at the first entry of a thread in a session. Invariants: a thread gets its
//! row only after its alternate stack was checked and the sampler was told, because from then on it
//! is sampled; the thread never waits for a lock.

use std::sync::{Arc, OnceLock};

use super::active_session::{ActiveSession, current};
use super::local::is_in_allocator;
use super::recorder::{NotRecorded, Recorder};
use super::session_state;
use super::thread_names::thread_name;
use super::writer::{RowOwnership, ThreadContext, Waiting};
use crate::entry_counts::DropReason;
use crate::ids::{ThreadId, ThreadIndex};
use crate::pool::live::{NewThread, ThreadRow};
use crate::sys;
use crate::time::Timestamp;

/// See [`set_join_hook`].
static JOIN_HOOK: OnceLock<fn(ThreadId)> = OnceLock::new();

/// Sets a function that a thread which the session's filters select calls when it joins, before it
/// has a row. The first function stays.
#[cfg_attr(profiler_portable, allow(dead_code))] // no sampler on these systems
pub(crate) fn set_join_hook(hook: fn(ThreadId)) {
    let _ = JOIN_HOOK.set(hook);
}

/// Joins the session of `word` for a recorder and returns its context. `waiting` is the state left
/// by an earlier try in the same session, so that nothing is allocated twice.
pub(super) fn join(
    recorder: &Recorder,
    word: u64,
    waiting: &mut Option<Waiting>,
) -> Result<ThreadContext, NotRecorded> {
    let session = current()
        .filter(|session| session.epoch == session_state::epoch_of(word))
        .ok_or(NotRecorded::Off)?;
    // Before the thread has a row: from then on it is sampled.
    sys::check_alternate_stack(recorder.tid());
    // Inside the allocator a thread has the system's name; outside it is selected again by its own.
    let is_its_name = |waiting: &Waiting| !waiting.is_named_by_system || is_in_allocator();
    let known = waiting
        .take()
        .filter(|waiting| waiting.epoch == session.epoch && is_its_name(waiting));
    let was_selected = known.is_some();
    let (name, by_system) = known.map_or_else(thread_name, |waiting| {
        (waiting.name, waiting.is_named_by_system)
    });
    let selected = was_selected || session.selects(&name);
    if !was_selected
        && let Some(hook) = JOIN_HOOK.get()
        && session.samples(&name)
    {
        hook(recorder.tid());
    }
    let place = match selected {
        true => row_for(&session, recorder.tid(), &name),
        false => Ok((ThreadIndex::PROCESS, RowOwnership::None)),
    };
    if place.is_err() {
        *waiting = Some(Waiting {
            epoch: session.epoch,
            name,
            is_named_by_system: by_system,
        });
    }
    let (row, tenure) = place?;
    let manager = Arc::clone(&session.manager);
    let epoch = session.epoch;
    let fast_fill = session.fast_fill;
    // The main thread's row already has its name.
    let is_named_by_system = by_system && !matches!(tenure, RowOwnership::Kept(_));
    Ok(ThreadContext {
        manager,
        epoch,
        row,
        selected,
        is_named_by_system,
        tenure,
        fast_fill,
    })
}

/// Returns the thread's row and how the thread owns it. The main thread's row exists for the whole
/// session. Takes no lock.
fn row_for(
    session: &ActiveSession,
    tid: ThreadId,
    name: &str,
) -> Result<(ThreadIndex, RowOwnership), NotRecorded> {
    let pool = session.manager.pool();
    let kept = session
        .main
        .filter(|(main, _)| *main == tid)
        .map(|(_, row)| row);
    if let Some(row) = kept
        && let Some(own) = pool.thread_row(row).and_then(ThreadRow::take_kept)
    {
        return Ok((row, RowOwnership::Kept(own)));
    }
    let thread = NewThread {
        tid,
        is_main: kept.is_some(),
        name,
        at: Timestamp::now(),
    };
    if let Some((row, own)) = session.manager.threads.take_found(pool, tid) {
        if let Some(row) = pool.thread_row(row) {
            row.rename(name); // the sampler only had the system's name
        }
        return Ok((row, RowOwnership::Own(own)));
    }
    if let Some((row, own)) = session.manager.threads.add(pool, thread) {
        return Ok((row, RowOwnership::Own(own)));
    }
    if session.epoch != session_state::epoch_of(session_state::word()) {
        return Err(NotRecorded::Off); // no row because the session is over
    }
    if let Some(row) = pool.thread_row(ThreadIndex::PROCESS) {
        row.count_drop(DropReason::NoDefinitions);
    }
    Err(NotRecorded::Dropped(DropReason::NoDefinitions))
}
