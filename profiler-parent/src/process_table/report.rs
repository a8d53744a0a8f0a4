//! Reports on the processes of a session, for the application, with the figures of their memory.
//!
//! Created by the process table on request. They are plain values.

use std::process::ExitStatus;

use profiler_core::ids::{ByteLimit, ProcessId};

use super::{Remains, TrackedProcess};

/// Bytes that a file system may count for one pool in addition to its data: metadata blocks, and
/// blocks that are reserved for a short time. For a large pool it is a sixteenth of the charged
/// bytes.
const FILE_SYSTEM_SLACK: u64 = 1 << 20;

/// The state of a process, as far as the session knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// This process, the parent.
    Parent,
    /// Started; has not said hello.
    Starting,
    /// Connected and alive.
    Connected,
    /// The channel has closed, for this reason, but the process is not known to have ended.
    Disconnected(String),
    /// It executes another program (`exec`), so it records nothing more here. The new program may
    /// join the session as another process with the same process id.
    Executed,
    /// It has ended. `None` if its exit status is not known: other code in this process took it, or
    /// the process was started by another one and the system does not tell.
    Exited(Option<ExitStatus>),
}

/// A process of a session, with the figures of its memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Display name.
    pub name: String,
    /// Process id in the system.
    pub pid: ProcessId,
    /// The process id of its parent process: this process for a child that it has spawned;
    /// otherwise the process that was the parent when the process joined, if that is known.
    pub parent: Option<ProcessId>,
    /// Whether it was started by any process and joined by itself.
    pub has_joined: bool,
    /// State of the process.
    pub state: ProcessState,
    /// The reason why the process does not record here; `None` if it records.
    pub unprofiled: Option<String>,
    /// The process whose session records this process, if that is not this session: a process below
    /// this session has started a session of its own.
    pub recorded_by: Option<ProcessId>,
    /// Limit on the bytes of its pool.
    pub allowance: ByteLimit,
    /// Bytes that the pool held according to the latest report of the process.
    pub held_bytes: u64,
    /// Bytes that the pool occupies now, measured by the parent.
    pub true_bytes: u64,
    /// Bytes that the process was asked to free and has not yet confirmed as freed. A stopped
    /// process frees nothing; other processes free the bytes instead.
    pub owed_bytes: u64,
    /// Bytes that the pool occupies beyond all that the process was ever granted. Non-zero only if
    /// the process writes into its pool without the profiler, by a stray write or on purpose.
    pub excess_bytes: u64,
}

impl TrackedProcess {
    /// Bytes charged to the limit for a dead process's pool of `held` bytes: at most the granted
    /// bytes, so that other processes do not lose data for a process that took more.
    pub(super) fn charge(&self, held: u64) -> u64 {
        held.min(self.figures.map_or(held, |figures| figures.charged))
    }

    /// `true_bytes` minus the bytes that a file system may add to the data.
    pub(super) fn accountable(&self, true_bytes: u64) -> u64 {
        let charged = self.figures.map_or(0, |figures| figures.charged);
        let slack = if self.in_file {
            FILE_SYSTEM_SLACK.max(charged / 16)
        } else {
            0
        };
        true_bytes.saturating_sub(slack)
    }

    /// Bytes that the pool occupies now.
    pub(super) fn true_bytes(&self) -> u64 {
        match &self.remains {
            Remains::Pool(file) => file
                .get()
                .map_or(0, |file| profiler_sys::allocated_bytes(file).unwrap_or(0)),
            Remains::Expired(_) | Remains::Unprofiled(_) => 0,
        }
    }

    /// Bytes that the process was asked to free. A process that has ended frees nothing; its pool
    /// belongs to the parent.
    fn owed_bytes(&self) -> u64 {
        match self.is_over() {
            true => 0,
            false => self.figures.map_or(0, |figures| figures.owed()),
        }
    }

    pub(super) fn report(&self) -> ProcessReport {
        let true_bytes = self.true_bytes(); // read once, because it changes
        let unprofiled = match &self.remains {
            Remains::Unprofiled(why) => Some(why.clone()),
            Remains::Pool(_) | Remains::Expired(_) => self.cannot_record.clone(),
        };
        ProcessReport {
            name: self.name.clone(),
            pid: self.pid,
            parent: self.parent,
            has_joined: self.has_joined,
            state: self.state.clone(),
            unprofiled,
            recorded_by: self.recorded_by,
            allowance: self
                .figures
                .map_or(ByteLimit::new(0), |figures| figures.allowance),
            held_bytes: self.figures.map_or(0, |figures| figures.held),
            true_bytes,
            owed_bytes: self.owed_bytes(),
            excess_bytes: self
                .accountable(true_bytes)
                .saturating_sub(self.charge(true_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::ProcessFigures;

    fn owed_in(state: ProcessState) -> u64 {
        let remains = Remains::Expired(profiler_core::session::EntryCounts::default());
        let mut process = TrackedProcess::new("p", ProcessId::new(1), state, remains);
        process.figures = Some(ProcessFigures {
            allowance: ByteLimit::new(0),
            charged: 7,
            held: 7,
            excess: 0,
            released: 0,
            oldest: None,
            dead: false,
            awaiting: false,
            destroying: false,
            can_be_asked: true,
        });
        process.report().owed_bytes
    }

    #[test]
    fn a_process_that_has_ended_owes_nothing() {
        assert_eq!(owed_in(ProcessState::Connected), 7);
        assert_eq!(owed_in(ProcessState::Exited(None)), 0);
        assert_eq!(owed_in(ProcessState::Executed), 0);
    }
}
