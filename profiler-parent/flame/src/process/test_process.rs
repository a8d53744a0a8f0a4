//! A process for tests, with samples as if they had been read from its pool, or with a pool that a
//! test has made. Used by the tests of the process and of answers. Session time and timestamps are
//! equal.

use std::collections::BTreeMap;

use profiler_core::ids::{ChunkIndex, ThreadId, ThreadIndex};
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::reader::{ChunkIdentity, Definitions, ThreadInfo};
use profiler_core::session::{DropReason, Drops};
use profiler_core::time::{Anchor, ClockKind, MonotonicNs, Timestamp};

use super::test_pool::TestPool;
use super::*;
use crate::sample_bytes::TestSample;
use crate::store::Samples;
use crate::weights::CellWeight;
use crate::window::Window;

/// The process, and what it is read with.
pub(crate) struct TestProcess {
    pub(crate) process: SampledProcess,
    frames: FrameTable,
    room: Room,
    /// The time of the pass.
    pub(crate) now_ns: i64,
}

/// A sample of a thread whose stack has these frames, each of which is a function named by its
/// number. It used the processor for this time.
pub(crate) fn sample(thread: u64, stack: &[u64], cpu_ns: u64) -> TestSample {
    let last = stack.len().saturating_sub(1);
    // A return address is one behind its call.
    let word =
        |(place, number): (usize, &u64)| Frame::Unknown(number + u64::from(place < last)).encode();
    TestSample {
        thread,
        own: stack.iter().enumerate().map(word).collect(),
        cpu_ns,
        ..TestSample::default()
    }
}

/// Session time and timestamps are equal.
pub(crate) fn unchanged() -> TimeConverter {
    let start = Anchor {
        ticks: Timestamp::ZERO,
        monotonic: MonotonicNs(0),
    };
    TimeConverter::new(ClockKind::Monotonic, start, start)
}

impl TestProcess {
    /// A process without samples.
    pub(crate) fn new(key: PoolId) -> Self {
        // An empty file is no pool, so nothing is read from it.
        Self::of(key, &Arc::new(OwnFile::from(tempfile::tempfile().unwrap())))
    }

    /// A process whose pool is read from the oldest to the newest entry.
    pub(crate) fn oldest_first(pool: &TestPool) -> Self {
        let mut test = Self::newest_first(pool);
        test.process.follower = Follower::open(Arc::clone(&pool.file)).ok();
        test.process.threads = ThreadTable::default();
        test
    }

    /// A process whose pool is read as in a session.
    pub(crate) fn newest_first(pool: &TestPool) -> Self {
        Self::of(pool.id, &pool.file)
    }

    fn of(key: PoolId, pool: &Arc<OwnFile>) -> Self {
        let process = ProcessToSample {
            key,
            order: 0,
            pid: ProcessId::new(1),
            name: "p",
            is_over: false,
            died: None,
            pool: Some(pool),
        };
        Self {
            process: SampledProcess::new(process, pool),
            frames: FrameTable::default(),
            room: Room::of(1000, 1000),
            now_ns: 0,
        }
    }

    /// Calls `then` with the process and a pass that keeps the latest samples.
    fn pass<T>(&mut self, then: impl FnOnce(&mut SampledProcess, &mut Pass<'_>) -> T) -> T {
        let mut pass = Pass {
            converter: unchanged(),
            now_ns: self.now_ns,
            budget: 1,
            keeps_recent: true,
            is_older: false,
            frames: &mut self.frames,
            room: &mut self.room,
        };
        then(&mut self.process, &mut pass)
    }

    /// Takes a sample.
    pub(crate) fn take(&mut self, at_ns: u64, sample: TestSample) {
        let thread = ThreadInfo {
            index: ThreadIndex::new(1),
            tid: ThreadId::new(1),
            name: String::new(),
            is_main: true,
            registered: Timestamp::ZERO,
            ended: None,
            dropped: Drops::new([0; DropReason::COUNT]),
            evicted: 0,
            sealed: 0,
            chunks: Vec::new(),
        };
        let definitions = Definitions::default();
        let chunk = ChunkIdentity {
            slot: ChunkIndex::new(0),
            generation: 1,
        };
        let sample = TestSample {
            at: at_ns,
            ..sample
        };
        sample.with(|sample| {
            let one = Followed {
                thread: &thread,
                chunk,
                entry: Entry::Sample(*sample),
                definitions: &definitions,
            };
            self.pass(|process, pass| process.take(&one, sample, None, pass));
        });
    }

    /// Reads the pool, one chunk after the other; returns the number of passes.
    pub(crate) fn read_all(&mut self) -> usize {
        let mut passes = 0;
        while passes == 0 || self.process.is_behind() {
            self.pass(|process, pass| process.advance(pass));
            passes += 1;
            assert!(passes < 1000, "the reading does not end");
        }
        passes
    }

    /// The time of each thread and stack, in a window or in all time.
    pub(crate) fn sums(&self, window: Window) -> BTreeMap<(ThreadId, String), Weight> {
        let nodes: Vec<_> = self.process.tree.iter().collect();
        let range = window.now(self.now_ns);
        let cells = self.process.weights.within(range);
        let sum = |cell: CellWeight| {
            let thread = &self.process.threads.all()[cell.thread.0 as usize];
            let mut stack = String::new();
            let mut at = cell.node;
            while let Some((caller, frame)) = nodes.get(at.0 as usize) {
                for function in self.frames.functions_of(*frame) {
                    let name = &self.frames.shown(*function).unwrap().name;
                    stack = format!("{name} {stack}");
                }
                at = *caller;
            }
            ((thread.tid, stack), cell.weight)
        };
        let sums = cells.map(sum).filter(|(_, weight)| !weight.is_zero());
        sums.collect()
    }

    /// Counts unfinished waits.
    pub(crate) fn count_waits(&mut self, until_ns: i64) {
        self.pass(|process, pass| process.count_waits(until_ns, pass));
    }

    /// Shows the code at an unknown address as a label with this name.
    pub(crate) fn show_as_label(&mut self, address: u64, name: &str) {
        self.frames.show_as_label(address, name);
    }

    /// The samples of a session with this process only, read at the time of the pass.
    pub(crate) fn into_samples(self) -> Samples {
        Samples::of_one(self.process, self.frames, self.now_ns)
    }
}
