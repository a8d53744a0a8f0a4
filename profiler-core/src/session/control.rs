//! The parent's control over a process: its pool, its allowance, its oldest chunks.
//!
//! Called by `profiler-child`'s control thread for the parent, and by the parent for itself.

use std::fs::File;
use std::io;

use super::{Runtime, StartError, exit, switches, with_runtime};
use crate::ids::{ByteLimit, ProcessKey};
use crate::manager::Listener;
use crate::params::SessionParams;
use crate::pool::layout::{Life, header as at};
use crate::record::session_state;
use crate::time::Timestamp;
use profiler_sys::OwnFile;

/// Takes the pool that a parent made, for the life of this process. Returns the identity of this
/// process and the parameters that the parent requests, if they fit into the header.
///
/// # Errors
/// [`StartError::Attach`] if it is not a pool, or not a pool for this process.
pub fn attach(pool: impl Into<OwnFile>) -> Result<(ProcessKey, Option<SessionParams>), StartError> {
    if session_state::is_forked_child() {
        return Err(StartError::Forked);
    }
    session_state::set_up();
    with_runtime(|runtime| {
        // The process may have started it while another thread waited for this pool.
        if runtime.running.is_some() && !runtime.attached {
            return Err(StartError::OwnSession);
        }
        runtime.stop();
        session_state::revoke_closing();
        let (manager, header) = runtime.take(pool.into(), true)?;
        exit::prepare(&manager);
        Ok((header.key(), header.params))
    })
}

/// Announces that this process writes no more entries. Its data stays in the pool, for the parent.
/// No session can start here from now on: a message of the parent may still arrive, and a late
/// start would destroy that data.
///
/// Waits for threads of the profiler and takes locks, so it must not be called in a signal handler
/// or in `exit`; see [`close_at_exit`](super::close_at_exit).
pub fn close_pool() {
    if session_state::is_forked_child() {
        return;
    }
    with_runtime(|runtime| {
        let running = runtime.running.take().map(|mut running| {
            // The sampler stops before the gate closes, because it records the unfinished idle
            // periods of threads when it stops.
            if let Some(sampler) = running.sampler.take() {
                sampler.stop();
            }
            running
        });
        session_state::close();
        crate::record::active_session::set_current(None);
        if let Some(running) = running {
            running.maintenance.stop();
        }
        if let Some(manager) = &runtime.manager {
            manager.pool().set_header(at::LIFE, Life::Closed as u64);
        }
    });
    switches::after_stop();
}

/// A handle to the file of this process's pool, for reading only.
///
/// # Errors
/// When there is no pool, or no descriptor left.
pub fn pool_file() -> io::Result<File> {
    let file = |runtime: &mut Runtime| match &runtime.manager {
        Some(manager) => manager.pool().reopen(),
        None => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no session has been started",
        )),
    };
    with_runtime(file)
}

/// Whether this process's pool is a file, which can be read after all processes have died.
pub fn pool_outlives_all() -> bool {
    let backing = |runtime: &mut Runtime| {
        runtime
            .manager
            .as_ref()
            .map(|manager| manager.pool().is_file())
    };
    with_runtime(backing).unwrap_or(false)
}

/// Sets the bytes that this process may hold; destroys its oldest chunks until it holds no more.
pub fn set_allowance(allowance: ByteLimit) {
    let manager = with_runtime(|runtime| runtime.manager.clone());
    if let Some(manager) = manager.filter(|_| !session_state::is_forked_child()) {
        manager.set_allowance(allowance);
    }
}

/// Destroys released chunks that were done at or before `at`. The listener always receives an
/// update afterwards.
pub fn destroy_released_chunks_at_or_before(at: Timestamp) {
    let manager = with_runtime(|runtime| runtime.manager.clone());
    if let Some(manager) = manager.filter(|_| !session_state::is_forked_child()) {
        manager.destroy_at_or_before(at);
    }
}

/// Sets the listener for every change of the chunks; `None` removes it. The previous listener
/// receives `Final`. The listener runs on profiler threads and must not call this module.
pub fn set_chunk_listener(listener: Option<Listener>) {
    let manager = with_runtime(|runtime| runtime.manager.clone());
    if let Some(manager) = manager {
        manager.set_listener(listener);
    }
}
