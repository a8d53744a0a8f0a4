//! Code that the tests of the sampler share: sessions that sample, their samples by thread, and
//! waits.

use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, Instant};

use crate::support::{self, RunningSession};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::periodic::OverheadEntry;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::sampler::Frame;
use profiler_core::session::{self, Features, OverheadBudget, SampleSource, SessionParams};

/// The sources of samples: tests of the samples themselves run with each.
pub(crate) const SOURCES: [SampleSource; 3] = [
    SampleSource::Timer,
    SampleSource::Sigtrap,
    SampleSource::Signal,
];

/// Whether the system gives perf events that send `SIGTRAP` to this thread.
#[allow(unsafe_code)]
pub(crate) fn gives_events() -> bool {
    let mut attributes = [0_u64; 16];
    attributes[0] = 1 | 128 << 32; // a software event; the size
    attributes[1] = 1; // the task clock
    attributes[2] = 1 << 40; // the period
    // Disabled, without the kernel, removed on exec, with a signal.
    attributes[5] = 1 | 1 << 5 | 1 << 6 | 1 << 36 | 1 << 37;
    let call = libc::SYS_perf_event_open;
    // SAFETY: the kernel reads the 128 bytes of the attributes.
    let event = unsafe { libc::syscall(call, attributes.as_ptr(), 0, -1, -1, 8) };
    if let Ok(event) = libc::c_int::try_from(event)
        && event >= 0
    {
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(event) };
        return true;
    }
    false
}

/// A session that samples until it is dropped.
pub(crate) struct Session(#[allow(dead_code)] RunningSession);

impl Session {
    /// Starts a session that samples stacks by timers.
    pub(crate) fn start(filters: &[&str]) -> Self {
        Self::with(Features::STACK_WALK.with(Features::CPU), filters)
    }

    /// Starts a session that samples the stacks of all threads by this source.
    pub(crate) fn by(source: SampleSource) -> Self {
        Self::start_with(SessionParams {
            features: Features::STACK_WALK.with(Features::CPU),
            source,
            ..SessionParams::default()
        })
    }

    /// Starts a session that samples stacks by this source and may use little processor time for it.
    pub(crate) fn within(budget: OverheadBudget, source: SampleSource) -> Self {
        Self::start_with(SessionParams {
            features: Features::STACK_WALK.with(Features::CPU),
            source,
            overhead_budget: Some(budget),
            ..SessionParams::default()
        })
    }

    pub(crate) fn with(features: Features, filters: &[&str]) -> Self {
        let filters = filters.iter().map(ToString::to_string).collect();
        Self::start_with(SessionParams {
            features,
            filters,
            ..SessionParams::default()
        })
    }

    fn start_with(params: SessionParams) -> Self {
        Self(RunningSession::start(params))
    }
}

/// One sample, with the addresses of this process.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) cpu_ns: Option<u64>,
    pub(crate) failed: bool,
    pub(crate) cut: bool,
    /// The number of ticks that it stands for.
    pub(crate) ticks: u64,
    /// Whether the thread waits from then on.
    pub(crate) waits: bool,
    /// Whether it repeats the stack of the previous sample.
    pub(crate) is_repeat: bool,
    /// The code addresses, outermost first; 0 for code outside the known modules.
    pub(crate) addresses: Vec<u64>,
}

impl Seen {
    /// The place of a frame in the first 300 bytes of `function`, if there is one.
    pub(crate) fn place_of(&self, function: *const ()) -> Option<usize> {
        let start = function as u64;
        self.addresses
            .iter()
            .position(|address| (start..start + 300).contains(address))
    }
}

/// All samples by thread, and the present contents of the pool.
pub(crate) fn samples() -> (HashMap<u64, Vec<Seen>>, Snapshot) {
    samples_in(&support::pool())
}

/// Like [`samples`], of a pool that is already open.
pub(crate) fn samples_in(reader: &PoolReader<File>) -> (HashMap<u64, Vec<Seen>>, Snapshot) {
    let snapshot = reader.snapshot().unwrap();
    let address = |frame: &Frame| match frame {
        Frame::Code(module, relative) => {
            let module = snapshot.definitions.module(*module);
            let module = module.expect("a defined module");
            let address = module.base.wrapping_add(*relative);
            assert!((module.start..module.end).contains(&address));
            address
        }
        _ => 0,
    };
    let mut seen = HashMap::<_, Vec<_>>::new();
    support::for_each_sample(reader, &snapshot, |sample, frames| {
        let thread = sample.foreign.expect("recorded for another thread").get();
        seen.entry(thread).or_default().push(Seen {
            cpu_ns: sample.cpu_ns,
            failed: sample.failed,
            cut: sample.cut,
            ticks: sample.ticks,
            waits: sample.waits,
            is_repeat: sample.shared() > 0 && sample.own().frames().len() == 0,
            addresses: frames.iter().map(address).collect(),
        });
    });
    (seen, snapshot)
}

/// Waits until a thread has ten more samples that show it in `function`.
pub(crate) fn more_stacks(reader: &PoolReader<File>, thread: ThreadId, function: *const ()) {
    let count = || {
        let samples = samples_in(reader).0.remove(&thread.get());
        let shows = |sample: &&Seen| sample.place_of(function).is_some();
        samples.map_or(0, |samples| samples.iter().filter(shows).count())
    };
    let before = count();
    until(|| (count() >= before + 10).then_some(()));
}

/// The number of samples of a thread with processor time and without a stack.
pub(crate) fn without_stacks(reader: &PoolReader<File>, thread: ThreadId) -> usize {
    let samples = samples_in(reader).0.remove(&thread.get());
    let is_bare = |sample: &&Seen| sample.addresses.is_empty() && sample.cpu_ns > Some(0);
    samples.map_or(0, |samples| samples.iter().filter(is_bare).count())
}

/// Waits until a thread has ten more samples with processor time and without a stack.
pub(crate) fn more_without_stacks(reader: &PoolReader<File>, thread: ThreadId) {
    let before = without_stacks(reader, thread);
    until(|| (without_stacks(reader, thread) >= before + 10).then_some(()));
}

/// The costs of all ticks, by time.
pub(crate) fn overheads() -> Vec<OverheadEntry> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let mut all = Vec::new();
    support::for_each_entry(&reader, &snapshot, |entry| {
        if let Entry::Overhead(overhead) = entry {
            all.push(overhead);
        }
    });
    all.sort_by_key(|overhead| overhead.at);
    all
}

/// The sum of the costs of all ticks, in nanoseconds.
pub(crate) fn overhead_ns() -> u64 {
    let overheads = overheads();
    overheads.iter().map(|overhead| overhead.total_ns).sum()
}

/// Waits until there are at least `least` samples of one thread, and returns them.
pub(crate) fn samples_of(thread: ThreadId, least: usize) -> Vec<Seen> {
    until(|| {
        samples()
            .0
            .remove(&thread.get())
            .filter(|samples| samples.len() >= least)
    })
}

/// Waits until the samples of one thread stand for at least `least` ticks, and returns them.
pub(crate) fn samples_for(thread: ThreadId, least: u64) -> Vec<Seen> {
    until(|| {
        // After this wait, the present waits of all threads are recorded.
        session::wait_one_periodic_sampling();
        let samples = samples().0.remove(&thread.get())?;
        (ticks_of(&samples) >= least).then_some(samples)
    })
}

/// The number of ticks that samples stand for.
pub(crate) fn ticks_of<'a>(samples: impl IntoIterator<Item = &'a Seen>) -> u64 {
    samples.into_iter().map(|sample| sample.ticks).sum()
}

/// Waits until the sampler has made this number of further ticks.
pub(crate) fn wait_for_ticks(ticks: u64) {
    let now = || Some(session::sampling_stats()?.ticks);
    let begun = now().expect("a sampler");
    until(|| (now()? >= begun + ticks).then_some(()));
}

/// Waits for a pass of the sampler. A single call of the session's function gives up after about a
/// second.
pub(super) fn wait_one_pass() {
    until(|| session::wait_one_periodic_sampling().then_some(()));
}

/// Waits until `find` returns a value.
pub(crate) fn until<T>(mut find: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < patience, "timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}
