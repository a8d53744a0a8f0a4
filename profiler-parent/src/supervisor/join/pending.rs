//! Connections whose processes have not joined yet. Linux.
//!
//! Kept by the join thread, each with a deadline, so that the thread waits for none of them.

use std::time::Instant;

use ipc_protocol::message::JoinRefusal;
use ipc_protocol::transport::joining::Joiner;
use profiler_core::ids::ProcessId;

use super::admission::Applicant;

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

impl Pending {
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
            Stage::Waiting(waiting) => waiting.next_try.min(self.deadline),
        }
    }
}
