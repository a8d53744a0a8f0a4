//! The threads of a runtime: how many run, and their names in the profile.
//!
//! Used by the hooks that tokio calls on these threads. All threads of a runtime begin as threads
//! of its blocking pool; a thread becomes a worker afterwards, and another thread may take its
//! place when it blocks. So a thread gets the name of a worker when it parks as one. Invariants:
//! a runtime names only the threads that it has started. A thread that drives a runtime by
//! `block_on` keeps its name, also if another runtime has started it. The number in a thread's name
//! is the lowest one that no running thread has, because each name is a performance group: a
//! runtime starts and stops threads of the blocking pool as long as it lives.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use profiler_core::thread;
use tokio::runtime::{Handle, RuntimeFlavor, worker_index};

thread_local! {
    /// What is known of the calling thread; `None` if no runtime with hooks has started it.
    static STARTED: Cell<Option<StartedThread>> = const { Cell::new(None) };
}

/// What is known of a thread that a runtime has started.
#[derive(Clone, Copy, Debug)]
struct StartedThread {
    /// The address of the `RuntimeThreads` of that runtime.
    runtime: usize,
    /// The number in its name.
    number: Option<usize>,
    /// The index of the worker that it was when it parked last.
    worker: Option<usize>,
}

/// The threads of one runtime.
#[derive(Debug, Default)]
pub(crate) struct RuntimeThreads {
    started: AtomicUsize,
    stopped: AtomicUsize,
    numbers: ThreadNumbers,
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
        self.started.fetch_add(1, Ordering::Relaxed);
        let number = self.numbers.take();
        STARTED.set(Some(StartedThread {
            runtime: self.address(),
            number,
            worker: None,
        }));
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        let is_blocking = matches!(flavor, Ok(RuntimeFlavor::CurrentThread));
        let kind = if is_blocking { "blocking" } else { "thread" };
        match number {
            Some(number) => thread::register(&format!("{runtime} {kind} {number}")),
            None => thread::register(&format!("{runtime} {kind}")),
        }
    }

    /// The calling thread is about to stop.
    pub(crate) fn stop(&self) {
        self.stopped.fetch_add(1, Ordering::Relaxed);
        if let Some(number) = self.own_thread().and_then(|thread| thread.number) {
            self.numbers.put_back(number);
        }
        STARTED.set(None);
    }

    /// Names the calling thread if it has become another worker than it was.
    #[inline]
    pub(crate) fn name_worker(&self, runtime: &str) {
        let Some(thread) = self.own_thread() else {
            return;
        };
        let index = worker_index();
        if let Some(index) = index.filter(|_| index != thread.worker) {
            STARTED.set(Some(StartedThread {
                worker: Some(index),
                ..thread
            }));
            thread::register(&format!("{runtime} worker {index}"));
        }
    }

    /// Names the calling thread if it has not been a worker before. For a worker that never parks.
    #[cfg(tokio_unstable)]
    #[inline]
    pub(crate) fn name_new_worker(&self, runtime: &str) {
        if STARTED.get().is_some_and(|thread| thread.worker.is_none()) {
            self.name_worker(runtime);
        }
    }

    /// The calling thread, if this runtime has started it.
    #[inline]
    fn own_thread(&self) -> Option<StartedThread> {
        STARTED
            .get()
            .filter(|thread| thread.runtime == self.address())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// The words of [`ThreadNumbers`]. tokio starts 512 blocking threads at most, unless it is told to
/// start more.
const WORDS: usize = 16;

/// The numbers that running threads have: a bit for each.
#[derive(Debug, Default)]
struct ThreadNumbers([AtomicU64; WORDS]);

impl ThreadNumbers {
    /// Takes the lowest number that is free. `None` if all are taken.
    fn take(&self) -> Option<usize> {
        self.0.iter().enumerate().find_map(|(index, word)| {
            let lowest = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
            let before = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lowest);
            let bit = usize::try_from(before.ok()?.trailing_ones()).ok()?;
            Some(index * 64 + bit)
        })
    }

    fn put_back(&self, number: usize) {
        if let Some(word) = self.0.get(number / 64) {
            word.fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken() {
        let numbers = ThreadNumbers::default();
        let taken: Vec<_> = (0..70).filter_map(|_| numbers.take()).collect();
        assert_eq!(taken, (0..70).collect::<Vec<_>>());
        numbers.put_back(66);
        numbers.put_back(3);
        assert_eq!([numbers.take(), numbers.take()], [Some(3), Some(66)]);
    }

    #[test]
    fn more_threads_than_numbers_have_none() {
        let numbers = ThreadNumbers::default();
        assert_eq!((0..2000).filter_map(|_| numbers.take()).count(), WORDS * 64);
        assert_eq!(numbers.take(), None);
    }
}
