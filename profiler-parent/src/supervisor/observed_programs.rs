//! Handles the events from the reader of observed programs, and the ends of their processes.
//!
//! Part of the supervisor's thread. Invariants: the end of an observed process is handled after the
//! reader has read the rest of its file; a reader that does not answer delays this only for a
//! limited time, so a caller always gets the exit status.

use std::process::ExitStatus;

use profiler_core::ids::PoolId;

use super::control_loop::ControlLoop;
use super::observed::ObservedEvent;
use crate::controller::Event;

impl ControlLoop {
    pub(super) fn take_in_observed(&mut self, event: ObservedEvent) {
        match event {
            ObservedEvent::Began { commands, progress } => self.observed.begin(commands, progress),
            ObservedEvent::RecordsItself { pid } => self.observed.records_itself(pid),
            // Its end was handled while the reader did nothing.
            ObservedEvent::Started { key } if self.context.processes.is_over(key) => {}
            ObservedEvent::Started { key } => {
                self.observed.add(key);
                self.account(Event::Connected { key });
                // The allowance may have changed since the program was admitted.
                self.observed.set_allowance(key, self.allowance(key));
            }
            ObservedEvent::Updated { key, update } => self.hear_update(key, update),
            ObservedEvent::Ended { key, goes_on } => self.observation_ended(key, goes_on),
        }
    }

    /// Handles the end of an observation. The reader reports the end again if it is told of the
    /// exit later; only the first report counts.
    fn observation_ended(&mut self, key: PoolId, goes_on: bool) {
        let Some(told) = self.observed.remove(key) else {
            return;
        };
        if goes_on {
            self.executed(key);
        }
        // The process may have ended before the reader met its first program.
        if told.is_some() || !goes_on {
            self.exited(key, told.flatten());
        }
    }

    /// Whether the reader reports the end of this process later, after it has read the rest of the
    /// process's file: its program is observed, or may have made a file that the reader has not
    /// opened.
    pub(super) fn is_observed_until(&mut self, key: PoolId, status: Option<ExitStatus>) -> bool {
        let may_be_new = || self.context.processes.may_be_observed(key);
        self.observed.ends(key, status, may_be_new)
    }

    /// Handles the ends of processes for which the reader gives no answer.
    pub(super) fn check_observed(&mut self) {
        for (key, status) in self.observed.take_overdue() {
            self.exited(key, status);
        }
    }
}
