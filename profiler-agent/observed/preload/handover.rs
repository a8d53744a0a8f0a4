//! The beginning of a recorder in this process: a program that embeds the profiler records itself,
//! with its markers, and is no longer observed.
//!
//! The recorder finds [`end`] through a note in this file, because a look-up by name would wait for
//! the loader's lock. Its forked children, which it does not record, are observed like others.

use core::arch::global_asm;

use crate::crash_actions;
use crate::ends;
use crate::layout::Ending;
use crate::process;
use crate::threads;

// A note of ours, of kind 3, whose description is the distance from itself to the function.
#[cfg(not(test))]
global_asm!(
    ".pushsection .note.mp-observed, \"aR\", %note",
    ".balign 4",
    ".long 11, 4, 3",
    ".ascii \"MPProfiler\\0\\0\"",
    ".long {end} - .",
    ".popsection",
    end = sym end,
);

/// Ends the observation of this process. The caller's recorder samples it already, so no time is
/// missing. Later calls do nothing.
pub(crate) extern "C" fn end() {
    let is_observed = process::is_recorded() && threads::is_own_process();
    if !is_observed || process::set_has_recorder(true) {
        return;
    }
    // Otherwise the timers stay, and the handler returns at once.
    if process::may_call_system() {
        crash_actions::remove();
        threads::disarm_all();
    }
    ends::store(Ending::Recorder);
}
