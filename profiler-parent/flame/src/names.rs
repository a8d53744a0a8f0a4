//! Looks up the names of code in the background.
//!
//! The reader's thread collects the addresses that have no names, and passes them to a thread that
//! asks the session's symbols. Both exist only while the flame graph is in use. Invariants: neither
//! the server's thread nor the reader's thread waits for symbols; a look-up reads the whole debug
//! information of a file, so the look-ups of one file, and all look-ups together, take at most a
//! small part of a processor in the long run.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use profiler_core::time::{Anchor, MonotonicNs};
use profiler_sys::spawn_quiet;

use crate::frames::{ModuleNumber, UnnamedCode};
use crate::store::{FlameStore, FlameThread};
use profiler_symbols::{ModuleKey, SymbolStore};

/// Names that are stored under one lock.
const NAMES_PER_LOCK: usize = 4096;
/// Batches that wait for the thread.
const BATCHES: usize = 1;
/// The next look-up in a file begins after this many times the duration of the last one.
const PAUSE_FACTOR: u64 = 20;
/// All look-ups together take one part in this many of a processor, after the first
/// [`FIRST_NS`] nanoseconds of them.
const SHARE: u64 = 20;
/// The time of look-ups without a pause between them: a page that has just been opened needs the
/// names of all code.
const FIRST_NS: i64 = 30_000_000_000;

/// The look-ups of one session.
#[derive(Debug)]
pub(crate) struct NameLookup {
    batches: Sender<Vec<UnnamedCode>>,
    finished: Receiver<(ModuleNumber, MonotonicNs, u64)>,
    /// When the next look-up in a file may begin. No entry: at once.
    due: HashMap<ModuleNumber, Option<MonotonicNs>>,
    /// Disconnected when the thread must end.
    _stop: Sender<()>,
}

/// The time that look-ups may take without a pause.
#[derive(Clone, Copy, Debug)]
struct LookupTime {
    /// Negative if more was taken.
    left_ns: i64,
    at: MonotonicNs,
}

impl LookupTime {
    const fn starting(at: MonotonicNs) -> Self {
        Self {
            left_ns: FIRST_NS,
            at,
        }
    }

    /// Subtracts a look-up that has just ended; returns the pause before the next one.
    fn pause_after(&mut self, ended: MonotonicNs, took_ns: u64) -> Duration {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let gained = signed(ended.0.saturating_sub(self.at.0) / SHARE);
        let left = self.left_ns.saturating_add(gained).min(FIRST_NS);
        (self.left_ns, self.at) = (left.saturating_sub(signed(took_ns)), ended);
        let missing = u64::try_from(self.left_ns.saturating_neg()).unwrap_or(0);
        Duration::from_nanos(missing.saturating_mul(SHARE))
    }
}

impl NameLookup {
    /// Starts the thread. It ends when this is dropped.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub(crate) fn start(store: Arc<FlameStore>, symbols: SymbolStore) -> io::Result<Self> {
        let (batches, received) = bounded(BATCHES);
        let (done, finished) = crossbeam_channel::unbounded();
        let (stop, stopped) = bounded(0);
        spawn_quiet("profiler-names", move || {
            // A panic ends the look-up of names; addresses are shown from then on.
            let run = || run(&store, &symbols, &received, &done, &stopped);
            store.run_thread(FlameThread::Names, run);
        })?;
        Ok(Self {
            batches,
            finished,
            due: HashMap::new(),
            _stop: stop,
        })
    }

    /// Passes the code without names to the thread, if the thread has nothing to do.
    pub(crate) fn ask(&mut self, store: &FlameStore) {
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
    stop: &Receiver<()>,
) {
    let mut time = LookupTime::starting(Anchor::take().monotonic);
    for batch in batches {
        for code in batch {
            let began = Anchor::take().monotonic;
            name(store, symbols, &code);
            let ended = Anchor::take().monotonic;
            let took_ns = ended.0.saturating_sub(began.0);
            let is_unused = done.send((code.number, ended, took_ns)).is_err();
            let pause = time.pause_after(ended, took_ns);
            if is_unused || stop.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_first_look_ups_have_no_pause_and_later_ones_take_a_small_part_of_a_processor() {
        let mut now = MonotonicNs(5);
        let mut time = LookupTime::starting(now);
        let mut took = 0;
        let mut first = None;
        // An hour, in which names are always wanted.
        while now.0 < 3_600_000 * MS {
            now.0 += 100 * MS;
            took += 100 * MS;
            let pause = time.pause_after(now, 100 * MS);
            if !pause.is_zero() {
                first = first.or(Some(took));
            }
            now.0 += u64::try_from(pause.as_nanos()).unwrap();
        }
        let first_ns = FIRST_NS.unsigned_abs();
        let first = first.expect("there is never a pause");
        assert!((first_ns..first_ns * 11 / 10).contains(&first), "{first}");
        let later = took - first;
        assert!(later <= now.0 / SHARE, "{later} of {}", now.0);
        assert!(later >= now.0 / SHARE / 2, "{later} of {}", now.0);
    }

    #[test]
    fn a_long_look_up_is_followed_by_a_long_pause() {
        let mut time = LookupTime::starting(MonotonicNs(0));
        let took = FIRST_NS.unsigned_abs() + 1000 * MS;
        let pause = time.pause_after(MonotonicNs(0), took);
        assert_eq!(pause, Duration::from_millis(1000 * SHARE));
        let longest = time.pause_after(MonotonicNs(0), u64::MAX);
        assert_eq!(longest, Duration::from_nanos(u64::MAX));
    }
}
