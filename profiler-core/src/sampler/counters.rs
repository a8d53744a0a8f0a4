//! Samples counters: one entry per tick with the values that changed.
//!
//! Called by the sampler's thread at every tick. A counter that changes after it was constant for
//! some ticks is also written with its old value at the tick before, so a graph shows a step and
//! not a ramp that begins at the last change. Invariants: a tick allocates only when there are more
//! counters than before, and never waits.

use std::sync::Arc;

use super::SampleWriter;
use crate::counter::Counter;
use crate::entry::periodic::CounterValue;
use crate::ids::CounterIndex;
use crate::manager::ChunkManager;
use crate::params::Features;
use crate::sys;
use crate::time::Timestamp;

/// The name, the category and the description of a counter.
pub(super) type CounterTexts = (&'static str, &'static str, &'static str);

pub(super) const PROCESS_CPU_TEXTS: CounterTexts = (
    "processCPU",
    "CPU",
    "Processor time that the process has used, in nanoseconds",
);
pub(super) const RESIDENT_TEXTS: CounterTexts = (
    "Resident memory",
    "Memory",
    "Memory that the process has resident",
);

static PROCESS_CPU: Counter = counter(PROCESS_CPU_TEXTS);
static RESIDENT: Counter = counter(RESIDENT_TEXTS);

const fn counter((name, category, description): CounterTexts) -> Counter {
    Counter::new(name, category, description)
}

/// The counters that the profiler itself measures at every tick.
#[derive(Debug)]
struct Measured {
    /// Processor time at the start of the session.
    cpu_before: Option<u64>,
    memory: Option<sys::ResidentMemory>,
}

/// A counter's value at the previous tick.
#[derive(Clone, Copy, Debug)]
struct Last {
    value: CounterValue,
    /// The tick at which it was last written.
    written: u64,
}

/// The values that the counters of a pool had at the last tick, and those that have changed.
#[derive(Debug, Default)]
pub(super) struct CounterChanges {
    last: Vec<Last>,
    tick: u64,
    /// The values to write for the previous tick.
    pub(super) before: Vec<CounterValue>,
    /// The values to write for this tick.
    pub(super) now: Vec<CounterValue>,
}

/// Writes the counters of a process, tick by tick.
#[derive(Debug)]
pub(crate) struct CounterSampler {
    manager: Arc<ChunkManager>,
    /// See `SamplerConfig::flush_counters`.
    flush: fn(),
    measured: Measured,
    changes: CounterChanges,
    last_at: Timestamp,
}

impl CounterSampler {
    /// Makes the sampler of the session that runs in this pool. Every tick calls `flush` before it
    /// reads the counters.
    pub(crate) fn new(manager: Arc<ChunkManager>, features: Features, flush: fn()) -> Self {
        let wants = |feature| features.contains(feature);
        let cpu_before = wants(Features::PROCESS_CPU)
            .then(sys::process_cpu_ns)
            .flatten();
        let memory = wants(Features::MEMORY)
            .then(sys::ResidentMemory::open)
            .flatten();
        Self {
            manager,
            flush,
            measured: Measured { cpu_before, memory },
            changes: CounterChanges::default(),
            last_at: Timestamp::ZERO,
        }
    }

    /// Writes the values that changed since the previous tick; at the first tick, all. `cpu_ns` is
    /// the processor time that the process has used.
    pub(crate) fn tick(&mut self, writer: &mut SampleWriter, at: Timestamp, cpu_ns: Option<u64>) {
        (self.flush)();
        self.measured.take(cpu_ns);
        self.changes.find(&self.manager);
        if !self.changes.before.is_empty() {
            writer.counters(self.last_at, &self.changes.before);
        }
        if !self.changes.now.is_empty() {
            writer.counters(at, &self.changes.now);
        }
        self.last_at = at;
    }
}

impl CounterChanges {
    /// Begins a tick, and finds the values that have changed since the one before.
    pub(super) fn find(&mut self, manager: &ChunkManager) {
        let Self {
            last,
            tick,
            before,
            now,
        } = self;
        *tick += 1;
        before.clear();
        now.clear();
        // If another thread holds the lock, new counters are found at a later tick.
        let count = manager
            .try_lock()
            .map_or(last.len(), |state| state.rows.counters());
        for index in 0..count {
            let cell = CounterIndex::new(u32::try_from(index).unwrap_or(u32::MAX));
            let Some(value) = manager
                .pool()
                .counter(cell)
                .and_then(|found| found.value(cell))
            else {
                break;
            };
            match last.get_mut(index) {
                Some(known) if known.value == value => {}
                Some(known) => {
                    if known.written + 1 < *tick {
                        before.push(known.value);
                    }
                    *known = Last {
                        value,
                        written: *tick,
                    };
                    now.push(value);
                }
                None => {
                    // A new counter was zero before. At the first tick its earlier value is
                    // unknown.
                    if *tick > 1 {
                        before.push(CounterValue {
                            value: 0,
                            number: 0,
                            ..value
                        });
                    }
                    last.push(Last {
                        value,
                        written: *tick,
                    });
                    now.push(value);
                }
            }
        }
    }
}

impl Measured {
    fn take(&self, cpu_ns: Option<u64>) {
        if let Some(cpu) = self
            .cpu_before
            .and_then(|before| cpu_ns?.checked_sub(before))
        {
            set(&PROCESS_CPU, cpu);
        }
        if let Some(bytes) = self.memory.as_ref().and_then(sys::ResidentMemory::bytes) {
            set(&RESIDENT, bytes);
        }
    }
}

fn set(counter: &'static Counter, value: u64) {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    if counter.get() != value {
        counter.set(value);
    }
}

// These tests need no session: they check the values found, not the entries.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ids::{ByteLimit, ThreadId};
    use crate::manager::rows::NewThread;
    use crate::params::SessionParams;
    use crate::pool::{Pool, PoolSpec};

    fn sampler() -> CounterSampler {
        let limit = ByteLimit::new(1 << 20);
        let spec = PoolSpec {
            limit,
            allowance: limit,
            ..PoolSpec::starting_now(SessionParams::default()).unwrap()
        };
        let (pool, _) = Pool::attach(spec.create_pool().unwrap()).unwrap();
        let manager = Arc::new(ChunkManager::new(pool));
        let main = NewThread {
            tid: ThreadId::new(1),
            is_main: true,
            name: "main",
            at: Timestamp::ZERO,
        };
        manager.lock().rows.begin_session(&manager, main).unwrap();
        CounterSampler::new(manager, Features::NONE, || {})
    }

    fn add_counter(sampler: &CounterSampler) -> CounterIndex {
        let cell = sampler
            .manager
            .lock()
            .rows
            .add_counter(&sampler.manager)
            .unwrap();
        sampler
            .manager
            .pool()
            .counter(cell)
            .unwrap()
            .publish(crate::ids::DefinitionId::new(1));
        cell
    }

    fn add(sampler: &CounterSampler, cell: CounterIndex, value: i64) {
        sampler.manager.pool().counter(cell).unwrap().add(value);
    }

    type Written = Vec<(u32, i64, u64)>;

    /// The values that a tick writes: for the previous tick, and for itself.
    fn tick(sampler: &mut CounterSampler) -> (Written, Written) {
        sampler.changes.find(&sampler.manager);
        let plain = |values: &[CounterValue]| {
            values
                .iter()
                .map(|value| (value.cell.get(), value.value, value.number))
                .collect()
        };
        (plain(&sampler.changes.before), plain(&sampler.changes.now))
    }

    #[test]
    fn only_changed_values_are_written_and_a_step_stays_a_step() {
        let mut sampler = sampler();
        let first = add_counter(&sampler);
        let second = add_counter(&sampler);
        add(&sampler, first, 5);
        assert_eq!(
            tick(&mut sampler),
            (vec![], vec![(0, 5, 1), (1, 0, 0)]),
            "the first tick writes all values"
        );
        assert_eq!(tick(&mut sampler), (vec![], vec![]), "nothing has changed");
        add(&sampler, second, 7);
        assert_eq!(
            tick(&mut sampler),
            (vec![(1, 0, 0)], vec![(1, 7, 1)]),
            "its old value is written for the tick before"
        );
        add(&sampler, second, 1);
        assert_eq!(
            tick(&mut sampler),
            (vec![], vec![(1, 8, 2)]),
            "its old value was written at the tick before"
        );
        assert_eq!(tick(&mut sampler), (vec![], vec![]));
        add(&sampler, second, -8);
        assert_eq!(tick(&mut sampler), (vec![(1, 8, 2)], vec![(1, 0, 3)]));
    }

    #[test]
    fn a_new_counter_was_zero_before() {
        let mut sampler = sampler();
        tick(&mut sampler);
        let cell = add_counter(&sampler);
        add(&sampler, cell, 9);
        assert_eq!(tick(&mut sampler), (vec![(0, 0, 0)], vec![(0, 9, 1)]));
    }

    #[test]
    fn known_counters_are_read_while_another_thread_holds_the_lock() {
        let mut sampler = sampler();
        let cell = add_counter(&sampler);
        tick(&mut sampler);
        add(&sampler, cell, 3);
        let manager = Arc::clone(&sampler.manager);
        let held = manager.lock();
        assert_eq!(tick(&mut sampler).1, [(0, 3, 1)]);
        drop(held);
    }
}
