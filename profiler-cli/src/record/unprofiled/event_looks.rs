//! When the thread looks at which processes because of the system's events.
//!
//! Used by the watcher. A process that has executed a program is looked at at once, and a forked
//! process if it has not executed a program some time later: most do so immediately. Looks because
//! of events use at most a fiftieth of a processor. While they may not, events are left to the
//! other looks.

use std::collections::BTreeMap;
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[cfg(not(target_os = "linux"))]
use super::no_process_connector::{ConnectorEvent, ProcessConnector};
#[cfg(target_os = "linux")]
use super::process_connector::{ConnectorEvent, ProcessConnector};

/// The time after which a forked process is looked at.
const FORKED_FOR: Duration = Duration::from_millis(2);
/// The most forked processes that wait for that.
const MOST_FORKED: usize = 1024;
/// Looks because of events may use 1/`PART` of a processor.
const PART: u32 = 50;
/// The processor time that they may use at once after a quiet time.
const MOST_SAVED: Duration = Duration::from_millis(20);

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
    /// `None` if the system tells this user nothing.
    connector: Option<ProcessConnector>,
    /// When to look at forked processes.
    forked: BTreeMap<u32, Duration>,
    /// The processor time that looks may use now.
    allowed: Duration,
    /// When [`Self::allowed`] was determined.
    at: Duration,
}

impl EventLooks {
    pub(super) fn begin() -> Self {
        Self::new(ProcessConnector::begin().ok())
    }

    fn new(connector: Option<ProcessConnector>) -> Self {
        Self {
            connector,
            forked: BTreeMap::new(),
            allowed: MOST_SAVED,
            at: Duration::ZERO,
        }
    }

    /// Waits until the other end of `ended` is closed, there is something to look at, or the time
    /// `until` has come.
    pub(super) fn wait(&mut self, ended: &PipeReader, now: Duration, until: Duration) -> Woken {
        self.pass_time(now);
        let may_look = !self.allowed.is_zero();
        let forked = self.forked.values().min().filter(|_| may_look);
        let until_fork = forked.map_or(Duration::MAX, |due| due.saturating_sub(now));
        let pause = until.saturating_sub(now);
        let timeout = Timespec::try_from(pause.min(until_fork)).ok();
        let connector = self.connector.as_ref().filter(|_| may_look);
        let mut polled = vec![PollFd::new(ended, PollFlags::IN)];
        polled.extend(connector.map(|one| PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN)));
        let ready = poll(&mut polled, timeout.as_ref());
        let is_ready = |index: usize| {
            let one = polled.get(index);
            ready.is_ok() && one.is_some_and(|one| !one.revents().is_empty())
        };
        if is_ready(0) {
            Woken::Ended
        } else if is_ready(1) || until_fork < pause {
            Woken::ByEvent
        } else {
            Woken::InTime
        }
    }

    /// The processes to look at now.
    pub(super) fn take(&mut self, now: Duration) -> Vec<u32> {
        let events = self.connector.as_ref().map(ProcessConnector::take);
        let mut all = self.after(events.unwrap_or_default(), now);
        let is_due = |_: &u32, due: &mut Duration| *due <= now;
        all.extend(self.forked.extract_if(.., is_due).map(|(pid, _)| pid));
        all
    }

    /// The processes of which events say that they have executed a program. Notes those that were
    /// forked.
    fn after(&mut self, events: Vec<ConnectorEvent>, now: Duration) -> Vec<u32> {
        let mut executed = Vec::new();
        for event in events {
            match event {
                ConnectorEvent::Executed(pid) => {
                    self.forked.remove(&pid);
                    executed.push(pid);
                }
                ConnectorEvent::Forked(pid) if self.forked.len() < MOST_FORKED => {
                    self.forked.insert(pid, now.saturating_add(FORKED_FOR));
                }
                ConnectorEvent::Forked(_) => {}
            }
        }
        executed
    }

    /// Notes the processor time that a look because of events has used.
    pub(super) fn count_cost(&mut self, cost: Duration) {
        self.allowed = self.allowed.saturating_sub(cost);
    }

    fn pass_time(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at);
        self.at = now;
        self.allowed = self.allowed.saturating_add(passed / PART).min(MOST_SAVED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_forked_process_is_looked_at_later_and_only_if_it_executes_no_program() {
        let mut looks = EventLooks::new(None);
        let events = vec![
            ConnectorEvent::Forked(1),
            ConnectorEvent::Forked(2),
            ConnectorEvent::Executed(2),
        ];
        assert_eq!(looks.after(events, MS), [2]);
        assert!(looks.take(2 * MS).is_empty());
        assert_eq!(looks.take(3 * MS), [1]);
        assert!(looks.take(9 * MS).is_empty());
    }

    #[test]
    fn a_forked_process_ends_the_wait_unless_looks_have_used_their_time() {
        let (ended, end) = std::io::pipe().unwrap();
        let mut looks = EventLooks::new(None);
        looks.after(vec![ConnectorEvent::Forked(1)], MS);
        assert_eq!(looks.wait(&ended, 3 * MS, 4 * MS), Woken::ByEvent);
        looks.count_cost(Duration::from_secs(1));
        assert_eq!(looks.wait(&ended, 3 * MS, 4 * MS), Woken::InTime);
        // A fiftieth of the time that has passed.
        assert_eq!(looks.wait(&ended, 9 * MS, 10 * MS), Woken::ByEvent);
        drop(end);
        assert_eq!(looks.wait(&ended, 9 * MS, 10 * MS), Woken::Ended);
    }
}
