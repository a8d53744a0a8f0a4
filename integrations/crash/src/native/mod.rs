//! Installs the handlers, and prepares for a crash in each session.

mod actions;
mod alternate_stack;
mod arrived;
mod crash_marker;
mod earlier_handlers;
mod handler;
mod own_stack;
mod passing_on;
mod recording;
mod registers;
mod system;

use std::sync::{Mutex, PoisonError};

use profiler_core::internal::crash_note;
use profiler_core::session;

use self::actions::SIGNALS;
use self::handler::on_crash;
use crate::error::CrashError;

/// Held while handlers are installed.
static INSTALLING: Mutex<()> = Mutex::new(());

/// See [`crate::install`].
pub(crate) fn install() -> Result<(), CrashError> {
    let _installing = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    prepare_thread()?;
    let is_new = actions::are_all_new();
    if !session::on_switch(prepare) {
        return Err(CrashError::TooManySwitches);
    }
    if is_new {
        recording::guard_stacks();
        prepare_for_running_session()?;
    }
    SIGNALS
        .into_iter()
        .try_for_each(|signal| actions::install(signal, on_crash))
}

/// See [`crate::prepare_thread`].
pub(crate) fn prepare_thread() -> Result<(), CrashError> {
    alternate_stack::give().map_err(CrashError::AlternateStack)
}

/// Prepares for a crash in the running session, or releases what an earlier one had.
fn prepare() {
    crash_note::prepare();
}

/// Prepares on a thread of its own: the calling thread may have a small stack. Without a session,
/// its start prepares.
fn prepare_for_running_session() -> Result<(), CrashError> {
    if !session::is_active() {
        return Ok(());
    }
    let thread = profiler_sys::spawn_quiet_for_host_code("profiler-crash", prepare);
    let _ = thread.map_err(CrashError::Thread)?.join(); // a panic prepares nothing
    Ok(())
}
