//! Admission of processes: decides the first allowance of a process, or why it is refused.
//!
//! Part of the controller. A process that joins gets a loan: an equal part of seven eighths of the limit, at most
//! a quarter of the limit. Each admission makes the loans of later processes smaller. The controller
//! then takes back the unused parts of other processes' loans for the next process, of at most 64
//! processes at a time. Invariant: a process that was refused for lack of
//! memory finds memory when it tries again, because its floor is kept free from then on.

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::time::Timestamp;

use super::account::Account;
use super::messages::{Command, Refusal};
use super::reclaim::{Demand, UnusedPart, reclaim};
use super::{Controller, rule};

impl Controller {
    pub(super) fn join(&mut self, key: PoolId, out: &mut Vec<Command>) {
        match self.admit(key) {
            Ok(allowance) => {
                let allowance = ByteLimit::new(allowance);
                out.push(Command::Admit { key, allowance });
                self.recall_loans(out);
            }
            Err(why) => out.push(Command::Refuse { key, why }),
        }
    }

    fn admit(&mut self, key: PoolId) -> Result<u64, Refusal> {
        let processes = self.accounts.alive().saturating_add(1);
        let needed = processes.saturating_mul(self.policy.floor);
        if self.accounts.get(key).is_some() {
            return Err(Refusal::AlreadyJoined);
        }
        if needed > self.limit {
            return Err(Refusal::LimitTooSmall {
                limit: self.limit,
                needed,
            });
        }
        let loan = rule::loan(&self.policy, self.limit, processes);
        let first = rule::first_allowance(&self.policy, self.limit, self.free(), loan);
        let Some(allowance) = first else {
            self.wait_for_memory(key);
            return Err(Refusal::NotYet {
                missing: self.policy.floor - self.free(),
            });
        };
        self.waiting.remove(&key);
        self.accounts
            .insert(key, Account::admitted(allowance, self.now));
        Ok(allowance)
    }

    /// Asks for the unused parts of loans that are missing for the loan of the next process. A process
    /// that does not connect keeps its loan.
    pub(super) fn recall_loans(&mut self, out: &mut Vec<Command>) {
        let processes = self.accounts.alive().saturating_add(1);
        let loan = rule::loan(&self.policy, self.limit, processes);
        let expected = self.accounts.expected().saturating_add(self.borne());
        let free = self.limit.saturating_sub(expected);
        let demand = Demand {
            bytes: rule::free_for_loan(self.limit, loan).saturating_sub(free),
            older_than: Timestamp::ZERO, // no data
            unused: UnusedPart::Beyond(loan),
            creditor: None,
            owners: rule::EXAMINED_AT_ONCE,
        };
        if demand.bytes > 0 {
            reclaim(&mut self.accounts, &demand, &self.policy, self.now, out);
        }
    }

    /// Keeps a floor free for `key`. Advances the accounts' time with each try, so that debts
    /// become late even when nothing is recorded.
    fn wait_for_memory(&mut self, key: PoolId) {
        self.waiting.insert(key);
        self.pass_time(rule::late_after(self.limit) / 8);
    }
}
