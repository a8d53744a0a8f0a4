//! All accounts, their sums, and the orders in which processes are asked.
//!
//! Used by the controller. Invariants: the sums and the three orders agree with the accounts at all
//! times, because every change of an account goes through [`Accounts::change`]. Each change costs
//! O(log n); a change that moves no account in an order costs only finding the account. Time is the
//! number of bytes that all processes have recorded: there is no clock, and when nothing is
//! recorded nothing is urgent.

use std::collections::{BTreeSet, HashMap};

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

use super::account::Account;

/// Rank of unused allowance: first the part beyond room for one more chunk, then the remainder;
/// within each by the time of the latest report.
pub(super) type Quiet = (bool, u64);

/// The place of an account in the sums and orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct AccountRank {
    charged: u64,
    planned: u64,
    late: u64,
    excess: u64,
    alive: bool,
    age: Option<Timestamp>,
    quiet: Option<Quiet>,
    asked: Option<u64>,
}

impl AccountRank {
    fn of(account: &Account, floor: u64) -> Self {
        let free_to_ask = account.can_be_asked();
        let least = account.least(floor);
        let more = free_to_ask && account.target > least;
        let unused = more && account.is_alive() && account.held() < account.target;
        let owes = account.owed() > 0;
        Self {
            charged: account.charged(),
            planned: account.target,
            late: if account.late { account.owed() } else { 0 },
            excess: account.excess(),
            alive: account.is_alive(),
            age: account.oldest().filter(|_| more),
            quiet: unused.then_some((account.spare() == 0, account.heard)),
            asked: (owes && !account.late).then_some(account.asked),
        }
    }
}

/// All accounts. See the head of this file.
#[derive(Debug)]
pub(super) struct Accounts {
    floor: u64,
    accounts: HashMap<PoolId, Account>,
    by_age: BTreeSet<(Timestamp, PoolId)>,
    by_quiet: BTreeSet<(Quiet, PoolId)>,
    by_asked: BTreeSet<(u64, PoolId)>,
    charged: u64,
    planned: u64,
    late: u64,
    excess: u64,
    alive: u64,
    /// The accounts changed since the last call of [`Self::take_changed`].
    changed: Vec<PoolId>,
}

impl Accounts {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            floor,
            accounts: HashMap::new(),
            by_age: BTreeSet::new(),
            by_quiet: BTreeSet::new(),
            by_asked: BTreeSet::new(),
            charged: 0,
            planned: 0,
            late: 0,
            excess: 0,
            alive: 0,
            changed: Vec::new(),
        }
    }

    pub(super) fn get(&self, key: PoolId) -> Option<&Account> {
        self.accounts.get(&key)
    }

    /// All accounts, in the order of their keys. Costs O(n log n).
    pub(super) fn iter(&self) -> impl Iterator<Item = (PoolId, &Account)> {
        let mut all: Vec<_> = self
            .accounts
            .iter()
            .map(|(key, account)| (*key, account))
            .collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter()
    }

    /// The bytes that all processes may hold now.
    pub(super) const fn charged(&self) -> u64 {
        self.charged
    }

    /// The bytes that all processes may hold once all debts are paid, plus the debts that are no
    /// longer expected to be paid.
    pub(super) const fn expected(&self) -> u64 {
        self.planned.saturating_add(self.late)
    }

    /// The bytes that all processes hold against the rule.
    pub(super) const fn excess(&self) -> u64 {
        self.excess
    }

    /// The accounts changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<(PoolId, &Account)> {
        let changed = std::mem::take(&mut self.changed);
        for key in &changed {
            if let Some(account) = self.accounts.get_mut(key) {
                account.is_listed_as_changed = false;
            }
        }
        changed
            .into_iter()
            .filter_map(|key| Some((key, self.accounts.get(&key)?)))
            .collect()
    }

    pub(super) const fn alive(&self) -> u64 {
        self.alive
    }

    pub(super) fn insert(&mut self, key: PoolId, account: Account) {
        self.enter(key, AccountRank::of(&account, self.floor));
        self.accounts.insert(key, account);
        self.change(key, |_| ()); // lists it as changed
    }

    pub(super) fn remove(&mut self, key: PoolId) -> Option<Account> {
        let account = self.accounts.remove(&key)?;
        self.leave(key, AccountRank::of(&account, self.floor));
        Some(account)
    }

    /// Changes one account; `None` when the process has no account.
    pub(super) fn change<R>(
        &mut self,
        key: PoolId,
        change: impl FnOnce(&mut Account) -> R,
    ) -> Option<R> {
        let account = self.accounts.get_mut(&key)?;
        if !std::mem::replace(&mut account.is_listed_as_changed, true) {
            self.changed.push(key);
        }
        let before = AccountRank::of(account, self.floor);
        let result = change(account);
        let after = AccountRank::of(account, self.floor);
        if before != after {
            self.leave(key, before);
            self.enter(key, after);
        }
        Some(result)
    }

    /// The processes that can be asked for data, oldest data first.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = (Timestamp, PoolId)> {
        self.by_age.iter().copied()
    }

    /// The processes that can be asked for unused allowance, quietest first.
    pub(super) fn quietest_first(&self) -> impl Iterator<Item = (Quiet, PoolId)> {
        self.by_quiet.iter().copied()
    }

    /// Stops expecting payment of debts that were asked for before `then`; of all debts if `None`.
    pub(super) fn give_up_on_debts_before(&mut self, then: Option<u64>) {
        while let Some(&(asked, key)) = self.by_asked.first() {
            if then.is_some_and(|then| asked >= then) {
                return;
            }
            self.change(key, |account| account.late = true);
        }
    }

    fn enter(&mut self, key: PoolId, place: AccountRank) {
        self.charged = self.charged.saturating_add(place.charged);
        self.planned = self.planned.saturating_add(place.planned);
        self.late = self.late.saturating_add(place.late);
        self.excess = self.excess.saturating_add(place.excess);
        self.alive += u64::from(place.alive);
        self.by_age.extend(place.age.map(|age| (age, key)));
        self.by_quiet.extend(place.quiet.map(|quiet| (quiet, key)));
        self.by_asked.extend(place.asked.map(|asked| (asked, key)));
    }

    fn leave(&mut self, key: PoolId, place: AccountRank) {
        self.charged = self.charged.saturating_sub(place.charged);
        self.planned = self.planned.saturating_sub(place.planned);
        self.late = self.late.saturating_sub(place.late);
        self.excess = self.excess.saturating_sub(place.excess);
        self.alive = self.alive.saturating_sub(u64::from(place.alive));
        place.age.map(|age| self.by_age.remove(&(age, key)));
        place.quiet.map(|quiet| self.by_quiet.remove(&(quiet, key)));
        place.asked.map(|asked| self.by_asked.remove(&(asked, key)));
    }
}
