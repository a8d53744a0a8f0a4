//! Reads what a runtime tells about itself into its counters.
//!
//! Called by the thread that reads all watched runtimes. tokio's numbers are atomics, so reading
//! takes no lock of the runtime, and a runtime that is stuck is read like any other. Totals count
//! from the start of the session, or from the moment at which the runtime is first watched in it.

use std::sync::Arc;

use profiler_core::time::Timestamp;
use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};

use crate::runtime_counters::RuntimeCounters;
use crate::runtime_threads::RuntimeThreads;
use crate::tick_rate::nanoseconds_between;
use crate::worker_load::{WorkerLoad, WorkerReading};

/// A runtime, its counters, and what was read before.
#[derive(Debug)]
pub(crate) struct RuntimeReader {
    metrics: RuntimeMetrics,
    /// The process of the runtime.
    pub(crate) process: u32,
    counters: &'static RuntimeCounters,
    /// The threads that the hooks have counted, if there are hooks.
    #[cfg_attr(tokio_unstable, allow(dead_code))] // tokio itself tells their number
    threads: Option<Arc<RuntimeThreads>>,
    /// Its workers have threads of their own.
    has_worker_threads: bool,
    loads: Vec<WorkerLoad>,
    latest: Timestamp,
    /// The session of the totals at the start.
    session: u32,
    at_start: RuntimeTotals,
}

/// The numbers that only grow, added up over the workers.
#[derive(Clone, Copy, Debug, Default)]
struct RuntimeTotals {
    parks: u64,
    #[cfg(tokio_unstable)]
    steals: u64,
    #[cfg(tokio_unstable)]
    polls: u64,
    #[cfg(tokio_unstable)]
    overflows: u64,
}

impl RuntimeTotals {
    fn read(metrics: &RuntimeMetrics) -> Self {
        let sum = |of: &dyn Fn(usize) -> u64| (0..metrics.num_workers()).map(of).sum();
        Self {
            parks: sum(&|worker| metrics.worker_park_count(worker)),
            #[cfg(tokio_unstable)]
            steals: sum(&|worker| metrics.worker_steal_count(worker)),
            #[cfg(tokio_unstable)]
            polls: sum(&|worker| metrics.worker_poll_count(worker)),
            #[cfg(tokio_unstable)]
            overflows: sum(&|worker| metrics.worker_overflow_count(worker)),
        }
    }
}

impl RuntimeReader {
    /// A reader with counters of its own; `None` if there are too many counters.
    pub(crate) fn new(
        handle: &Handle,
        name: &str,
        threads: Option<Arc<RuntimeThreads>>,
    ) -> Option<Self> {
        let metrics = handle.metrics();
        let workers = metrics.num_workers();
        Some(Self {
            counters: RuntimeCounters::take(name, workers)?,
            threads,
            has_worker_threads: handle.runtime_flavor() != RuntimeFlavor::CurrentThread,
            loads: vec![WorkerLoad::default(); workers],
            latest: Timestamp::ZERO,
            session: 0,
            at_start: RuntimeTotals::default(),
            process: std::process::id(),
            metrics,
        })
    }

    /// Reads the runtime in the session with this number.
    pub(crate) fn read(&mut self, session: u32) {
        let now = Timestamp::now();
        let totals = RuntimeTotals::read(&self.metrics);
        if self.session != session {
            // The first reading of a session has no interval before it.
            self.session = session;
            self.at_start = totals;
            self.latest = now;
        }
        self.read_workers(nanoseconds_between(self.latest, now));
        self.latest = now;
        self.set_present();
        self.set_totals(&totals);
    }

    fn read_workers(&mut self, elapsed_ns: u64) {
        let mut sum = 0;
        for (worker, load) in self.loads.iter_mut().enumerate() {
            let reading = WorkerReading {
                busy: self.metrics.worker_total_busy_duration(worker),
                parks_and_unparks: self.metrics.worker_park_unpark_count(worker),
            };
            let percent = load.percent(reading, elapsed_ns, self.has_worker_threads);
            sum += percent;
            if let Some(counter) = self.counters.workers.get(worker) {
                counter.set(percent);
            }
        }
        let workers = i64::try_from(self.loads.len()).unwrap_or(1);
        self.counters
            .busy
            .set(sum.checked_div(workers).unwrap_or(0));
    }

    fn set_present(&self) {
        let Self {
            metrics, counters, ..
        } = self;
        counters.alive_tasks.set(signed(metrics.num_alive_tasks()));
        counters
            .global_queue
            .set(signed(metrics.global_queue_depth()));
        if let Some(threads) = self.blocking_threads() {
            counters.blocking_threads.set(signed(threads));
        }
        #[cfg(tokio_unstable)]
        self.set_present_details();
    }

    /// The threads of the blocking pool, if that is known.
    fn blocking_threads(&self) -> Option<usize> {
        #[cfg(tokio_unstable)]
        return Some(self.metrics.num_blocking_threads());
        #[cfg(not(tokio_unstable))]
        {
            let workers = if self.has_worker_threads {
                self.metrics.num_workers()
            } else {
                0
            };
            let threads = self.threads.as_ref()?;
            Some(threads.running().saturating_sub(workers))
        }
    }

    #[cfg(tokio_unstable)]
    fn set_present_details(&self) {
        let (metrics, counters) = (&self.metrics, &self.counters.detailed);
        let local = |worker| metrics.worker_local_queue_depth(worker);
        let local = (0..metrics.num_workers()).map(local).sum();
        counters.local_queues.set(signed(local));
        let idle = metrics.num_idle_blocking_threads();
        counters.idle_blocking_threads.set(signed(idle));
        let waiting = metrics.blocking_queue_depth();
        counters.blocking_queue.set(signed(waiting));
    }

    fn set_totals(&self, now: &RuntimeTotals) {
        let start = &self.at_start;
        self.counters.parks.set(grown(now.parks, start.parks));
        #[cfg(tokio_unstable)]
        {
            let counters = &self.counters.detailed;
            counters.steals.set(grown(now.steals, start.steals));
            counters.polls.set(grown(now.polls, start.polls));
            counters
                .overflows
                .set(grown(now.overflows, start.overflows));
        }
    }
}

impl Drop for RuntimeReader {
    fn drop(&mut self) {
        self.counters.clear();
        self.counters.give_back();
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn grown(now: u64, before: u64) -> i64 {
    i64::try_from(now.saturating_sub(before)).unwrap_or(i64::MAX)
}
