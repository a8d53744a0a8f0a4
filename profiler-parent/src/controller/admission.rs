//! Admission of processes: decides the first allowance of a process, or why it is refused.
//!
//! Part of the controller. Invariant: a process that was refused for lack of memory finds memory
//! when it tries again, because its floor is kept free from then on.

use profiler_core::ids::{ByteLimit, PoolId};

use super::account::Account;
use super::messages::{Command, Refusal};
use super::{Controller, rule};

impl Controller {
    pub(super) fn join(&mut self, key: PoolId, out: &mut Vec<Command>) {
        match self.admit(key) {
            Ok(allowance) => {
                out.push(Command::Admit {
                    key,
                    allowance: ByteLimit::new(allowance),
                });
                self.replenish(key, rule::lent_to_each(&self.policy, self.limit), out);
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
        let first = rule::first_allowance(&self.policy, self.limit, self.free(), processes);
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

    /// Keeps a floor free for `key`. Advances the accounts' time with each try, so that debts
    /// become late even when nothing is recorded.
    fn wait_for_memory(&mut self, key: PoolId) {
        self.waiting.insert(key);
        self.pass_time(rule::late_after(self.limit) / 8);
    }
}
