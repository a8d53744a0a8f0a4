//! Connections whose processes have not joined yet. Linux.
//!
//! Kept by the join thread, each with a deadline, so that the thread waits for none of them.

use std::time::{Duration, Instant};

use ipc_protocol::message::{JoinRefusal, JoinRequest};
use ipc_protocol::transport::joining::{Joiner, began_now};
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};

use super::admission::Applicant;
use crate::sys::ProgramImage;

/// How long after the end of a connection the end of its process is looked up. Meanwhile its parent
/// process usually takes its exit status; the two would get into each other's way in `/proc`.
const AFTER_END: Duration = Duration::from_millis(5);
/// How often a process is looked at that has announced itself.
const LOOK: Duration = Duration::from_millis(50);
/// How long after its announcement a process asks for memory at the latest. If it asks later,
/// because it was stopped, it connects again.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much earlier than its announcement is received a program may have begun: this process may
/// have waited for a processor.
const LATE: Duration = Duration::from_secs(10);

/// A connection whose process has not joined yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) joiner: Joiner,
    pub(super) deadline: Instant,
    pub(super) stage: Stage,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing has been received.
    Silent,
    /// The process has announced itself, and will ask for memory.
    Announced(Box<Announced>),
    /// The request was received, and memory is being freed for the process.
    Waiting(Box<Waiting>),
}

/// A process that waits, and the reason for which it is refused at its deadline.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) applicant: Applicant,
    pub(super) why: JoinRefusal,
    pub(super) next_try: Instant,
}

/// A process that has announced itself and has not asked for memory.
#[derive(Debug)]
pub(super) struct Announced {
    /// Its entry in the table.
    pub(super) key: PoolId,
    pub(super) start: ProcessStart,
    /// The program that it executed then, if that is known.
    pub(super) image: Option<ProgramImage>,
    began_ns: u64,
    received: Instant,
    next_look: Instant,
    has_left: bool,
}

impl Announced {
    pub(super) fn new(key: PoolId, request: &JoinRequest, image: Option<ProgramImage>) -> Self {
        let received = now();
        Self {
            key,
            start: request.start,
            image,
            began_ns: request.began_ns,
            received,
            next_look: received + LOOK,
            has_left: false,
        }
    }

    /// For how long the program has run, according to itself if that is possible.
    pub(super) fn age(&self) -> Duration {
        let known = self.received.elapsed();
        let claimed = began_now().checked_sub(self.began_ns);
        let claimed = claimed.map(Duration::from_nanos);
        claimed
            .filter(|claimed| *claimed >= known && *claimed - known <= LATE)
            .unwrap_or(known)
    }

    /// Whether its connection has ended.
    pub(super) const fn has_left(&self) -> bool {
        self.has_left
    }

    /// Notes that its connection has ended. `false` if that is known.
    pub(super) fn leave(&mut self) -> bool {
        self.next_look = now() + AFTER_END;
        !std::mem::replace(&mut self.has_left, true)
    }

    /// When its connection is closed if it has not asked for memory.
    pub(super) fn deadline(&self) -> Instant {
        self.received + PATIENCE
    }

    /// Puts the next look off.
    pub(super) fn look_later(&mut self) {
        self.next_look = now() + LOOK;
    }
}

impl Pending {
    /// Whether something may be received from it.
    pub(super) fn is_heard(&self) -> bool {
        !matches!(&self.stage, Stage::Announced(announced) if announced.has_left())
    }

    pub(super) const fn is_announced(&self) -> bool {
        matches!(self.stage, Stage::Announced(_))
    }

    /// Whether it waits for memory for this process.
    pub(super) fn is_waiting_for(&self, pid: ProcessId) -> bool {
        matches!(&self.stage, Stage::Waiting(waiting) if waiting.applicant.pid() == pid)
    }

    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.stage, Stage::Silent)
    }

    /// When something must be done if nothing is received.
    pub(super) fn next_step(&self) -> Instant {
        match &self.stage {
            Stage::Silent => self.deadline,
            Stage::Announced(announced) => announced.next_look.min(self.deadline),
            Stage::Waiting(waiting) => waiting.next_try.min(self.deadline),
        }
    }
}

/// The present time.
pub(super) fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipc_protocol::environment::Token;

    fn announced(began_ns: u64) -> Announced {
        let request = JoinRequest {
            token: Token::from_bytes([0; Token::BYTES]),
            name: "true".to_owned(),
            start: ProcessStart::new(1),
            parent: ProcessId::new(1),
            began_ns,
            patience_ms: 0,
        };
        Announced::new(PoolId::new(1), &request, None)
    }

    #[test]
    fn a_program_is_as_old_as_it_says_if_that_is_possible() {
        let now = Duration::from_nanos(began_now());
        let age = |began: Duration| {
            let began_ns = u64::try_from(began.as_nanos()).unwrap();
            announced(began_ns).age()
        };
        // The machine may have booted a moment ago.
        let second = Duration::from_secs(1).min(now);
        assert!(age(now - second) >= second);
        let hour = Duration::from_secs(3600);
        for began in [now.saturating_sub(hour), now + hour] {
            let is_possible = now
                .checked_sub(began)
                .is_some_and(|age| age <= LATE + second);
            assert!(is_possible || age(began) < now.min(hour) / 2, "{began:?}");
        }
    }

    #[test]
    fn a_process_leaves_once() {
        let mut announced = announced(0);
        assert!(!announced.has_left());
        assert!(announced.leave());
        assert!(!announced.leave());
        assert!(announced.has_left());
    }
}
