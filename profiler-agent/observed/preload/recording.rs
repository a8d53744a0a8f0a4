//! The beginning of recording in a process that has a new file: one that executes a program, or a
//! forked child.

use crate::layout::Notes;
use crate::own_file;
use crate::process;
use crate::threads::{self, ThreadStack};

/// Begins to record the calling thread, the only one of a process that has a new file.
pub(crate) fn begin(stack: ThreadStack, cpu_ns: u64) {
    threads::note_process();
    if let Some(header) = process::header() {
        own_file::introduce(header, cpu_ns);
    }
    if process::has_given_way() {
        process::note(Notes::WANTS_SIGNAL);
    }
    threads::begin(0, stack);
}
