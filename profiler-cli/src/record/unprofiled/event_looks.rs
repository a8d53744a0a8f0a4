//! Decides when to look at processes that the system's events name.
//!
//! Used by the watcher. A process that executes a program is looked at immediately. A forked
//! process is looked at 2 ms later, unless it has executed a program by then, as most do. These
//! looks use at most a hundredth of a processor. Beyond that, events are discarded, and the other
//! looks find the processes.

use std::collections::{BTreeMap, VecDeque};
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::connector_event::ConnectorEvent;
#[cfg(not(target_os = "linux"))]
use super::no_process_connector::ProcessConnector;
#[cfg(target_os = "linux")]
use super::process_connector::ProcessConnector;

/// The time after which a forked process is looked at.
const FORKED_FOR: Duration = Duration::from_millis(2);
/// The most forked processes that wait for that.
const MOST_FORKED: usize = 1024;
/// Looks because of events may use 1/`PART` of a processor.
const PART: u32 = 100;
/// The processor time that they may use at once after a quiet time.
const MOST_SAVED: Duration = Duration::from_millis(10);
/// Once they have used their time, they go on when they may use this much.
const LEAST_SAVED: Duration = Duration::from_millis(1);
/// The most processes that are looked at before the time is checked again.
const MOST_AT_ONCE: usize = 16;

/// Why the thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The recording has ended.
    Ended,
    /// [`EventLooks::take`] may return processes.
    ByEvent,
    /// The time is over.
    InTime,
}

/// The events, and what may be done because of them. Times are since the start.
#[derive(Debug)]
pub(super) struct EventLooks {
    /// `None` if the system sends no events here.
    connector: Option<ProcessConnector>,
    /// The processes that have executed a program and were not looked at.
    executed: VecDeque<u32>,
    /// When to look at forked processes.
    forked: BTreeMap<u32, Duration>,
    budget: LookBudget,
}

/// The processor time that looks because of events may use.
#[derive(Debug)]
struct LookBudget {
    saved: Duration,
    /// What was used beyond that.
    debt: Duration,
    /// The time up to which these are determined.
    at: Duration,
    is_used_up: bool,
}

impl LookBudget {
    const fn new() -> Self {
        Self {
            saved: MOST_SAVED,
            debt: Duration::ZERO,
            at: Duration::ZERO,
            is_used_up: false,
        }
    }

    fn pass_time(&mut self, now: Duration) {
        let earned = now.saturating_sub(self.at) / PART;
        self.at = now;
        let left = earned.saturating_sub(self.debt);
        self.debt = self.debt.saturating_sub(earned);
        self.saved = self.saved.saturating_add(left).min(MOST_SAVED);
        self.is_used_up &= self.saved < LEAST_SAVED;
    }

    fn spend(&mut self, cost: Duration) {
        self.debt = self.debt.saturating_add(cost.saturating_sub(self.saved));
        self.saved = self.saved.saturating_sub(cost);
        self.is_used_up |= self.saved.is_zero();
    }
}

impl EventLooks {
    pub(super) fn begin() -> Self {
        Self::new(ProcessConnector::begin().ok())
    }

    const fn new(connector: Option<ProcessConnector>) -> Self {
        Self {
            connector,
            executed: VecDeque::new(),
            forked: BTreeMap::new(),
            budget: LookBudget::new(),
        }
    }

    /// Waits until the other end of `ended` is closed, there is something to look at, or the time
    /// `until` has come.
    pub(super) fn wait(&mut self, ended: &PipeReader, now: Duration, until: Duration) -> Woken {
        self.budget.pass_time(now);
        if self.budget.is_used_up {
            self.discard();
        }
        let pause = until.saturating_sub(now);
        let until_look = self.until_look(now);
        let timeout = Timespec::try_from(pause.min(until_look)).ok();
        let connector = self.connector.as_ref();
        let connector = connector.filter(|_| !self.budget.is_used_up);
        let mut polled = vec![PollFd::new(ended, PollFlags::IN)];
        polled.extend(connector.map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // A filter of system calls, for example.
            Err(_) => std::thread::sleep(pause.min(until_look)),
        }
        let is_ready = |index: usize| {
            let one = polled.get(index);
            one.is_some_and(|one| !one.revents().is_empty())
        };
        if is_ready(0) {
            Woken::Ended
        } else if pause.is_zero() {
            Woken::InTime
        } else if is_ready(1) || until_look < pause {
            Woken::ByEvent
        } else {
            Woken::InTime
        }
    }

    /// The time until the next look at a process that an event has named.
    fn until_look(&self, now: Duration) -> Duration {
        if self.budget.is_used_up {
            Duration::MAX
        } else if self.executed.is_empty() {
            let due = self.forked.values().min();
            due.map_or(Duration::MAX, |due| due.saturating_sub(now))
        } else {
            Duration::ZERO
        }
    }

    /// Some of the processes to look at now.
    pub(super) fn take(&mut self, now: Duration) -> Vec<u32> {
        let events = self.connector.as_ref().map(ProcessConnector::take);
        match events {
            Some(Ok(events)) => self.note(events, now),
            Some(Err(_)) => self.connector = None,
            None => {}
        }
        let is_due = |_: &u32, due: &mut Duration| *due <= now;
        let due = self.forked.extract_if(.., is_due).map(|(pid, _)| pid);
        self.executed.extend(due);
        let most = MOST_AT_ONCE.min(self.executed.len());
        self.executed.drain(..most).collect()
    }

    fn note(&mut self, events: Vec<ConnectorEvent>, now: Duration) {
        for event in events {
            match event {
                ConnectorEvent::Executed(pid) => {
                    self.forked.remove(&pid);
                    self.executed.push_back(pid);
                }
                ConnectorEvent::Forked(pid) if self.forked.len() < MOST_FORKED => {
                    self.forked.insert(pid, now.saturating_add(FORKED_FOR));
                }
                ConnectorEvent::Forked(_) => {}
            }
        }
    }

    /// Notes the processor time that a look because of events has used.
    pub(super) fn count_cost(&mut self, cost: Duration) {
        self.budget.spend(cost);
    }

    /// Discards what the other looks will find.
    fn discard(&mut self) {
        self.executed.clear();
        self.forked.clear();
        if let Some(Err(_)) = self.connector.as_ref().map(ProcessConnector::take) {
            self.connector = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn looks() -> EventLooks {
        EventLooks::new(None)
    }

    #[test]
    fn a_forked_process_is_looked_at_later_and_only_if_it_executes_no_program() {
        let mut looks = looks();
        let events = vec![
            ConnectorEvent::Forked(1),
            ConnectorEvent::Forked(2),
            ConnectorEvent::Executed(2),
        ];
        looks.note(events, MS);
        assert_eq!(looks.take(2 * MS), [2]);
        assert!(looks.take(2 * MS).is_empty());
        assert_eq!(looks.take(3 * MS), [1]);
        assert!(looks.take(9 * MS).is_empty());
    }

    #[test]
    fn a_process_to_look_at_ends_the_wait_unless_another_look_is_due() {
        let (ended, end) = std::io::pipe().unwrap();
        let mut looks = looks();
        looks.note(vec![ConnectorEvent::Executed(1)], MS);
        assert_eq!(looks.wait(&ended, 3 * MS, 4 * MS), Woken::ByEvent);
        assert_eq!(looks.wait(&ended, 4 * MS, 4 * MS), Woken::InTime);
        assert_eq!(looks.take(4 * MS), [1]);
        assert_eq!(looks.wait(&ended, 4 * MS, 5 * MS), Woken::InTime);
        drop(end);
        assert_eq!(looks.wait(&ended, 4 * MS, 5 * MS), Woken::Ended);
    }

    #[test]
    fn looks_because_of_events_use_at_most_their_part_of_a_processor() {
        let (ended, _end) = std::io::pipe().unwrap();
        let mut looks = looks();
        let (mut now, mut used) = (Duration::ZERO, Duration::ZERO);
        let mut number = 0;
        while now < Duration::from_secs(20) {
            number += 1;
            looks.note(vec![ConnectorEvent::Executed(number)], now);
            match looks.wait(&ended, now, now + Duration::from_nanos(1)) {
                Woken::ByEvent => {
                    let cost = MS * u32::try_from(looks.take(now).len()).unwrap();
                    looks.count_cost(cost);
                    (now, used) = (now + cost, used + cost);
                }
                Woken::InTime => now += MS,
                Woken::Ended => panic!("the end was not closed"),
            }
        }
        let most = now / PART + MOST_SAVED + MS;
        assert!(
            used <= most && used > now / PART / 2,
            "{used:?} of {most:?}"
        );
    }
}
