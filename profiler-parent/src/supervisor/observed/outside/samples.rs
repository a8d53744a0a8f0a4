//! The samples that the system takes of all processes that are observed from outside.
//!
//! Shared by these processes; used by the reader's thread. The system writes the samples of all
//! processes into the same rings, because the memory of rings is limited for each user. Reading the
//! rings sorts the records by process. The rings are made for the first process that needs them; if
//! the system refuses them, it is not asked again. Invariants: the samples that wait for their
//! process are bounded, and what does not fit is counted; records of other processes are left out.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_perf_events::{
    EventError, ProcessEvents, Record, Rings, Sampling, StackSample, UserRegisters,
};
use rustix::process::{Resource, getrlimit};

/// The maximum number of bytes of the stack in a sample.
const STACK_BYTES: u32 = 16 << 10;
/// The maximum number of events of all processes. Each takes a descriptor of this process.
const MAX_EVENTS: u64 = 8192;
/// Events take at most this part of the descriptors that this process may have.
const SHARE_OF_DESCRIPTORS: u64 = 4;
/// The maximum number of bytes of stacks that wait for their process.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// A sample that was read.
#[derive(Clone, Debug)]
pub(super) struct QueuedSample {
    pub(super) tid: u32,
    pub(super) at_ns: u64,
    pub(super) registers: Option<UserRegisters>,
    /// Its stack, among the bytes of all stacks.
    pub(super) stack: Range<usize>,
    pub(super) is_cut: bool,
}

/// The samples of one process that were not taken yet.
#[derive(Debug, Default)]
pub(super) struct SampleQueue {
    pub(super) samples: Vec<QueuedSample>,
    pub(super) stacks: Vec<u8>,
    /// The number of samples that found no room.
    pub(super) lost: u64,
    /// When the process has executed another program.
    pub(super) executed_ns: Option<u64>,
}

impl SampleQueue {
    fn add(&mut self, sample: &StackSample<'_>) {
        let start = self.stacks.len();
        if start + sample.stack.len() > MAX_WAITING_BYTES {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        // Words begin at multiples of 8 below the stack pointer.
        let sp = sample.registers.map_or(0, |registers| registers.sp);
        self.stacks.resize(start + (sp % 8) as usize, 0);
        self.stacks.extend_from_slice(sample.stack);
        self.samples.push(QueuedSample {
            tid: sample.tid,
            at_ns: sample.at_ns,
            registers: sample.registers,
            stack: start..self.stacks.len(),
            is_cut: sample.is_cut,
        });
    }

    /// Removes everything; keeps the memory of a usual pass.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
        self.stacks.clear();
        self.stacks.shrink_to(STACK_BYTES as usize * 64);
        (self.lost, self.executed_ns) = (0, None);
    }
}

/// The rings of this session, and the samples that wait for their processes.
#[derive(Clone, Debug, Default)]
pub(in crate::supervisor::observed) struct SystemSamples(Arc<Mutex<SharedRings>>);

#[derive(Debug, Default)]
struct SharedRings {
    rings: Option<Result<Rings, EventError>>,
    queues: HashMap<u32, SampleQueue>,
}

impl SharedRings {
    fn rings(&mut self) -> Result<&mut Rings, EventError> {
        let rings = self.rings.get_or_insert_with(|| Rings::open(most_events()));
        rings.as_mut().map_err(|error| *error)
    }
}

impl SystemSamples {
    fn lock(&self) -> MutexGuard<'_, SharedRings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to sample a process.
    pub(super) fn begin(&self, pid: u32, interval_ns: u64) -> Result<ProcessEvents, EventError> {
        let mut shared = self.lock();
        let sampling = Sampling {
            interval_ns,
            stack_bytes: STACK_BYTES,
        };
        // Removes the records of an earlier process with this number from the rings.
        shared.read();
        let events = ProcessEvents::open(pid, shared.rings()?, sampling)?;
        shared.queues.insert(pid, SampleQueue::default());
        Ok(events)
    }

    /// Moves the samples of a process into `into`, which is empty. Finds its new threads.
    pub(super) fn take(&self, pid: u32, events: &mut ProcessEvents, into: &mut SampleQueue) {
        let mut shared = self.lock();
        if let Ok(rings) = shared.rings() {
            events.follow(rings);
        }
        shared.read();
        if let Some(queue) = shared.queues.get_mut(&pid) {
            std::mem::swap(queue, into);
        }
    }

    /// Ends the samples of a process.
    pub(super) fn end(&self, pid: u32) {
        self.lock().queues.remove(&pid);
    }
}

impl SharedRings {
    /// Sorts the records in the rings by process.
    fn read(&mut self) {
        let Some(Ok(rings)) = &mut self.rings else {
            return;
        };
        let queues = &mut self.queues;
        rings.read(|record| match record {
            Record::Sample(sample) => {
                if let Some(queue) = queues.get_mut(&sample.pid) {
                    queue.add(&sample);
                }
            }
            Record::Lost { pid, records } => {
                if let Some(queue) = queues.get_mut(&pid) {
                    queue.lost = queue.lost.saturating_add(records);
                }
            }
            Record::Exec { pid, at_ns } => {
                if let Some(queue) = queues.get_mut(&pid) {
                    queue.executed_ns.get_or_insert(at_ns);
                }
            }
        });
    }
}

/// The maximum number of events that this process may have.
fn most_events() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current;
    let share = descriptors.map_or(MAX_EVENTS, |all| all / SHARE_OF_DESCRIPTORS);
    usize::try_from(share.min(MAX_EVENTS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(stack: &[u8], sp: u64) -> StackSample<'_> {
        StackSample {
            pid: 7,
            tid: 8,
            at_ns: 1,
            registers: Some(UserRegisters {
                sp,
                ..UserRegisters::default()
            }),
            stack,
            is_cut: false,
        }
    }

    #[test]
    fn the_words_of_a_stack_begin_below_an_odd_stack_pointer() {
        let mut queue = SampleQueue::default();
        queue.add(&sample(&[1; 8], 16));
        queue.add(&sample(&[2; 8], 19));
        let stacks: Vec<&[u8]> = queue
            .samples
            .iter()
            .map(|sample| &queue.stacks[sample.stack.clone()])
            .collect();
        assert_eq!(stacks, [&[1; 8][..], &[0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2]]);
    }

    #[test]
    fn samples_that_wait_are_bounded_and_the_others_counted() {
        let mut queue = SampleQueue::default();
        let stack = vec![0; 1 << 20];
        for _ in 0..10 {
            queue.add(&sample(&stack, 0));
        }
        assert_eq!((queue.samples.len(), queue.lost), (8, 2));
        queue.clear();
        assert_eq!((queue.samples.len(), queue.lost), (0, 0));
    }
}
