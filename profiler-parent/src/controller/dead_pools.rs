//! The accounts of dead processes: their pools stay charged, and lose their chunks by age.
//!
//! Part of the controller. Invariant: a dead process is charged with what its pool occupies, until
//! the parent reports that the pool occupies less or is closed.

use profiler_core::ids::PoolId;

use super::Controller;
use super::account::Account;
use super::messages::{Command, DeadPoolMemory};

impl Controller {
    pub(super) fn bury(&mut self, key: PoolId, pool: DeadPoolMemory, out: &mut Vec<Command>) {
        if self.accounts.get(key).is_some_and(Account::is_alive) {
            self.settle(key, |account, _, _| account.die(pool));
            self.drop_if_empty(key, out);
        }
    }

    pub(super) fn dead_destroyed(&mut self, key: PoolId, held: u64, out: &mut Vec<Command>) {
        if self
            .accounts
            .get(key)
            .is_some_and(|account| !account.is_alive())
        {
            self.settle(key, |account, _, _| account.found(held));
            self.drop_if_empty(key, out);
        }
    }

    fn drop_if_empty(&mut self, key: PoolId, out: &mut Vec<Command>) {
        if self
            .accounts
            .get(key)
            .is_some_and(|account| account.listed().is_empty())
        {
            self.accounts.change(key, Account::start_dropping);
            out.push(Command::DropDead { key });
        }
    }
}
