//! The flame graph of a session: its threads, which run while it is requested, and its requests.
//!
//! Invariants: nothing is read and no thread runs unless a client requests the flame graph; both
//! threads end, and all samples are dropped, some seconds after the last request.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::{Sender, bounded};
use profiler_core::time::{Anchor, Timestamp};
use profiler_http::Query;
use profiler_symbols::SymbolStore;
use profiler_sys::spawn_quiet;

use crate::answer::{self, FlameAnswer, WaitGraph};
use crate::names::NameLookup;
use crate::runs::RunRanges;
use crate::selection::Selection;
use crate::sources::FlameSources;
use crate::store::{self, FlameStore, FlameThread};
use crate::window::Window;

/// Nanoseconds without a request after which the threads end.
const PATIENCE: i64 = 10_000_000_000;

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

/// The flame graph of a session, shared by all requests. The threads end when this is dropped.
#[derive(Debug)]
pub struct FlameGraph {
    sources: Arc<dyn FlameSources>,
    symbols: SymbolStore,
    reader: Mutex<Option<FlameReader>>,
}

impl FlameGraph {
    /// Creates the flame graph of a session. Nothing is read, and no thread runs, before the first
    /// request. The names of code are looked up in `symbols`.
    pub const fn new(sources: Arc<dyn FlameSources>, symbols: SymbolStore) -> Self {
        Self {
            sources,
            symbols,
            reader: Mutex::new(None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<FlameReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request, and starts reading if nothing is read yet. A missing or invalid parameter
    /// has its default value. Takes long, so it is called on a worker of the server.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn view(&self, query: &Query) -> io::Result<FlameAnswer> {
        let selection = Selection::parse(query);
        let converter = self.sources.clock().converter(Anchor::take());
        let now_ns = converter.since_start_ns(Timestamp::now());
        let runs = selection.runs_of().map(|group| {
            let runs = self.sources.longest_runs(group.kind, &group.name);
            RunRanges::of(&runs)
        });
        let store = self.read(now_ns, runs.is_some())?;
        let samples = store.lock();
        Ok(answer::answer(&samples, &selection, runs.as_ref()))
    }

    /// Answers a request for the graph of waits: who waits for whom. As [`Self::view`]; the only
    /// parameter is `window`.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn waits(&self, query: &Query) -> io::Result<WaitGraph> {
        let window = Window::named(query.get("window").unwrap_or_default());
        let converter = self.sources.clock().converter(Anchor::take());
        let store = self.read(converter.since_start_ns(Timestamp::now()), false)?;
        let samples = store.lock();
        Ok(answer::wait_graph(&samples, window))
    }

    /// The samples, which are read from now on, if they are not read yet. `has_runs` says whether
    /// the request is for the runs of a group.
    fn read(&self, now_ns: i64, has_runs: bool) -> io::Result<Arc<FlameStore>> {
        let mut reader = self.lock();
        let running = match reader.take() {
            Some(running) => running,
            None => self.start()?,
        };
        let running = reader.insert(running);
        // Other workers answer at the same time.
        running.asked_ns = running.asked_ns.max(now_ns);
        if has_runs {
            running.asked_runs_ns = running.asked_runs_ns.max(Some(now_ns));
        }
        running.keep_recent(now_ns);
        Ok(Arc::clone(&running.store))
    }

    /// Ends the threads if the flame graph is no longer requested. `now_ns` is the session time, in
    /// nanoseconds. Called every few seconds.
    pub fn tidy(&self, now_ns: i64) {
        let mut reader = self.lock();
        if let Some(running) = reader.as_ref() {
            running.keep_recent(now_ns);
        }
        let is_in_use = |running: &FlameReader| now_ns.saturating_sub(running.asked_ns) < PATIENCE;
        *reader = reader.take().filter(is_in_use);
    }

    fn start(&self) -> io::Result<FlameReader> {
        let store = Arc::new(FlameStore::new());
        let mut names = NameLookup::start(Arc::clone(&store), self.symbols.clone())?;
        let sources = Arc::clone(&self.sources);
        let (stop, stopped) = bounded::<()>(0);
        let shared = Arc::clone(&store);
        spawn_quiet("profiler-flame", move || {
            let look_up = move |store: &FlameStore| names.ask(store);
            let run = || store::run(&*sources, &shared, look_up, &stopped);
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
