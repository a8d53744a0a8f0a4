//! Code that the tests of the sampler share: sessions that sample, their samples by thread, and
//! waits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::{self, RunningSession};
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::Stacks;
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, Snapshot};
use profiler_core::sampler::Frame;
use profiler_core::session::{self, Features, SessionParams};

/// A session that samples until it is dropped.
pub(crate) struct Session(#[allow(dead_code)] RunningSession);

impl Session {
    /// Starts a session that samples stacks every millisecond.
    pub(crate) fn start(filters: &[&str]) -> Self {
        Self::with(Features::STACK_WALK.with(Features::CPU), filters)
    }

    pub(crate) fn with(features: Features, filters: &[&str]) -> Self {
        let filters = filters.iter().map(ToString::to_string).collect();
        let params = SessionParams {
            features,
            filters,
            ..SessionParams::default()
        };
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
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let (mut seen, mut stacks, mut buffer) = (
        HashMap::<_, Vec<_>>::new(),
        Stacks::default(),
        ChunkBuffer::default(),
    );
    for chunk in snapshot.chunks() {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        stacks.begin_chunk();
        for entry in entries {
            let Entry::Sample(sample) = entry else {
                continue;
            };
            let address = |frame: &Frame| match frame {
                Frame::Code(module, relative) => {
                    let module = snapshot
                        .definitions
                        .module(*module)
                        .expect("a defined module");
                    assert!(
                        (module.start..module.end).contains(&(module.base.wrapping_add(*relative)))
                    );
                    module.base.wrapping_add(*relative)
                }
                _ => 0,
            };
            let is_repeat = sample.shared() > 0 && sample.own().frames().len() == 0;
            let addresses = stacks.of(&sample).iter().map(address).collect();
            let cpu_ns = sample.cpu_ns;
            let failed = sample.failed;
            let cut = sample.cut;
            let ticks = sample.ticks;
            let thread = sample.foreign.expect("recorded for another thread").get();
            seen.entry(thread).or_default().push(Seen {
                cpu_ns,
                failed,
                cut,
                ticks,
                is_repeat,
                addresses,
            });
        }
    }
    (seen, snapshot)
}

/// The sum of the costs of all ticks, in nanoseconds.
pub(crate) fn overhead_ns() -> u64 {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    let mut sum = 0;
    for chunk in snapshot.chunks() {
        if let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() {
            sum += entries
                .map(|entry| match entry {
                    Entry::Overhead(overhead) => overhead.total_ns,
                    _ => 0,
                })
                .sum::<u64>();
        }
    }
    sum
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

/// Waits until the sampler has made this number of further ticks.
pub(crate) fn wait_for_ticks(ticks: u64) {
    let now = || Some(session::sampling_stats()?.ticks);
    let begun = now().expect("a sampler");
    until(|| (now()? >= begun + ticks).then_some(()));
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
