//! Looks up the names of code in the background.
//!
//! The reader's thread collects the addresses that have no names, and passes them to a thread that
//! asks the session's symbols. Both exist only while the flame graph is in use. Invariants: neither
//! the server's thread nor the reader's thread waits for symbols; a look-up reads the whole debug
//! information of a file, so the look-ups of one file take at most a small part of a processor.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_core::internal::sys::spawn_quiet;
use profiler_core::time::{Anchor, MonotonicNs};

use super::frames::{ModuleNumber, UnnamedCode};
use super::store::FlameStore;
use crate::symbols::{ModuleKey, SymbolStore};

/// Names that are stored under one lock.
const NAMES_PER_LOCK: usize = 4096;
/// Batches that wait for the thread.
const BATCHES: usize = 1;
/// The next look-up in a file begins after this many times the duration of the last one.
const PAUSE_FACTOR: u64 = 20;

/// The look-ups of one session.
#[derive(Debug)]
pub(super) struct NameLookup {
    batches: Sender<Vec<UnnamedCode>>,
    finished: Receiver<(ModuleNumber, MonotonicNs, u64)>,
    /// When the next look-up in a file may begin. No entry: at once.
    due: HashMap<ModuleNumber, Option<MonotonicNs>>,
}

impl NameLookup {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub(super) fn start(store: Arc<FlameStore>, symbols: SymbolStore) -> io::Result<Self> {
        let (batches, received) = bounded(BATCHES);
        let (done, finished) = crossbeam_channel::unbounded();
        spawn_quiet("profiler-names", move || {
            // A panic ends the look-up of names; addresses are shown from then on.
            let run = || run(&store, &symbols, &received, &done);
            let _ = catch_unwind(AssertUnwindSafe(run));
        })?;
        Ok(Self {
            batches,
            finished,
            due: HashMap::new(),
        })
    }

    /// Passes the code without names to the thread, if the thread has nothing to do.
    pub(super) fn ask(&mut self, store: &FlameStore) {
        for (module, ended, took_ns) in self.finished.try_iter() {
            let next = ended.0.saturating_add(took_ns.saturating_mul(PAUSE_FACTOR));
            self.due.insert(module, Some(MonotonicNs(next)));
        }
        if self.batches.is_full() {
            return;
        }
        let now = Anchor::take().monotonic;
        let is_due = |module: ModuleNumber| match self.due.get(&module) {
            None => true,
            Some(Some(next)) => *next <= now,
            Some(None) => false, // it is being looked up
        };
        let unnamed = store.lock().frames.take_unnamed(is_due);
        for module in &unnamed {
            self.due.insert(module.number, None);
        }
        if !unnamed.is_empty() {
            let _ = self.batches.try_send(unnamed);
        }
    }
}

fn run(
    store: &FlameStore,
    symbols: &SymbolStore,
    batches: &Receiver<Vec<UnnamedCode>>,
    done: &Sender<(ModuleNumber, MonotonicNs, u64)>,
) {
    for batch in batches {
        for code in batch {
            let began = Anchor::take().monotonic;
            name(store, symbols, &code);
            let ended = Anchor::take().monotonic;
            let took_ns = ended.0.saturating_sub(began.0);
            if done.send((code.number, ended, took_ns)).is_err() {
                return; // the flame graph is not in use any more
            }
        }
    }
}

fn name(store: &FlameStore, symbols: &SymbolStore, code: &UnnamedCode) {
    let module = ModuleKey {
        path: &code.module.path,
        build_id: &code.module.build_id,
    };
    let addresses: Vec<u64> = code.frames.iter().map(|(_, address)| *address).collect();
    let places = symbols.lock().resolve(module, &addresses);
    let frames = code.frames.chunks(NAMES_PER_LOCK);
    for (frames, places) in frames.zip(places.chunks(NAMES_PER_LOCK)) {
        let mut store = store.lock();
        for ((frame, _), place) in frames.iter().zip(places) {
            store.frames.name(code.number, *frame, place);
        }
    }
}
