//! The progress of long work with files: reading, naming and writing of profiles.
//!
//! Sent by [`profiler_reader`] and [`profiler_export`] to the function that the caller passes. The
//! progress of captures and recoveries is in [`crate::CaptureEvent`]. Invariant: the function is
//! called on a thread that does a part of the work, often, and must return quickly.

use std::fmt;
use std::sync::Arc;

/// An event in the course of long work with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkEvent<'a> {
    /// A part of the input has been read.
    Reading {
        /// The bytes of the file that were read. If the file is read twice, both count.
        bytes: u64,
        /// All bytes that will be read.
        of: u64,
    },
    /// Names are looked up in a library. The first look-up reads its debug information.
    Naming {
        /// The path of the library.
        library: &'a str,
        /// The number of libraries that are done.
        libraries_done: usize,
        /// The number of all libraries.
        libraries: usize,
    },
    /// The input has been read completely, and the output is written.
    Writing,
}

/// Receives the events of some work. The default one ignores them.
#[derive(Clone, Default)]
pub struct WorkListener(Option<Arc<Listen>>);

/// The function of a listener.
type Listen = dyn Fn(WorkEvent<'_>) + Send + Sync;

impl WorkListener {
    /// Calls `listen` for each event, on the thread that does this part of the work. It is called
    /// often, for example for every 256 KiB that are read, and the work waits until it returns.
    pub fn new(listen: impl Fn(WorkEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listen)))
    }

    /// Sends an event to the listener, if there is one.
    pub fn send(&self, event: WorkEvent<'_>) {
        if let Some(listen) = &self.0 {
            listen(event);
        }
    }
}

impl fmt::Debug for WorkListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_heard = self.0.is_some();
        f.debug_tuple("WorkListener").field(&is_heard).finish()
    }
}
