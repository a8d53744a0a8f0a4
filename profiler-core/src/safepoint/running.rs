//! The state of a sampler that is on: its schedule, its names, and its writer.

use std::time::Duration;

use super::names::{Names, StackRoom};
use super::schedule::SafepointSchedule;
use crate::category::CategoryPair;
use crate::entry::stack::Frame;
use crate::ids::ThreadId;
use crate::pool::tag::pool_tag;
use crate::reader::PoolReader;
use crate::sampler::{Sample, SampleWriter};
use crate::time::{Anchor, Timestamp};
use crate::{session, sys};

/// A sampler that is on. See the [module](self).
#[derive(Debug)]
pub(super) struct Running {
    thread: ThreadId,
    interval: Duration,
    about: CategoryPair,
    /// The tag of the pool that holds the names and samples.
    tag: u64,
    grid: SafepointSchedule,
    writer: SampleWriter,
    names: Names,
    frames: Vec<Frame>,
    /// The thread's processor time at the last sample, plus the time used in pauses since.
    cpu: Option<u64>,
    cpu_at_pause: Option<u64>,
}

impl Running {
    /// Begins sampling with a sample without a stack; time counts from that sample.
    pub(super) fn begin(thread: ThreadId, interval: Duration, about: CategoryPair) -> Option<Self> {
        let tag = pool_tag();
        if !session::is_active() {
            return None;
        }
        let clock = PoolReader::open(session::pool_file().ok()?)
            .ok()?
            .header()
            .clock;
        let names = Names::load(about)?;
        let ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let ticks = clock.converter(Anchor::take()).ticks_in(ns);
        let now = Timestamp::now();
        let mut running = Self {
            thread,
            interval,
            about,
            tag,
            grid: SafepointSchedule::new(ticks, now),
            writer: SampleWriter::new(),
            names,
            frames: Vec::new(),
            cpu: None,
            cpu_at_pause: None,
        };
        running.cpu = running.cpu_now();
        running.nothing(now);
        Some(running)
    }

    #[inline]
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.grid.is_due(now)
    }

    /// Takes a sample, whether due or not.
    #[cold]
    pub(super) fn sample(&mut self, now: Timestamp, stack: impl FnOnce(&mut StackRoom<'_>)) {
        // Another session's pool has none of the names. The time in between was not observed.
        if pool_tag() != self.tag {
            // Beginning costs more than a sample: if it fails now, do not retry before a sample is
            // due.
            self.grid.take(now);
            if let Some(anew) = Self::begin(self.thread, self.interval, self.about) {
                *self = anew;
            }
            return;
        }
        let taken = self.grid.take(now);
        if let Some(until) = taken.pause_until {
            self.nothing(until);
        }
        self.frames.clear();
        stack(&mut StackRoom {
            names: &mut self.names,
            frames: &mut self.frames,
        });
        let cpu = self.cpu_now();
        let cpu_ns = cpu
            .zip(self.cpu)
            .map(|(now, before)| now.saturating_sub(before));
        self.cpu = cpu;
        let sample = Sample {
            at: taken.at,
            cpu_ns,
            frames: &self.frames,
            cut: false,
            failed: false,
        };
        self.writer.sample(self.thread, &sample);
    }

    /// Records a sample without a stack: nothing ran since the last sample.
    fn nothing(&mut self, at: Timestamp) {
        let sample = Sample {
            at,
            cpu_ns: Some(0),
            frames: &[],
            cut: false,
            failed: false,
        };
        self.writer.sample(self.thread, &sample);
    }

    pub(super) fn suspend(&mut self, now: Timestamp) {
        self.grid.suspend(now);
        self.cpu_at_pause = self.cpu_at_pause.or_else(|| self.cpu_now());
    }

    pub(super) fn resume(&mut self, now: Timestamp) {
        self.grid.resume(now);
        // The debugger's processor time does not count for the script.
        let used = self
            .cpu_now()
            .zip(self.cpu_at_pause.take())
            .map(|(now, then)| now.saturating_sub(then));
        self.cpu = self.cpu.map(|cpu| cpu.saturating_add(used.unwrap_or(0)));
    }

    /// The sampled thread's processor time, if it is the calling thread.
    fn cpu_now(&self) -> Option<u64> {
        (sys::current_thread_id() == self.thread)
            .then(sys::thread_cpu_ns)
            .flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {

    use super::*;
    use crate::category;
    use crate::session::{Features, SessionParams, StartOptions};

    #[test]
    fn joining_a_session_is_retried_when_a_sample_is_due() {
        let _alone = session::alone_in_tests();
        let params = SessionParams {
            features: Features::NO_SAMPLING,
            ..SessionParams::default()
        };
        let start = || session::start(params.clone(), StartOptions::default()).unwrap();
        start();
        let hour = Duration::from_secs(3600);
        let mut running =
            Running::begin(ThreadId::new(7), hour, (&category::OTHER).into()).unwrap();
        start();
        session::stop(); // another pool, which no longer exists
        let later = Timestamp::from_raw(u64::MAX / 2);
        assert!(running.is_due(later));
        running.sample(later, |_| unreachable!("no stack is requested"));
        assert!(!running.is_due(later));
    }
}
