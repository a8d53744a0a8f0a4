//! A session from start to stop, in this process.
//!
//! Called by the parent's session, by the child's control thread, or directly by a program of one
//! process. At most one session runs per process. Invariants: the gate is open exactly while a
//! session runs; after `stop` only the pool's names are left (and, where the system has no
//! expedited barrier, the chunks that idle threads still own).

mod control;
mod exit;
mod fork;
mod pauses;
mod switches;

pub use crate::available_features::FeatureUnavailable;
pub use crate::entry_counts::{DropReason, Drops, EntryCounts};
pub use crate::params::{Features, OverheadBudget, SampleSource, SessionParams};
#[doc(inline)]
pub use crate::record::is_active;
#[doc(hidden)]
pub use crate::sampler::asked_waits::{name_waits, set_wait_listener};
#[doc(hidden)]
pub use control::{
    attach, close_pool, destroy_released_chunks_at_or_before, pool_file, pool_outlives_all,
    set_allowance, set_chunk_listener,
};
#[doc(hidden)]
pub use exit::{close_at_exit, pass_through_fork_handlers};
#[doc(hidden)]
pub use fork::{AfterForkError, after_fork};
#[doc(hidden)]
pub use switches::{expect_switches_by_profiler, on_switch};

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ids::{ByteLimit, PoolId, ThreadId};
use crate::manager::ChunkManager;
use crate::manager::maintenance::Maintenance;
use crate::manager::rows::NewThread;
use crate::pool::header::Header;
use crate::pool::layout::header as at;
use crate::pool::tag::use_pool_tag;
use crate::pool::{self, AttachError, Pool, PoolSpec};
use crate::record::active_session::{self, ActiveSession};
use crate::record::reclaim::Reclaimer;
use crate::record::{recorder_list, session_state, thread_names};
use crate::sampler::control::{Sampler, SamplerConfig};
use crate::sampler::{SamplingStats, effective_interval};
use crate::sync::{Ordering, fixed};
use crate::sys;
use crate::thread_filter::ThreadFilter;
use crate::time::{Anchor, SessionClock, Timestamp, join_line, use_clock};
use profiler_sys::OwnFile;
use profiler_sys::Renewable;

/// The reason why a session could not start.
#[doc(hidden)]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The system provided no memory or no thread.
    #[error("cannot start the profiler: {0}")]
    System(#[from] std::io::Error),
    /// The pool could not be taken.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The allowance is smaller than the tables.
    #[error("an allowance of {0} bytes is too small to record anything")]
    NoBudget(ByteLimit),
    /// The pool was closed permanently; its contents must stay.
    #[error("the profiler of this process was closed permanently")]
    Closed,
    /// This is a forked child of a recording process. It may start after [`after_fork`], or after
    /// an `exec`.
    #[error("a forked child cannot record before it calls after_fork or executes a program")]
    Forked,
    /// A session of this process's own runs.
    #[error("this process records for a session of its own")]
    OwnSession,
}

/// The options of a session's start, besides its parameters.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Bytes that this process may hold initially; by default the session's whole limit.
    pub allowance: Option<ByteLimit>,
    /// The largest allowance that this process can ever get: its own pool reserves addresses for
    /// it. By default the session's limit.
    pub pool_limit: Option<ByteLimit>,
    /// The session's clock; by default one that starts now.
    pub clock: Option<SessionClock>,
    /// Shown name of this process, if it makes its own pool.
    pub name: String,
    /// Identity of that pool; by default a new one.
    pub id: Option<PoolId>,
    /// The file of that pool; by default the pool is in memory that is freed with the process. See
    /// [`PoolSpec::create_pool_in`] for the requirements on the file.
    pub file: Option<Arc<File>>,
}

/// The running session.
#[derive(Debug)]
struct Running {
    params: SessionParams,
    maintenance: Maintenance,
    sampler: Option<Sampler>,
    paused: bool,
}

#[derive(Debug, Default)]
struct Runtime {
    manager: Option<Arc<ChunkManager>>,
    /// Whether the pool was supplied by a parent. It then stays for the life of the process.
    attached: bool,
    epoch: u64,
    sampling_paused: bool,
    running: Option<Running>,
}

static RUNTIME: Renewable<Mutex<Option<Runtime>>> = Renewable::new(Mutex::new(None));
/// The epoch of the last session. A forked child goes on from its parent's, so that nothing that
/// belongs to a session of the parent seems to belong to one of the child.
static LAST_EPOCH: fixed::AtomicU64 = fixed::AtomicU64::new(0);

/// Every unit test that starts a session holds this lock, because there is one session per process.
#[cfg(test)]
pub(crate) fn alone_in_tests() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` with the state of this process. A forked child has none and does not take the lock,
/// which another thread of its parent may have held during the fork.
fn with_runtime<T>(body: impl FnOnce(&mut Runtime) -> T) -> T {
    if session_state::is_forked_child() {
        return body(&mut Runtime::default());
    }
    let mut guard: MutexGuard<'_, Option<Runtime>> =
        RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    body(guard.get_or_insert_with(Runtime::default))
}

/// Starts a session; a running one is stopped first and its data is lost.
///
/// # Errors
/// [`StartError`]; recording is off then.
#[doc(hidden)]
pub fn start(params: SessionParams, options: StartOptions) -> Result<(), StartError> {
    if session_state::is_forked_child() {
        return Err(StartError::Forked);
    }
    session_state::set_up();
    with_runtime(|runtime| {
        runtime.check_open()?;
        runtime.stop();
        runtime.start(effective_params(params), options)
    })?;
    // Without the lock: the functions may use the session.
    switches::after_start();
    Ok(())
}

/// Prepares this process for recording, as [`attach`] and [`start`] do: from now on a forked child
/// is recognised as one. Registers handlers of forks, so it must not be called while another thread
/// may fork.
#[doc(hidden)]
pub fn prepare() {
    session_state::set_up();
}

/// The parameters that a session with these has: [`SessionParams::normalized`], and an interval
/// that the source of its samples allows.
#[doc(hidden)]
pub fn effective_params(params: SessionParams) -> SessionParams {
    let params = params.normalized();
    let interval = effective_interval(&params).as_nanos();
    SessionParams {
        interval_ns: u64::try_from(interval).unwrap_or(u64::MAX),
        ..params
    }
}

/// Starts a session, unless one with equal parameters already runs, whose data is then kept.
///
/// # Errors
/// [`StartError`]; recording is off then.
#[doc(hidden)]
pub fn ensure_started(params: SessionParams, options: StartOptions) -> Result<(), StartError> {
    if session_state::is_forked_child() {
        return Err(StartError::Forked);
    }
    session_state::set_up();
    let params = effective_params(params);
    let is_new = with_runtime(|runtime| {
        runtime.check_open()?;
        let running = runtime.running.as_ref();
        if running.is_some_and(|running| running.params == params) {
            return Ok(false);
        }
        runtime.stop();
        runtime.start(params, options).map(|()| true)
    })?;
    if is_new {
        switches::after_start();
    }
    Ok(())
}

/// Stops the session; its data is lost. Does nothing if none runs.
#[doc(hidden)]
pub fn stop() {
    if !session_state::is_forked_child() {
        with_runtime(Runtime::stop);
    }
}

/// Stops recording until [`resume`]. The profile shows the paused range.
pub fn pause() {
    set_paused(true);
}

/// Continues recording after [`pause`].
pub fn resume() {
    set_paused(false);
}

fn set_paused(paused: bool) {
    if !session_state::is_forked_child() {
        with_runtime(|runtime| runtime.set_paused(paused));
    }
}

/// Stops periodic sampling until [`resume_sampling`]; markers are still recorded.
pub fn pause_sampling() {
    with_runtime(|runtime| runtime.pause_sampling(true));
}

/// Continues sampling after [`pause_sampling`].
pub fn resume_sampling() {
    with_runtime(|runtime| runtime.pause_sampling(false));
}

/// Waits until every thread was sampled once more: for one tick that begins after the call. False
/// if there is no sampling, or if that tick does not end within two intervals and a second.
pub fn wait_one_periodic_sampling() -> bool {
    let running = |runtime: &mut Runtime| {
        let running = runtime.running.as_ref().filter(|running| !running.paused)?;
        let bound = Duration::from_nanos(running.params.interval_ns.saturating_mul(2))
            + Duration::from_secs(1);
        Some((running.sampler.as_ref()?.shared(), bound))
    };
    with_runtime(running).is_some_and(|(sampler, bound)| sampler.wait_one(bound))
}

/// The sampler's statistics of this session; `None` if it does not run.
#[doc(hidden)]
pub fn sampling_stats() -> Option<SamplingStats> {
    let stats =
        |runtime: &mut Runtime| Some(runtime.running.as_ref()?.sampler.as_ref()?.shared().stats());
    with_runtime(stats)
}

/// The number of times that threads of this process found no chunk ready and requested one from the
/// chunk manager, which may allocate. Lets tests distinguish this case from the usual one at any
/// speed of the machine.
#[doc(hidden)]
pub fn chunks_not_ready() -> u64 {
    with_runtime(|runtime| {
        runtime
            .manager
            .as_ref()
            .map_or(0, |manager| manager.not_ready.load(Ordering::Relaxed))
    })
}

/// Whether periodic sampling is paused.
pub fn is_sampling_paused() -> bool {
    with_runtime(|runtime| runtime.sampling_paused)
}

/// Whether the running session is paused.
pub fn is_paused() -> bool {
    session_state::word() & session_state::PAUSED != 0
}

/// Whether this is a forked child of a process that recorded. It must not touch the profiler before
/// [`after_fork`].
#[doc(hidden)]
pub fn is_forked() -> bool {
    session_state::is_forked_child()
}

/// Whether the profiler was started in this process, or in a process that this one was forked from.
#[doc(hidden)]
pub fn is_set_up() -> bool {
    session_state::is_set_up()
}

/// Whether this process records now, into a pool that a parent has supplied: for another session
/// than one of its own.
#[doc(hidden)]
pub fn records_for_parent() -> bool {
    with_runtime(|runtime| runtime.attached && runtime.running.is_some())
}

/// The parameters of the running session.
#[doc(hidden)]
pub fn current_params() -> Option<SessionParams> {
    with_runtime(|runtime| {
        runtime
            .running
            .as_ref()
            .map(|running| running.params.clone())
    })
}

impl Runtime {
    fn check_open(&self) -> Result<(), StartError> {
        if session_state::is_closed() {
            Err(StartError::Closed)
        } else {
            Ok(())
        }
    }

    fn start(&mut self, params: SessionParams, options: StartOptions) -> Result<(), StartError> {
        let allowance = options.allowance.unwrap_or(params.limit);
        let manager = self.pool_for(&params, allowance, options)?;
        thread_names::learn_process_name();
        sys::prepare_alternate_stack_checks();
        let now = Timestamp::now();
        let main = begin(&manager, now).ok_or(StartError::NoBudget(allowance))?;
        self.epoch = LAST_EPOCH.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let window = (params.window_ns > 0).then(|| Duration::from_nanos(params.window_ns));
        crate::manager::maintenance::pass(&manager, window);
        let mut idle = Reclaimer::new(&manager);
        let reclaim = Box::new(move |manager: &ChunkManager| idle.check(manager));
        let maintenance = Maintenance::start(Arc::clone(&manager), window, reclaim)?;
        manager.pool().set_header(at::RECORDING_START, now.raw());
        manager.pool().set_header(at::EPOCH, self.epoch);
        let filter = ThreadFilter::new(&params.filters, sys::process_id());
        let _ = active_session::set_current(Some(Arc::new(ActiveSession {
            epoch: self.epoch,
            filter: filter.clone(),
            markers_of_all: params.features.contains(Features::MARKERS_ALL_THREADS),
            main: Some(main),
            fast_fill: fast_fill_ticks(&manager),
            manager: Arc::clone(&manager),
        })));
        crate::alloc::begin_session(self.epoch, params.features);
        self.sampling_paused = false;
        session_state::set(session_state::word_of(self.epoch, session_state::ACTIVE));
        crate::groups::begin_session(&manager, self.epoch);
        let sampler = Sampler::start(SamplerConfig {
            manager: Arc::clone(&manager),
            features: params.features,
            interval: Duration::from_nanos(params.interval_ns),
            source: params.source,
            budget: params.overhead_budget,
            filter,
            flush_counters: crate::alloc::flush_counters,
        });
        // Without this wait the first stacks would be missing, and the first reading of the modules
        // would compete with the maintenance thread for the processor.
        if let Some(sampler) = &sampler {
            sampler.wait_until_ready();
        }
        crate::recorder_note::end_observation();
        self.running = Some(Running {
            params,
            maintenance,
            sampler,
            paused: false,
        });
        Ok(())
    }

    /// The pool to record into: the pool that a parent supplied, or a new one.
    fn pool_for(
        &mut self,
        params: &SessionParams,
        allowance: ByteLimit,
        options: StartOptions,
    ) -> Result<Arc<ChunkManager>, StartError> {
        if let Some(manager) = self.manager.as_ref().filter(|_| self.attached) {
            if let Some(allowance) = options.allowance {
                manager.set_allowance(allowance);
            }
            return Ok(Arc::clone(manager));
        }
        let clock = options.clock.unwrap_or_else(SessionClock::start_now);
        let spec = PoolSpec {
            id: options.id.map_or_else(pool::new_id, Ok)?,
            limit: options.pool_limit.unwrap_or(params.limit),
            allowance,
            clock,
            params: params.clone(),
            name: options.name,
        };
        let file = match &options.file {
            Some(file) => spec.create_pool_in(file).and_then(|()| file.try_clone())?,
            None => spec.create_pool()?,
        };
        self.take(file.into(), false).map(|(manager, _)| manager)
    }

    fn take(
        &mut self,
        file: OwnFile,
        attached: bool,
    ) -> Result<(Arc<ChunkManager>, Header), StartError> {
        let (pool, header) = Pool::attach(file)?;
        use_clock(header.clock.kind);
        join_line(&header.made);
        let manager = Arc::new(ChunkManager::new(pool));
        use_pool_tag(manager.tag());
        self.attached = attached;
        self.manager = Some(Arc::clone(&manager));
        Ok((manager, header))
    }

    fn stop(&mut self) {
        // A closed pool must not change any more.
        if session_state::is_closed() {
            return;
        }
        let Some(mut running) = self.running.take() else {
            return;
        };
        if let Some(sampler) = running.sampler.take() {
            sampler.stop();
        }
        session_state::set(0);
        switches::after_stop();
        crate::alloc::end_session();
        let ended = active_session::set_current(None);
        running.maintenance.stop();
        if let Some(manager) = &self.manager {
            seize_patiently(manager);
            // Threads that have not been joined may still be adding to the tables, which are
            // cleared next.
            ended
                .into_iter()
                .for_each(|ended| _ = wait_until_alone(ended, pause_a_moment));
            manager.pool().set_header(at::EPOCH, 0);
            manager.lock().chunks.clear(manager);
            manager.set_listener(None);
            clear_tables(manager);
        }
        if !self.attached {
            // Threads with a recorder for this pool keep it mapped until they record again or end.
            self.manager = None;
        }
    }

    fn pause_sampling(&mut self, paused: bool) {
        self.sampling_paused = paused;
        if let Some(sampler) = self
            .running
            .as_ref()
            .and_then(|running| running.sampler.as_ref())
        {
            sampler.set_paused(paused);
        }
    }

    fn set_paused(&mut self, paused: bool) {
        let (Some(running), Some(manager)) = (&mut self.running, &self.manager) else {
            return;
        };
        if running.paused == paused {
            return;
        }
        running.paused = paused;
        let flags = if paused {
            session_state::ACTIVE | session_state::PAUSED
        } else {
            session_state::ACTIVE
        };
        session_state::set(session_state::word_of(self.epoch, flags));
        pauses::note(manager, paused);
        if let Some(sampler) = &running.sampler {
            sampler.notice_pause();
        }
    }
}

/// Prepares the tables for a session; `None` if the allowance is smaller than the tables.
fn begin(manager: &ChunkManager, now: Timestamp) -> Option<(ThreadId, crate::ids::ThreadIndex)> {
    let mut state = manager.lock();
    state.chunks.clear(manager); // a closed pool that is started again
    state.chunks.begin_session(now);
    let tid = ThreadId::new(u64::from(sys::process_id().get()));
    let main = NewThread {
        tid,
        is_main: true,
        name: "GeckoMain",
        at: now,
    };
    let row = state.rows.begin_session(manager, main)?;
    Some((tid, row))
}

fn clear_tables(manager: &ChunkManager) {
    if let Some(pauses) = manager
        .pool()
        .pauses()
        .filter(|_| manager.lock().rows.pauses_charged())
    {
        pauses.clear();
    }
    let state = manager.lock();
    state.rows.reset_counters(manager);
    state.rows.reset_groups(manager);
}

/// Takes all chunks from the threads; waits up to 10 ms for threads in the middle of an entry.
fn seize_patiently(manager: &ChunkManager) {
    for _ in 0..PATIENCE {
        if recorder_list::seize_all(manager) == 0 {
            return;
        }
        pause_a_moment();
    }
}

/// The maximum number of pauses in which a stop waits for threads.
const PATIENCE: u32 = 20;

fn pause_a_moment() {
    std::thread::sleep(Duration::from_micros(500));
}

/// Waits until this is the only reference, for at most [`PATIENCE`] pauses. Returns whether it is.
fn wait_until_alone<T>(mut shared: Arc<T>, mut pause: impl FnMut()) -> bool {
    // Acquires what the holders of the other references have written.
    let mut is_alone = || Arc::get_mut(&mut shared).is_some();
    let in_time = (0..PATIENCE).any(|_| {
        let alone = is_alone();
        if !alone {
            pause();
        }
        alone
    });
    in_time || is_alone()
}

/// A chunk that fills within 50 ms should be followed by a larger one. Returns that time in ticks.
fn fast_fill_ticks(manager: &ChunkManager) -> u64 {
    manager
        .pool()
        .clock()
        .converter(Anchor::take())
        .ticks_in(50_000_000)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stop_waits_for_other_references_for_a_limited_time() {
        let session = Arc::new(());
        let mut shares = vec![Arc::clone(&session), Arc::clone(&session)];
        let mut pauses = 0;
        let alone = wait_until_alone(session, || {
            shares.pop();
            pauses += 1;
        });
        assert_eq!((alone, pauses), (true, 2));
        let session = Arc::new(());
        let _share = Arc::clone(&session);
        assert!(
            !wait_until_alone(session, || {}),
            "a reference that is never dropped is not waited for"
        );
    }
}
