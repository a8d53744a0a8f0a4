//! What makes a thread take a sample of itself: a timer, a perf event, or the sampler's thread.
//!
//! Called by `armed`, which keeps the trigger of each thread as a word in the thread's place.

use std::io;
use std::time::Duration;

use super::timer_rights;
use crate::ids::ThreadId;
use crate::params::SampleSource;
use crate::sys::native::perf_event::{self, PerfEvent};
use crate::sys::native::timer::{self, TimerId};
use crate::sys::native::{signal, tasks, trap};

/// The trigger of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A timer on the thread's processor time.
    Timer(TimerId),
    /// A perf event of the thread.
    Event(PerfEvent),
    /// The sampler's thread sends the signal.
    Asked,
}

const TIMER: u64 = 1 << 62;
const EVENT: u64 = 2 << 62;
const ASKED: u64 = 3 << 62;
const KIND: u64 = 3 << 62;

impl Trigger {
    /// Makes a stopped trigger for a thread, whose signals carry `word`. A thread that can get no
    /// perf event gets a timer.
    ///
    /// # Errors
    /// Those of [`timer_rights::create`].
    pub(super) fn create(
        source: SampleSource,
        thread: ThreadId,
        word: u64,
        interval: Duration,
    ) -> io::Result<Self> {
        if source == SampleSource::Signal {
            return Ok(Self::Asked);
        }
        if source == SampleSource::Sigtrap
            && let Ok(event) = perf_event::open(thread, word, interval)
        {
            return Ok(Self::Event(event));
        }
        timer_rights::create(thread, word).map(Self::Timer)
    }

    /// Starts the trigger: the first sample is due once the thread has used `first` of processor
    /// time. An event has the interval that it was made with.
    ///
    /// For a timer's interval, see [`timer::finer_than_tick`].
    ///
    /// # Errors
    /// Errors of the system.
    pub(super) fn start(self, first: Duration, interval: Duration) -> io::Result<()> {
        match self {
            Self::Timer(id) => timer::start(id, first, timer::finer_than_tick(interval)),
            Self::Event(event) => perf_event::start(event),
            Self::Asked => Ok(()),
        }
    }

    /// Gives a started trigger another interval, if its thread lives. `first` is as for
    /// [`Self::start`].
    pub(super) fn set_interval(self, first: Duration, interval: Duration) {
        match self {
            Self::Timer(id) => {
                let _ = timer::start(id, first, timer::finer_than_tick(interval));
            }
            Self::Event(event) => perf_event::set_interval(event, interval),
            Self::Asked => {}
        }
    }

    /// Deletes the trigger. Called once.
    pub(super) fn delete(self) {
        match self {
            Self::Timer(id) => timer_rights::delete(id),
            Self::Event(event) => perf_event::close(event),
            Self::Asked => {}
        }
    }

    /// Deletes the trigger, unless a new filter of system calls may end the process for it. Called
    /// once.
    pub(super) fn delete_if_allowed(self) {
        match self {
            Self::Timer(id) => timer_rights::delete_if_allowed(id),
            Self::Event(_) if !timer_rights::may_manage() => {} // its signals have no effect
            Self::Event(_) | Self::Asked => self.delete(),
        }
    }

    /// Whether the trigger's thread is known to live and to be the calling one. `last_cpu_ns` is
    /// the processor time of the trigger's thread at its last sample.
    pub(super) fn is_of_living_thread(self, last_cpu_ns: u64) -> bool {
        match self {
            Self::Timer(id) => timer::is_of_living_thread(id),
            Self::Event(_) => last_cpu_ns <= tasks::own_cpu_ns(),
            Self::Asked => false,
        }
    }

    /// Whether the program has closed the trigger's descriptor.
    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Event(event) if perf_event::is_lost(event))
    }

    /// The trigger as a number, for an atomic; never 0.
    pub(super) fn to_word(self) -> u64 {
        match self {
            Self::Timer(id) => TIMER | id.to_word(),
            Self::Event(event) => EVENT | event.to_word(),
            Self::Asked => ASKED,
        }
    }

    /// The trigger of a word from [`Trigger::to_word`]; `None` for 0.
    pub(super) fn from_word(word: u64) -> Option<Self> {
        let number = word & !KIND;
        match word & KIND {
            TIMER => TimerId::from_word(number).map(Self::Timer),
            EVENT => PerfEvent::from_word(number).map(Self::Event),
            ASKED => Some(Self::Asked),
            _ => None,
        }
    }
}

/// The signal that the triggers of a source send.
pub(super) const fn signal_of(source: SampleSource) -> libc::c_int {
    match source {
        SampleSource::Sigtrap => trap::SIGNAL,
        _ => signal::SIGNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_survives_its_word() {
        let timer = TimerId::from_word(1).unwrap();
        let event = PerfEvent::from_word(1 << 60 | 1 << 31).unwrap();
        for trigger in [Trigger::Timer(timer), Trigger::Event(event), Trigger::Asked] {
            assert_eq!(Trigger::from_word(trigger.to_word()), Some(trigger));
        }
        assert_eq!(Trigger::from_word(0), None);
    }

    #[test]
    fn only_perf_events_use_the_signal_of_breakpoints() {
        assert_eq!(signal_of(SampleSource::Sigtrap), libc::SIGTRAP);
        for source in [SampleSource::Timer, SampleSource::Signal] {
            assert_eq!(signal_of(source), libc::SIGURG);
        }
    }
}
