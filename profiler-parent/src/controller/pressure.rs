//! Serves processes that could use more memory, and passes on the memory that others gave up for
//! them.
//!
//! Part of the controller, called for each report. Invariants: only free memory is given; a process
//! that owes is given nothing; memory already requested for a process is not requested a second
//! time.

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

use super::Controller;
use super::account::Account;
use super::messages::Command;
use super::reclaim::{Demand, Unused, reclaim};
use super::rule::{self, Need};

impl Controller {
    /// Applies `learn` to the account of a process. Memory that the process has freed goes to the
    /// process for which it was requested. Returns whether it has freed memory that it owed.
    pub(super) fn settle(
        &mut self,
        key: PoolId,
        learn: impl FnOnce(&mut Account, u64, u64),
    ) -> bool {
        let now = self.now;
        let page = self.policy.page;
        let settled = self.accounts.change(key, |account| {
            let owed = account.owed();
            learn(account, now, page);
            let paid = owed.saturating_sub(account.owed());
            let creditor = if account.owed() == 0 {
                account.creditor.take()
            } else {
                account.creditor
            };
            (paid, creditor)
        });
        if let Some((paid, Some(creditor))) = settled {
            self.pay(creditor, paid);
        }
        settled.is_some_and(|(paid, _)| paid > 0)
    }

    /// Gives a process the memory that was requested for it, as far as it is free; its next `Await`
    /// carries the new allowance.
    fn pay(&mut self, creditor: PoolId, paid: u64) {
        let spare = self.spare();
        let page = self.policy.page;
        self.accounts.change(creditor, |account| {
            let paid = paid.min(account.coming);
            account.coming -= paid;
            // Whole pages, because a process obeys and shows only whole pages.
            if account.is_alive() && account.may_be_served() {
                account.target += rule::pages_down(paid.min(spare), page);
            }
        });
    }

    /// Serves the need that a report states. Returns whether others were asked for memory.
    pub(super) fn serve(
        &mut self,
        key: PoolId,
        wanted: u64,
        recorded: u64,
        out: &mut Vec<Command>,
    ) -> bool {
        let Some(account) = self
            .accounts
            .get(key)
            .filter(|account| account.may_be_served())
        else {
            return false;
        };
        let newest = account.listed().last();
        let mut need = Need {
            wanted,
            recorded,
            chunk: newest.map_or(0, |chunk| chunk.bytes),
            allowance: account.target,
            unused: account.unused(),
        };
        let older_than = rule::older_than(account.oldest(), newest.map(|chunk| chunk.done));
        let given = need.given(&self.policy, self.limit, self.spare());
        if given > 0 {
            self.accounts.change(key, |account| account.target += given);
        }
        need.wanted = wanted.saturating_sub(given);
        // While memory is missing, `take_missing` already asks all processes for it.
        let is_asked = self.missing() == 0
            && self.ask_for(key, need.asked(self.policy.page), older_than, out) > 0;
        if given > 0 && !is_asked {
            let kept = rule::left_to_each(&self.policy, self.limit);
            self.replenish(key, kept, out);
        }
        is_asked
    }

    /// Notes that a process has connected, to lend it the part of each process if it has less.
    pub(super) fn note_connected(&mut self, key: PoolId) {
        if !self.lacking.contains(&key) {
            self.lacking.push(key);
        }
    }

    /// Lends their part to processes that have connected and have less. What cannot be lent now is
    /// taken back from others for them, as far as these can be asked. They are tried again when
    /// others have obeyed. Of many processes, not each can have its part.
    pub(super) fn lend_parts(&mut self, out: &mut Vec<Command>) {
        if self.accounts.alive() > rule::MOST_LENT_TO {
            self.lacking.clear();
        }
        for key in std::mem::take(&mut self.lacking) {
            if self.lend_part(key, out) {
                self.lacking.push(key);
            }
        }
    }

    /// Returns whether the process still lacks something. A process that has recorded grows like
    /// all others.
    fn lend_part(&mut self, key: PoolId, out: &mut Vec<Command>) -> bool {
        let part = rule::lent_to_each(&self.policy, self.limit);
        let accounts = self.accounts.get(key);
        let Some(account) = accounts.filter(|account| account.is_alive()) else {
            return false;
        };
        let lacks = part.saturating_sub(account.target.saturating_add(account.coming));
        if lacks == 0 || account.oldest().is_some() || !account.may_be_served() {
            return false;
        }
        let lendable = rule::lendable(self.limit, self.spare());
        let lent = rule::pages_down(lacks.min(lendable), self.policy.page);
        let taken = self.take_lent(key, lacks - lent, part, out);
        let coming = taken.min(lacks - lent);
        self.accounts.change(key, |account| {
            account.target += lent;
            account.coming = account.coming.saturating_add(coming);
        });
        lent + coming < lacks
    }

    /// If too little is free for the next process, takes back unused allowance from the others, but
    /// leaves each `kept` bytes. `key` was given memory and is not asked.
    pub(super) fn replenish(&mut self, key: PoolId, kept: u64, out: &mut Vec<Command>) {
        let free = self.limit.saturating_sub(self.accounts.expected());
        let bytes = rule::missing_for_next(&self.policy, self.limit, free);
        self.take_lent(key, bytes, kept, out);
    }

    /// Takes back unused allowance for a process from others, but leaves each `kept` bytes. Returns
    /// the bytes asked for. Not while memory is missing: `take_missing` takes that from all
    /// processes, and a process is asked only once.
    fn take_lent(&mut self, key: PoolId, bytes: u64, kept: u64, out: &mut Vec<Command>) -> u64 {
        if bytes == 0 || self.missing() > 0 {
            return 0;
        }
        let demand = Demand {
            bytes,
            older_than: Timestamp::ZERO,
            unused: Unused::Beyond {
                kept,
                least: rule::least_taken(self.limit),
            },
            creditor: Some(key),
            owners: rule::ASKED_AT_ONCE,
        };
        reclaim(&mut self.accounts, &demand, &self.policy, self.now, out)
    }

    /// Asks others for `bytes` on behalf of `key`, less the amount already requested for it. That
    /// amount is discounted further with each report, in case the memory never comes. Returns the
    /// bytes asked for.
    fn ask_for(
        &mut self,
        key: PoolId,
        bytes: u64,
        older_than: Timestamp,
        out: &mut Vec<Command>,
    ) -> u64 {
        if bytes == 0
            && self
                .accounts
                .get(key)
                .is_none_or(|account| account.coming == 0)
        {
            return 0;
        }
        let coming = self.accounts.change(key, |account| {
            account.coming -= account.coming.div_ceil(4);
            account.coming
        });
        let bytes = rule::pages_up(bytes.saturating_sub(coming.unwrap_or(0)), self.policy.page);
        let quiet_after = rule::quiet_after(self.limit).max(1);
        let demand = Demand {
            bytes,
            older_than,
            unused: Unused::QuietSince(self.now.saturating_sub(quiet_after)),
            creditor: Some(key),
            owners: rule::ASKED_AT_ONCE,
        };
        let taken = if bytes > 0 {
            reclaim(&mut self.accounts, &demand, &self.policy, self.now, out)
        } else {
            0
        };
        if taken > 0 {
            self.accounts.change(key, |account| {
                account.coming = account.coming.saturating_add(taken)
            });
        }
        taken
    }
}
