//! The profiler leaves a process that runs on: it stops recording for good, and its threads end.
//!
//! Called by [`crate::replaced`] on a thread of the program, before a call for which the profiler's
//! threads would be in the way, and by the function for C. What was recorded stays in the profile.
//! Invariants: [`leave`] waits for a limited time; after it, nothing of the profiler runs in the
//! process, unless the system is very slow.

use std::panic::catch_unwind;
use std::time::Duration;

use crate::{forks, later, loading, presence};

/// The longest wait for one kind of threads.
const PATIENCE: Duration = Duration::from_secs(1);

/// Ends the profiler in this process. Not in a signal handler: it takes locks and allocates.
pub(crate) fn leave() {
    if !presence::is_here() {
        return;
    }
    let _ = catch_unwind(|| {
        later::give_up();
        profiler_child::leave(PATIENCE);
        if later::has_thread() {
            // It has not yet the name by which it was looked for.
            later::await_end(PATIENCE);
            profiler_child::leave(PATIENCE);
        }
        forks::follow_no_longer();
        loading::give_up(PATIENCE);
    });
    presence::end();
}
