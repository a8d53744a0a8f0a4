//! The counters of one runtime in the profile.
//!
//! Used by the readers of runtimes. Counters live as long as the process, so those of a runtime
//! that is no longer watched are used again for a later one of the same name and size. Invariants:
//! the counters of two runtimes that are watched at the same time have different names; at most
//! [`MAX`] sets of counters are made.

use std::sync::{Mutex, MutexGuard};

use profiler_core::counter::Counter;

/// Most sets of counters, of all names and sizes.
const MAX: usize = 64;
/// Most workers of a runtime that have a counter of their own.
const MAX_WORKERS: usize = 64;
/// The category of all counters.
const CATEGORY: &str = "tokio";

/// How often a thread tries to lock the sets, which another one does for microseconds.
const TRIES: usize = 1000;

/// The sets that exist, and whether each is in use.
type Sets = Vec<(&'static RuntimeCounters, bool)>;

static SETS: Mutex<Sets> = Mutex::new(Vec::new());

/// The sets; `None` if another thread does not unlock them, as in a child that was forked in such a
/// moment.
fn sets() -> Option<MutexGuard<'static, Sets>> {
    (0..TRIES).find_map(|_| {
        let sets = SETS.try_lock().ok();
        if sets.is_none() {
            std::thread::yield_now();
        }
        sets
    })
}

/// The counters of a runtime.
#[derive(Debug)]
pub(crate) struct RuntimeCounters {
    name: String,
    /// Tasks that have not ended.
    pub(crate) alive_tasks: Counter,
    /// Tasks in the queue that all workers share.
    pub(crate) global_queue: Counter,
    /// The mean of the workers' busy shares, in percent.
    pub(crate) busy: Counter,
    /// Threads of the blocking pool.
    pub(crate) blocking_threads: Counter,
    /// How often workers have parked.
    pub(crate) parks: Counter,
    /// The busy share of each worker, in percent.
    pub(crate) workers: Vec<Counter>,
    /// What tokio tells only with `tokio_unstable`.
    #[cfg(tokio_unstable)]
    pub(crate) detailed: DetailedCounters,
}

/// The counters that need `tokio_unstable`.
#[cfg(tokio_unstable)]
#[derive(Debug)]
pub(crate) struct DetailedCounters {
    /// Tasks in the queues of the workers.
    pub(crate) local_queues: Counter,
    /// Threads of the blocking pool that wait for work.
    pub(crate) idle_blocking_threads: Counter,
    /// Work that waits for a thread of the blocking pool.
    pub(crate) blocking_queue: Counter,
    /// Tasks that workers have taken from each other.
    pub(crate) steals: Counter,
    /// Polls.
    pub(crate) polls: Counter,
    /// Tasks that a worker has moved to the global queue, because its own was full.
    pub(crate) overflows: Counter,
}

impl RuntimeCounters {
    /// Counters that no other runtime uses; `None` if there are too many, or if they are locked.
    /// They must be given back.
    pub(crate) fn take(name: &str, workers: usize) -> Option<&'static Self> {
        let workers = workers.min(MAX_WORKERS);
        let mut sets = sets()?;
        let name = unused_name(&sets, name);
        let fits = |set: &Self| set.name == name && set.workers.len() == workers;
        let known = sets.iter_mut().find(|(set, _)| fits(set));
        if let Some((set, is_used)) = known {
            *is_used = true;
            return Some(set);
        }
        if sets.len() >= MAX {
            return None;
        }
        let made: &'static Self = Box::leak(Box::new(Self::new(name, workers)));
        sets.push((made, true));
        Some(made)
    }

    /// Lets another runtime use the counters.
    pub(crate) fn give_back(&'static self) {
        let Some(mut sets) = sets() else { return };
        let its = sets.iter_mut().find(|(set, _)| std::ptr::eq(*set, self));
        if let Some((_, is_used)) = its {
            *is_used = false;
        }
    }

    fn new(name: String, workers: usize) -> Self {
        let counter = |what: &str, description| new_counter(&name, what, description);
        Self {
            alive_tasks: counter("alive tasks", "Tasks that have not ended"),
            global_queue: counter("global queue", "Tasks in the queue that all workers share"),
            busy: counter("busy", "Mean busy share of the workers, in percent"),
            blocking_threads: counter("blocking threads", "Threads of the blocking pool"),
            parks: counter("parks", "How often workers have run out of work"),
            workers: (0..workers)
                .map(|worker| counter(&format!("worker {worker} busy"), "Busy share in percent"))
                .collect(),
            #[cfg(tokio_unstable)]
            detailed: DetailedCounters::new(&name),
            name,
        }
    }

    /// Sets the present values to zero, for a runtime that is no longer watched. Totals stay.
    pub(crate) fn clear(&'static self) {
        let own = [
            &self.alive_tasks,
            &self.global_queue,
            &self.busy,
            &self.blocking_threads,
        ];
        own.into_iter().for_each(|counter| counter.set(0));
        self.workers.iter().for_each(|counter| counter.set(0));
        #[cfg(tokio_unstable)]
        self.detailed.clear();
    }
}

#[cfg(tokio_unstable)]
impl DetailedCounters {
    fn new(name: &str) -> Self {
        let counter = |what: &str, description| new_counter(name, what, description);
        Self {
            local_queues: counter("local queues", "Tasks in the queues of the workers"),
            idle_blocking_threads: counter(
                "idle blocking threads",
                "Threads of the blocking pool that wait for work",
            ),
            blocking_queue: counter("blocking queue", "Work that waits for a blocking thread"),
            steals: counter("steals", "Tasks that workers have taken from each other"),
            polls: counter("polls", "Polls of tasks"),
            overflows: counter(
                "overflows",
                "Tasks that were moved to the global queue because a local one was full",
            ),
        }
    }

    fn clear(&'static self) {
        let present = [
            &self.local_queues,
            &self.idle_blocking_threads,
            &self.blocking_queue,
        ];
        present.into_iter().for_each(|counter| counter.set(0));
    }
}

/// The name, or the first one with a number behind it that no runtime in use has.
fn unused_name(sets: &[(&'static RuntimeCounters, bool)], name: &str) -> String {
    let is_free = |name: &String| {
        let mut used = sets.iter().filter(|(_, is_used)| *is_used);
        !used.any(|(set, _)| set.name == *name)
    };
    let numbered = (2..).map(|number| format!("{name} {number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_default()
}

fn new_counter(runtime: &str, what: &str, description: &'static str) -> Counter {
    let name: &'static str = Box::leak(format!("{runtime}: {what}").into_boxed_str());
    Counter::new(name, CATEGORY, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes counters. Tries again while another test holds the lock, for up to ten seconds.
    fn take(name: &str, workers: usize) -> &'static RuntimeCounters {
        let try_again = |_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            RuntimeCounters::take(name, workers)
        };
        RuntimeCounters::take(name, workers)
            .or_else(|| (0..10_000).find_map(try_again))
            .unwrap()
    }

    #[test]
    fn runtimes_of_one_name_have_different_counters_that_are_used_again() {
        let first = take("same", 2);
        let second = take("same", 2);
        assert_eq!([&first.name, &second.name], ["same", "same 2"]);
        first.give_back();
        let third = take("same", 2);
        assert!(std::ptr::eq(first, third));
        third.give_back();
        let other_size = take("same", 3);
        assert_eq!(
            (other_size.name.as_str(), other_size.workers.len()),
            ("same", 3)
        );
    }

    #[test]
    fn a_runtime_with_many_workers_has_counters_for_the_first_ones() {
        let counters = take("large", 4 * MAX_WORKERS);
        assert_eq!(counters.workers.len(), MAX_WORKERS);
    }
}
