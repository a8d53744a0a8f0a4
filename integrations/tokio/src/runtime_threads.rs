//! The threads of a runtime: how many run, and their names in the profile.
//!
//! Used by the hooks that tokio calls on these threads. All threads of a runtime begin as threads
//! of its blocking pool; a thread becomes a worker afterwards, and another thread may take its
//! place when it blocks. So a thread gets the name of a worker when it parks as one. Invariant:
//! only threads that the runtime has started are named. A thread that drives the runtime by
//! `block_on` keeps its name.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use profiler_core::thread;
use tokio::runtime::{Handle, RuntimeFlavor, worker_index};

thread_local! {
    /// What is known of the calling thread.
    static KNOWN: Cell<Known> = const { Cell::new(Known::Foreign) };
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// No runtime with hooks has started it.
    Foreign,
    /// It has not been a worker.
    Started,
    /// It was a worker with this index when it parked last.
    Worker(usize),
}

/// The threads of one runtime.
#[derive(Debug, Default)]
pub(crate) struct RuntimeThreads {
    started: AtomicUsize,
    stopped: AtomicUsize,
}

impl RuntimeThreads {
    /// The threads that run now.
    #[cfg_attr(tokio_unstable, allow(dead_code))] // tokio itself tells it
    pub(crate) fn running(&self) -> usize {
        let stopped = self.stopped.load(Ordering::Relaxed);
        self.started.load(Ordering::Relaxed).saturating_sub(stopped)
    }

    /// The calling thread has started.
    pub(crate) fn start(&self, runtime: &str) {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        KNOWN.set(Known::Started);
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        let is_blocking = matches!(flavor, Ok(RuntimeFlavor::CurrentThread));
        let kind = if is_blocking { "blocking" } else { "thread" };
        thread::register(&format!("{runtime} {kind} {number}"));
    }

    /// The calling thread is about to stop.
    pub(crate) fn stop(&self) {
        self.stopped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Names the calling thread if it has become another worker than it was.
#[inline]
pub(crate) fn name_worker(runtime: &str) {
    let known = KNOWN.get();
    if known == Known::Foreign {
        return;
    }
    if let Some(index) = worker_index()
        && known != Known::Worker(index)
    {
        KNOWN.set(Known::Worker(index));
        thread::register(&format!("{runtime} worker {index}"));
    }
}

/// Names the calling thread if it has not been a worker before. For a worker that never parks.
#[cfg(tokio_unstable)]
#[inline]
pub(crate) fn name_new_worker(runtime: &str) {
    if KNOWN.get() == Known::Started {
        name_worker(runtime);
    }
}
