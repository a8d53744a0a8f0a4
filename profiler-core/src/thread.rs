//! Threads: registration and selection.
//!
//! Called by applications. A thread is registered when it first records; [`register`] only gives it
//! a name. Its registration ends with the thread, or earlier with [`unregister`].

pub use crate::thread_filter::ThreadFilter;

use crate::ids::ThreadId;
use crate::record::{local, thread_names};
use crate::sys;

/// The calling thread's number, for [`crate::marker::MarkerOptions::on_thread`] on another thread.
pub fn current() -> ThreadId {
    sys::current_thread_id()
}

/// Names the calling thread in the profile. Cheap; may be called before the session starts.
/// [`groups`](crate::groups) count it under this name from its next iteration on.
pub fn register(name: &str) {
    thread_names::name_thread(name);
}

/// Ends the calling thread's participation now and releases its chunk. Recording again registers
/// anew.
pub fn unregister() {
    local::leave_thread();
}
