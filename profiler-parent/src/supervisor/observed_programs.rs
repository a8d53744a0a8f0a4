//! Handles what the reader of observed programs tells, and the ends of their processes.
//!
//! Part of the supervisor's thread. Invariants: the end of an observed process is handled when the
//! reader has read what it has left; a reader that does not answer delays that for a limited time
//! only, so a caller gets the exit status in any case.

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
                // It may have changed since the program was admitted.
                self.observed.set_allowance(key, self.allowance(key));
            }
            ObservedEvent::Updated { key, update } => self.hear_update(key, update),
            ObservedEvent::Ended { key, goes_on } => self.observation_ended(key, goes_on),
        }
    }

    /// Handles the end of an observation. The reader tells it again if it gets the news of the exit
    /// after that: only the first time counts.
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

    /// Whether the reader tells the end of this process later, when it has read what the process has
    /// left: its program is observed, or may have made a file that the reader has not met.
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
