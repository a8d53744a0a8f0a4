//! The live flame graph: where all processes together spend their time now.
//!
//! Made from the samples in the pools, which are read by position; no process is asked. The first
//! request starts a thread ([`store`]) that follows all pools and adds up the time of each stack of
//! each thread, in periods ([`weights`], [`window`]). [`usage`] computes the time of a sample, and
//! [`threads`] finds its thread. The newest samples of each pool are read first ([`process`]), and
//! [`catch_up`] divides the reader's time among the processes.
//! The names of functions are looked up by a second thread ([`names`]), and addresses are shown
//! meanwhile. Both threads end, and all samples are dropped, some seconds after the last request.
//! Each request makes the tree that it wants to see ([`selection`], [`graph`], [`answer`]), on a
//! worker of the server.
//!
//! ```text
//! pools ──▶ Follower ──▶ process: stack_tree, threads ──▶ weights, recent ──▶ answer: graph
//! symbols ──▶ names ──▶ frames ─────────────────────────────────────────────────▲     ▲
//! request ──▶ selection, runs of groups ──────────────────────────────────────────────┘
//! ```
//!
//! Invariants: nothing is read and no thread runs unless a client requests the flame graph; memory
//! is bounded, and what does not fit is counted; pools are foreign data; a thread that has stopped
//! is reported, and outdated numbers are not shown. The bounds, which only forged pools reach,
//! follow from the limits on the numbers of elements and from their sizes, and are not measured:
//! about 500 MiB for the sums, stacks, frames and names of all processes together, 20 MiB for the
//! latest stacks and samples of each running process, and 150 MiB for the trees of a request while
//! it is answered. In addition, the follower of a pool keeps the definitions of the pool, which
//! take at most as much memory as the pool is long, and about 90 bytes for each chunk.

mod answer;
mod catch_up;
mod foreign;
mod frames;
mod graph;
mod hash;
mod names;
mod process;
mod recent;
mod runs;
#[cfg(test)]
mod sample_bytes;
mod selection;
mod stack_tree;
mod store;
mod threads;
mod usage;
mod weights;
mod window;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use profiler_sys::spawn_quiet;

use super::query::Query;
use crate::groups::SnapshotReader;
use crate::process_table::ProcessTable;
use answer::FlameAnswer;
pub use foreign::ForeignSamples;
use names::NameLookup;
use profiler_symbols::SymbolStore;
use runs::RunRanges;
use selection::Selection;
use store::{FlameStore, FlameThread, SampledPools};

/// Nanoseconds without a request after which the threads end.
const PATIENCE: i64 = 10_000_000_000;
/// The age of groups that are read again for a request, in nanoseconds.
const FRESH: i64 = 900_000_000;
/// Time after which reading groups skips the remaining pools.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The data that the flame graph is made from.
#[derive(Debug)]
pub(super) struct FlameSources {
    pub(super) processes: Arc<ProcessTable>,
    pub(super) groups: Arc<SnapshotReader>,
    pub(super) symbols: SymbolStore,
}

/// The threads, while they run.
#[derive(Debug)]
struct FlameReader {
    store: Arc<FlameStore>,
    /// Disconnected when the threads must end.
    _stop: Sender<()>,
    asked_ns: i64,
    /// When the samples of a group's runs were last asked for.
    asked_runs_ns: Option<i64>,
}

/// The flame graph of a session. See the head of this file.
#[derive(Debug)]
pub(super) struct FlameGraph {
    sources: FlameSources,
    reader: Mutex<Option<FlameReader>>,
}

impl FlameGraph {
    pub(super) const fn new(sources: FlameSources) -> Self {
        Self {
            sources,
            reader: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<FlameReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request, and starts reading if nothing is read yet. Takes long, so it is called on
    /// a worker of the server.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub(super) fn view(&self, query: &Query) -> io::Result<FlameAnswer> {
        let selection = Selection::parse(query);
        let now_ns = self.sources.groups.time().now().0;
        let runs = selection.runs_of().map(|group| {
            let snapshot = self.sources.groups.recent_snapshot(TIMEOUT, FRESH);
            RunRanges::of(group, &snapshot)
        });
        let mut reader = self.lock();
        let running = match reader.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let running = reader.insert(running);
        // Other workers answer at the same time.
        running.asked_ns = running.asked_ns.max(now_ns);
        if runs.is_some() {
            running.asked_runs_ns = running.asked_runs_ns.max(Some(now_ns));
        }
        running.keep_recent(now_ns);
        let store = Arc::clone(&running.store);
        drop(reader);
        let samples = store.lock();
        Ok(answer::answer(&samples, &selection, runs.as_ref()))
    }

    /// Ends the threads if the flame graph is no longer requested.
    pub(super) fn tidy(&self, now_ns: i64) {
        let mut reader = self.lock();
        if let Some(running) = reader.as_ref() {
            running.keep_recent(now_ns);
        }
        let is_in_use = |running: &FlameReader| now_ns.saturating_sub(running.asked_ns) < PATIENCE;
        *reader = reader.take().filter(is_in_use);
    }

    fn start(&self) -> io::Result<FlameReader> {
        let store = Arc::new(FlameStore::new());
        let names = NameLookup::start(Arc::clone(&store), self.sources.symbols.clone())?;
        let pools = SampledPools {
            processes: Arc::clone(&self.sources.processes),
            time: self.sources.groups.time(),
        };
        let (stop, stopped) = bounded::<()>(0);
        let shared = Arc::clone(&store);
        spawn_quiet("profiler-flame", move || {
            let run = || store::run(&pools, &shared, names, &stopped);
            shared.run_thread(FlameThread::Reader, run);
        })?;
        Ok(FlameReader {
            store,
            _stop: stop,
            asked_ns: 0,
            asked_runs_ns: None,
        })
    }
}

impl FlameReader {
    /// Keeps the latest samples one by one while a request needs them.
    fn keep_recent(&self, now_ns: i64) {
        let asked = self.asked_runs_ns;
        let is_needed = asked.is_some_and(|asked| now_ns.saturating_sub(asked) < PATIENCE);
        self.store.keep_recent(is_needed);
    }
}
