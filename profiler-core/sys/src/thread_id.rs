//! The number of the calling thread, as the other crates exchange it.

use profiler_ids::ThreadId;

use crate::imp::current_thread_number;

/// The system's number of the calling thread. One system call on Linux.
pub fn current_thread_id() -> ThreadId {
    ThreadId::new(current_thread_number())
}
