//! The connections that the thread keeps: how many, for how long, and what happens then. Linux.

use ipc_protocol::transport::ready::{ChannelNumber, ReadySet};
use profiler_core::ids::ProcessId;

use super::super::limits::Limits;
use super::super::pending::{Pending, Stage, Waiting};
use super::JoinThread;
use crate::sys::now;

impl JoinThread {
    /// Ends an earlier connection over which the same process waits, so that one process does not
    /// have the places of many.
    pub(super) fn end_other_wait(&mut self, set: &ReadySet, pid: ProcessId) {
        let mut all = self.pending.iter();
        let other = all.find(|(_, one)| one.is_waiting_for(pid));
        if let Some(other) = other.map(|(number, _)| *number) {
            self.close(set, other);
        }
    }

    /// Keeps a connection, and closes another one if there are too many.
    pub(super) fn keep(&mut self, set: &ReadySet, number: ChannelNumber, pending: Pending) {
        if self.pending.len() >= Limits::now().pending {
            match self.oldest(Pending::is_silent) {
                Some(oldest) => self.close(set, oldest),
                None => return self.end(pending),
            }
        }
        if let Ok(socket) = pending.joiner.socket() {
            let _ = set.add(number, socket); // an error: its deadline ends the connection
        }
        self.pending.insert(number, pending);
    }

    /// The connection of this kind that has been there for longest.
    fn oldest(&self, is_it: impl Fn(&Pending) -> bool) -> Option<ChannelNumber> {
        let mut all = self.pending.iter();
        all.find(|(_, one)| is_it(one)).map(|(number, _)| *number)
    }

    /// Ends the connections whose time is over, and tries again for those that wait for memory.
    pub(super) fn go_on(&mut self, set: &ReadySet) {
        let now = now();
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            self.listen(set);
        }
        let due: Vec<ChannelNumber> = self
            .pending
            .iter()
            .filter(|(_, one)| one.next_step() <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let is_over = self
                .pending
                .get(&number)
                .is_some_and(|one| one.deadline <= now);
            if is_over {
                self.close(set, number);
            } else if let Some(pending) = self.take(set, number) {
                match pending.stage {
                    Stage::Silent => {}
                    Stage::Waiting(waiting) => {
                        self.attempt(set, number, pending.joiner, waiting.applicant);
                    }
                }
            }
        }
    }

    /// Takes a connection out of the set.
    fn take(&mut self, set: &ReadySet, number: ChannelNumber) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        if let Ok(socket) = pending.joiner.socket() {
            set.remove(socket);
        }
        Some(pending)
    }

    fn close(&mut self, set: &ReadySet, number: ChannelNumber) {
        if let Some(pending) = self.take(set, number) {
            self.end(pending);
        }
    }

    /// Ends a connection without a pool.
    fn end(&self, pending: Pending) {
        match pending.stage {
            Stage::Silent => {}
            Stage::Waiting(waiting) => {
                let Waiting { applicant, why, .. } = *waiting;
                self.admission.refuse(&pending.joiner, applicant, why);
            }
        }
    }
}
