//! Counters over time: one entry per tick with what has changed.
//!
//! Called by the sampler's thread at every tick. A counter that changes after a quiet time is written with its old value
//! at the tick before as well: graphs show a step where it is, not a ramp that began when it last moved.
//! Allocates only when there are more counters than before; waits for nobody.

use std::sync::Arc;

use super::SampleWriter;
use crate::counter::Counter;
use crate::entry::periodic::CounterValue;
use crate::ids::CounterIndex;
use crate::manager::ChunkManager;
use crate::params::Features;
use crate::sys;
use crate::time::Timestamp;

static PROCESS_CPU: Counter =
    Counter::new("processCPU", "CPU", "Processor time that the process has used, in nanoseconds");
static RESIDENT: Counter =
    Counter::new("Resident memory", "Memory", "Memory that the process has resident");

/// What of the process is measured at every tick, beside what the program counts itself.
#[derive(Debug)]
struct Measured {
    /// Processor time when the session began.
    cpu_before: Option<u64>,
    memory: Option<sys::ResidentMemory>,
}

/// A counter at the tick before.
#[derive(Clone, Copy, Debug)]
struct Last {
    value: CounterValue,
    /// The tick at which it was written last.
    written: u64,
}

/// Writes the counters of a process, tick by tick.
#[derive(Debug)]
pub(crate) struct CounterSampler {
    manager: Arc<ChunkManager>,
    measured: Measured,
    last: Vec<Last>,
    tick: u64,
    last_at: Timestamp,
    /// Counters of the tick before, and of this one.
    before: Vec<CounterValue>,
    now: Vec<CounterValue>,
}

#[allow(dead_code)] // until the sampler that uses it
impl CounterSampler {
    /// For the session that runs in this pool.
    pub(crate) fn new(manager: Arc<ChunkManager>, features: Features) -> Self {
        let wants = |feature| features.contains(feature);
        let cpu_before = wants(Features::PROCESS_CPU).then(sys::process_cpu_ns).flatten();
        let memory = wants(Features::MEMORY).then(sys::ResidentMemory::open).flatten();
        let measured = Measured { cpu_before, memory };
        let (last, before, now) = (Vec::new(), Vec::new(), Vec::new());
        Self { manager, measured, last, tick: 0, last_at: Timestamp::ZERO, before, now }
    }

    /// Writes what has changed since the tick before; at the first one everything.
    pub(crate) fn tick(&mut self, writer: &mut SampleWriter, at: Timestamp) {
        crate::alloc::flush_all();
        self.measured.take();
        self.tick += 1;
        self.look();
        if !self.before.is_empty() {
            writer.counters(self.last_at, &self.before);
        }
        if !self.now.is_empty() {
            writer.counters(at, &self.now);
        }
        self.last_at = at;
    }

    /// Finds what has changed.
    fn look(&mut self) {
        let Self { manager, last, tick, before, now, .. } = self;
        before.clear();
        now.clear();
        // If somebody has the lock, those that we know of will do.
        let count = manager.try_lock().map_or(last.len(), |state| state.rows.counters());
        for index in 0..count {
            let cell = CounterIndex::new(u32::try_from(index).unwrap_or(u32::MAX));
            let Some(value) = manager.pool().counter(cell).and_then(|found| found.value(cell)) else { break };
            match last.get_mut(index) {
                Some(known) if known.value == value => {}
                Some(known) => {
                    if known.written + 1 < *tick {
                        before.push(known.value);
                    }
                    *known = Last { value, written: *tick };
                    now.push(value);
                }
                None => {
                    // It was zero before it was there. At the first tick nothing is known of before.
                    if *tick > 1 {
                        before.push(CounterValue { value: 0, number: 0, ..value });
                    }
                    last.push(Last { value, written: *tick });
                    now.push(value);
                }
            }
        }
    }
}

impl Measured {
    fn take(&self) {
        if let Some(cpu) = self.cpu_before.and_then(|before| sys::process_cpu_ns()?.checked_sub(before)) {
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
