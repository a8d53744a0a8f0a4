//! Starts, pauses, waits for and stops the sampler.
//!
//! Called by `session`. The thread itself is in `thread`; this file has the state that it shares
//! with its callers. Invariant: every wait for the sampler has a time limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::schedule::now;
use crate::manager::ChunkManager;
use crate::params::{Features, OverheadBudget, SampleSource};
use crate::record::session_state;
use crate::sync::fixed::{AtomicU64, Ordering};
use crate::thread_filter::ThreadFilter;

/// The sampler's counts in a session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SamplingStats {
    /// The number of ticks.
    pub ticks: u64,
    /// Samples of threads that were asked by a signal.
    pub taken: u64,
    /// Samples of threads that slept, taken without disturbing them.
    pub peeked: u64,
    /// Samples that repeat the thread's previous one, for one or several ticks.
    pub repeated: u64,
    /// Samples that found no free slot.
    pub missed: u64,
    /// How often a thread got no trigger because it blocks the signal or has too small an alternate
    /// stack.
    pub deaf: u64,
    /// Samples without a stack, of threads whose state the system does not report.
    pub hidden: u64,
    /// Samples whose stack could not be followed to its end.
    pub failed: u64,
    /// Samples without their outer frames, because the stack was longer than the copy or had too
    /// many frames.
    pub cut: u64,
    /// Frames in all samples.
    pub frames: u64,
    /// Time spent unwinding these frames.
    pub unwinding_ns: u64,
    /// Time spent in the signal handlers of the samples.
    pub handlers_ns: u64,
}

/// The counts of [`SamplingStats`] while the sampler runs.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) ticks: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) peeked: AtomicU64,
    pub(super) repeated: AtomicU64,
    pub(super) missed: AtomicU64,
    pub(super) deaf: AtomicU64,
    pub(super) hidden: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) cut: AtomicU64,
    pub(super) frames: AtomicU64,
    pub(super) unwinding_ns: AtomicU64,
    pub(super) handlers_ns: AtomicU64,
}

impl Counts {
    fn read(&self) -> SamplingStats {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        SamplingStats {
            ticks: get(&self.ticks),
            taken: get(&self.taken),
            peeked: get(&self.peeked),
            repeated: get(&self.repeated),
            missed: get(&self.missed),
            deaf: get(&self.deaf),
            hidden: get(&self.hidden),
            failed: get(&self.failed),
            cut: get(&self.cut),
            frames: get(&self.frames),
            unwinding_ns: get(&self.unwinding_ns),
            handlers_ns: get(&self.handlers_ns),
        }
    }
}

/// Adds to a count.
pub(super) fn count(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

#[derive(Debug, Default)]
struct SamplerState {
    stop: bool,
    ended: bool,
    paused: bool,
    /// Whether the modules have been read once.
    ready: bool,
    /// Whether a thread waits for a tick.
    waited_for: bool,
    begun: u64,
    done: u64,
}

impl SamplerState {
    /// True also at process exit, which does not set `stop` because that takes a lock.
    fn is_ending(&self) -> bool {
        self.stop || session_state::is_closed()
    }
}

/// The state that the sampler's thread shares with the session.
#[derive(Debug, Default)]
pub(crate) struct SamplerShared {
    state: Mutex<SamplerState>,
    changed: Condvar,
    pub(super) counts: Counts,
}

impl SamplerShared {
    fn lock(&self) -> MutexGuard<'_, SamplerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut SamplerState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `is_over` is true or the time limit has passed; returns the last value of
    /// `is_over`.
    fn wait(&self, at_most: Duration, is_over: impl Fn(&SamplerState) -> bool) -> bool {
        let until = now() + at_most;
        let mut state = self.lock();
        while !is_over(&state) {
            let left = until.saturating_duration_since(now());
            if left == Duration::ZERO {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    pub(super) fn is_ready(&self) {
        self.change(|state| state.ready = true);
    }

    /// Whether a tick begins now; `None` if the sampler must end.
    pub(super) fn begin_tick(&self) -> Option<bool> {
        let mut state = self.lock();
        let runs = !state.paused;
        state.begun += u64::from(runs);
        (!state.is_ending()).then_some(runs)
    }

    /// Whether a thread waits for this tick. Clears the flag, so it is true once per tick.
    pub(super) fn is_waited_for(&self) -> bool {
        std::mem::take(&mut self.lock().waited_for)
    }

    pub(super) fn end_tick(&self) {
        self.change(|state| state.done = state.begun);
    }

    pub(super) fn has_ended(&self) {
        self.change(|state| state.ended = true);
    }

    /// Waits for a tick that begins after this call; false if none does.
    pub(crate) fn wait_one(&self, at_most: Duration) -> bool {
        let wanted = {
            let mut state = self.lock();
            state.waited_for = true;
            state.begun + 1
        };
        super::wake();
        let is_over = |state: &SamplerState| {
            state.done >= wanted || state.stop || state.ended || state.paused
        };
        self.wait(at_most, is_over);
        self.lock().done >= wanted
    }

    pub(crate) fn stats(&self) -> SamplingStats {
        self.counts.read()
    }
}

/// The settings of a sampler.
#[derive(Clone, Debug)]
pub(crate) struct SamplerConfig {
    /// The pool to record into.
    pub(crate) manager: Arc<ChunkManager>,
    pub(crate) features: Features,
    /// The time between two ticks.
    pub(crate) interval: Duration,
    pub(crate) source: SampleSource,
    /// The most processor time that sampling may use.
    pub(crate) budget: Option<OverheadBudget>,
    pub(crate) filter: ThreadFilter,
    /// Called at every tick before the counters are read: adds the amounts that other parts of the
    /// profiler have collected. It must not wait.
    pub(crate) flush_counters: fn(),
}

/// The running sampler.
#[derive(Debug)]
pub(crate) struct Sampler {
    shared: Arc<SamplerShared>,
    thread: Option<profiler_sys::QuietThread<()>>,
}

/// The longest time that a start waits for the first read of the modules, which takes a few
/// milliseconds.
const READY: Duration = Duration::from_millis(500);

impl Sampler {
    /// Starts the sampler if a feature needs it. `None` if none does, or if the system cannot
    /// create a thread.
    pub(crate) fn start(config: SamplerConfig) -> Option<Self> {
        if !is_wanted(config.features) || config.filter.excludes_process() {
            return None;
        }
        let shared = Arc::new(SamplerShared::default());
        let thread = super::run(Arc::clone(&shared), config)?;
        Some(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Waits until stacks can be captured: some milliseconds, for the first read of the modules.
    pub(crate) fn wait_until_ready(&self) {
        self.shared.wait(READY, |state| state.ready || state.ended);
    }

    /// Pauses or resumes periodic samples.
    pub(crate) fn set_paused(&self, paused: bool) {
        self.shared.change(|state| state.paused = paused);
        if paused {
            super::suspend();
        }
        super::wake();
    }

    /// Wakes the sampler after the session was paused or resumed, so that samples end or begin at
    /// once.
    pub(crate) fn notice_pause(&self) {
        super::wake();
    }

    /// The shared state, for callers that wait without holding a lock.
    pub(crate) fn shared(&self) -> Arc<SamplerShared> {
        Arc::clone(&self.shared)
    }

    /// Ends the sampler, after its present pass.
    pub(crate) fn stop(mut self) {
        self.shared.change(|state| state.stop = true);
        super::wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether any feature needs ticks, or modules ready for captures.
fn is_wanted(features: Features) -> bool {
    let periodic = [
        Features::CPU,
        Features::CPU_ALL_THREADS,
        Features::PROCESS_CPU,
        Features::MEMORY,
    ];
    features.contains(Features::STACK_WALK)
        || is_periodic(features)
            && periodic
                .into_iter()
                .any(|feature| features.contains(feature))
}

/// Whether samples are taken at every tick.
pub(super) fn is_periodic(features: Features) -> bool {
    !features.contains(Features::NO_SAMPLING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sampler_runs_only_if_a_feature_needs_it() {
        assert!(!is_wanted(Features::NONE));
        assert!(!is_wanted(Features::MARKERS_ALL_THREADS));
        assert!(!is_wanted(Features::CPU.with(Features::NO_SAMPLING)));
        assert!(is_wanted(Features::CPU));
        assert!(
            is_wanted(Features::STACK_WALK.with(Features::NO_SAMPLING)),
            "for the stacks of markers"
        );
    }

    #[test]
    fn a_tick_that_has_already_begun_does_not_end_the_wait() {
        let shared = Arc::new(SamplerShared::default());
        assert_eq!(shared.begin_tick(), Some(true));
        let waiting = Arc::clone(&shared);
        let wait = move || waiting.wait_one(Duration::from_secs(60));
        let waiter = profiler_sys::spawn_quiet("waiter", wait).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        shared.end_tick();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished());
        // One tick suffices, unless the thread has not begun to wait yet.
        while !waiter.is_finished() {
            shared.begin_tick();
            shared.end_tick();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn waiting_for_a_paused_or_stopped_sampler_ends_at_once() {
        let shared = SamplerShared::default();
        shared.change(|state| state.paused = true);
        assert!(!shared.wait_one(Duration::from_secs(60)));
        assert_eq!(shared.begin_tick(), Some(false));
        shared.change(|state| state.stop = true);
        assert_eq!(shared.begin_tick(), None);
    }
}
