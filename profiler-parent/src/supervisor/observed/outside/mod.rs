//! A process that is observed from outside. It has no file, because it did not load the library.
//!
//! Used by `program_file` in place of the process's own file, on the reader's thread. The system
//! takes the samples (`profiler-perf-events`) where it permits that. Otherwise there are no
//! samples, and looks at the threads record their processor time and their waits, as for other
//! programs.
//!
//! Invariants: nothing in the process changes; each thread's time before its first sample is
//! recorded without a stack; nothing is recorded of a program that the process executes later.

mod clocks;
mod samples;

use std::collections::BTreeMap;
use std::fmt;

use profiler_core::ids::ProcessId;
use profiler_core::time::{TimeConverter, Timestamp};
use profiler_observed::file::ObservedHeader;
use profiler_observed::layout::{Ending, IS_CUT, MAX_ROWS, SampleHead};
use profiler_perf_events::{EventError, ProcessEvents};
use rustix::time::{ClockId, clock_gettime};

use clocks::KnownTime;
pub(super) use samples::SystemSamples;
use samples::{QueuedSample, SampleQueue};

/// In [`SampleHead::flags`] of a sample from outside: it has no stack, only processor time.
pub(super) const TIME_ONLY: u32 = 1 << 31;
/// The number of rows of threads other than the main thread.
const ROWS: u32 = MAX_ROWS as u32 - 1;

/// A thread that has samples.
#[derive(Debug)]
struct OutsideThread {
    row: u32,
    uses: u32,
    time: KnownTime,
}

/// A process that is observed from outside.
pub(super) struct OutsideProcess {
    pid: u32,
    samples: SystemSamples,
    /// Its events; the error if there are none.
    events: Result<ProcessEvents, EventError>,
    /// The processor time of the process when the events were opened.
    opened_cpu_ns: u64,
    interval_ns: u64,
    converter: TimeConverter,
    queue: SampleQueue,
    threads: BTreeMap<u32, OutsideThread>,
    /// The number of rows that were given to threads so far.
    rows: u32,
    /// The times of threads before their first samples, which are not recorded yet.
    earlier: Vec<SampleHead>,
    header: ObservedHeader,
}

impl fmt::Debug for OutsideProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutsideProcess")
            .field("pid", &self.pid)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl OutsideProcess {
    /// Begins to observe a process, which has used `cpu_ns` so far.
    pub(super) fn begin(
        pid: ProcessId,
        samples: &SystemSamples,
        (converter, interval_ns): (TimeConverter, u64),
        (header, cpu_ns): (ObservedHeader, u64),
    ) -> Self {
        let pid = pid.get();
        let events = samples.begin(pid, interval_ns);
        let mut process = Self {
            pid,
            samples: samples.clone(),
            opened_cpu_ns: cpu_ns,
            interval_ns,
            converter,
            queue: SampleQueue::default(),
            threads: BTreeMap::new(),
            rows: 0,
            earlier: Vec::new(),
            header,
            events,
        };
        if let Ok(events) = &process.events {
            let threads: Vec<u32> = events.threads().collect();
            threads
                .into_iter()
                .for_each(|tid| process.begin_thread(tid));
        }
        process
    }

    /// Why its threads have no stacks while they run, if they have none.
    pub(super) fn refusal(&self) -> Option<String> {
        match &self.events {
            // The process has ended, so it has no further time without stacks.
            Err(EventError::Ended) => None,
            Err(error) => Some(format!(
                "its threads have no stacks while they run: {error}"
            )),
            Ok(events) => match events.refused_threads() {
                0 => None,
                refused => Some(format!(
                    "threads without stacks while they run: {refused} ({})",
                    EventError::Exhausted
                )),
            },
        }
    }

    /// The header that a file of the process would have.
    pub(super) const fn header(&self) -> ObservedHeader {
        self.header
    }

    /// Passes all samples to `each`, with their stacks. Returns their number.
    pub(super) fn drain(&mut self, mut each: impl FnMut(&SampleHead, &[u8])) -> usize {
        let Ok(events) = &mut self.events else {
            return 0;
        };
        let mut queue = std::mem::take(&mut self.queue);
        queue.clear();
        self.samples.take(self.pid, events, &mut queue);
        let now = SampleClock::now(&self.converter);
        if let Some(executed) = queue.executed_ns {
            queue.samples.retain(|sample| sample.at_ns <= executed);
            self.executed(executed, &now);
        }
        self.header.refused = self.header.refused.saturating_add(queue.lost);
        let mut taken = self.earlier.len();
        for head in self.earlier.drain(..) {
            each(&head, &[]);
        }
        queue
            .samples
            .sort_by_key(|sample| (sample.tid, sample.at_ns));
        for own in queue.samples.chunk_by(|one, other| one.tid == other.tid) {
            let stacks = &queue.stacks;
            self.drain_thread(own, &now, |sample, head| {
                let stack = stacks.get(sample.stack.clone()).unwrap_or_default();
                each(head, stack);
            });
            taken += own.len();
        }
        self.queue = queue;
        taken
    }

    /// Passes the samples of one thread.
    fn drain_thread(
        &mut self,
        samples: &[QueuedSample],
        now: &SampleClock,
        mut each: impl FnMut(&QueuedSample, &SampleHead),
    ) {
        let Some(first) = samples.first() else { return };
        let tid = first.tid;
        let cpu_ns = thread_cpu_ns(self.pid, tid);
        let known = self.threads.get(&tid);
        let is_other = |thread: &OutsideThread| cpu_ns.is_some_and(|now| now < thread.time.cpu_ns);
        if known.is_none_or(is_other) {
            self.add_thread(tid, 0);
        }
        let interval_ns = self.interval_ns;
        // The clock of the thread may have gone on in another program.
        let most_ns = self.ended_cpu_ns().unwrap_or(u64::MAX);
        let cpu_ns = cpu_ns.map(|cpu_ns| cpu_ns.min(most_ns));
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        let (row, uses) = (thread.row, thread.uses);
        let times: Vec<u64> = samples.iter().map(|sample| sample.at_ns).collect();
        let mut samples = samples.iter();
        thread.time.advance(&times, cpu_ns, interval_ns, |cpu_ns| {
            let Some(sample) = samples.next() else { return };
            let mut head = SampleHead {
                at: now.timestamp(sample.at_ns),
                cpu_ns,
                row,
                uses,
                tid: tid.cast_signed(),
                flags: TIME_ONLY,
                ..SampleHead::default()
            };
            if let Some(registers) = sample.registers {
                (head.pc, head.sp) = (registers.pc, registers.sp);
                (head.fp, head.lr) = (registers.fp, registers.lr);
                head.flags = if sample.is_cut { IS_CUT } else { 0 };
            }
            each(sample, &head);
        });
    }

    /// Notes a thread that has run before the events were opened.
    fn begin_thread(&mut self, tid: u32) {
        let Some(cpu_ns) = thread_cpu_ns(self.pid, tid) else {
            return;
        };
        self.add_thread(tid, cpu_ns);
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        self.earlier.push(SampleHead {
            at: Timestamp::now().raw(),
            cpu_ns,
            row: thread.row,
            uses: thread.uses,
            tid: tid.cast_signed(),
            flags: TIME_ONLY,
            ..SampleHead::default()
        });
    }

    /// Gives a row to a thread. The rows are used again from the first one on if all have been
    /// used.
    fn add_thread(&mut self, tid: u32, cpu_ns: u64) {
        if self.threads.len() >= MAX_ROWS {
            self.threads.clear();
        }
        let is_main = tid == self.pid;
        let row = if is_main { 0 } else { 1 + self.rows % ROWS };
        let thread = OutsideThread {
            row,
            uses: 1 + self.rows / ROWS,
            time: KnownTime {
                cpu_ns,
                at_ns: None,
            },
        };
        self.rows = self.rows.saturating_add(u32::from(!is_main));
        self.threads.insert(tid, thread);
    }

    /// The processor time of the process at the end of the observation, if the observation has
    /// ended.
    fn ended_cpu_ns(&self) -> Option<u64> {
        let has_ended = self.header.ending != Ending::None as u32;
        has_ended.then_some(self.header.ended_cpu_ns)
    }

    /// The processor time of the process, which is at least `known_ns`. The clock of a process that
    /// has ended cannot be read; its events have the time.
    fn cpu_ns(&self, known_ns: u64) -> u64 {
        let counted = self.events.as_ref().map_or(0, ProcessEvents::cpu_ns);
        known_ns.max(self.opened_cpu_ns.saturating_add(counted))
    }

    /// Notes that the process has executed another program, which may have run since then.
    fn executed(&mut self, at_ns: u64, now: &SampleClock) {
        if self.header.ending == Ending::None as u32 {
            let since = now.monotonic_ns.saturating_sub(at_ns);
            self.header.ending = Ending::Exec as u32;
            self.header.ended = now.timestamp(at_ns);
            let known = self.header.began_cpu_ns.max(self.opened_cpu_ns);
            self.header.ended_cpu_ns = self.cpu_ns(0).saturating_sub(since).max(known);
        }
    }

    /// Ends the observation, because the process has ended or for another reason.
    pub(super) fn end(&mut self, ending: Ending, known_ns: Option<u64>) {
        if self.header.ending == Ending::None as u32 {
            self.header.ending = ending as u32;
            self.header.ended = Timestamp::now().raw();
            self.header.ended_cpu_ns = self.cpu_ns(known_ns.unwrap_or(0));
        }
    }

    /// The memory of the samples that were read last.
    pub(super) fn bytes(&self) -> u64 {
        self.queue.stacks.capacity() as u64
    }
}

impl Drop for OutsideProcess {
    fn drop(&mut self) {
        self.samples.end(self.pid);
    }
}

/// The clock of the system's samples, compared with the session's clock.
struct SampleClock {
    converter: TimeConverter,
    now: Timestamp,
    monotonic_ns: u64,
}

impl SampleClock {
    fn now(converter: &TimeConverter) -> Self {
        let monotonic = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(monotonic.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(monotonic.tv_nsec).unwrap_or(0);
        Self {
            converter: *converter,
            now: Timestamp::now(),
            monotonic_ns: seconds.saturating_mul(1_000_000_000).saturating_add(nanos),
        }
    }

    /// The session's time of a sample.
    fn timestamp(&self, at_ns: u64) -> u64 {
        let age = self.monotonic_ns.saturating_sub(at_ns);
        let age = self.converter.ticks_in(age);
        self.now.raw().saturating_sub(age)
    }
}

/// The processor time of a thread; `None` if it has ended, or if the system does not count it.
fn thread_cpu_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let text = std::str::from_utf8(&text).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}
