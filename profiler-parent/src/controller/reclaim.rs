//! Taking memory back: which processes are asked for how much, oldest data first.
//!
//! Used by the controller under pressure, for joins and after a lowered limit. Invariants: the plan
//! is the order in which one common list of all chunks would be emptied; no process that owes is
//! asked; no process is asked below its floor; the cost is O(log n) per chunk in the plan.

use std::collections::{BTreeMap, BTreeSet};

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

use super::account::Account;
use super::accounts::Accounts;
use super::messages::{Command, Policy};
use super::rule;

/// How much to take, and from which processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Bytes to take.
    pub(super) bytes: u64,
    /// Only data older than this is taken.
    pub(super) older_than: Timestamp,
    /// The unused allowance that is taken.
    pub(super) unused: Unused,
    /// The process for which memory is taken; it is not asked itself.
    pub(super) creditor: Option<PoolId>,
    /// The largest number of processes to ask.
    pub(super) owners: usize,
}

/// Which part of the unused allowance of processes is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unused {
    /// All of it, from all processes.
    All,
    /// From processes that have not reported since this time all but their room for another chunk.
    /// Others keep as much unused allowance as they hold.
    QuietSince(u64),
    /// What exceeds `kept` bytes, if that is at least `least` bytes. `kept` is whole pages. Only
    /// the quietest processes are examined.
    Beyond { kept: u64, least: u64 },
}

impl Unused {
    /// The bytes that `account` can give.
    fn of(self, account: &Account) -> u64 {
        match self {
            Self::All => account.unused(),
            Self::QuietSince(since) if account.heard <= since => account.spare(),
            Self::QuietSince(_) => account.surplus(),
            Self::Beyond { kept, least } => {
                let beyond = account.unused().saturating_sub(kept);
                if beyond >= least { beyond } else { 0 }
            }
        }
    }
}

/// The bytes and chunks that one process must give.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    bytes: u64,
    chunks: usize,
    at_or_before: Timestamp,
}

/// The cuts for a demand, while they are collected.
struct Plan<'a> {
    accounts: &'a Accounts,
    demand: &'a Demand,
    floor: u64,
    page: u64,
    taken: u64,
    cuts: BTreeMap<PoolId, Cut>,
    /// Next chunk of each process that is in the plan for its data.
    next: BTreeSet<(Timestamp, PoolId)>,
}

/// Asks processes to give up memory for `demand`. Returns the bytes asked for.
pub(super) fn reclaim(
    accounts: &mut Accounts,
    demand: &Demand,
    policy: &Policy,
    now: u64,
    out: &mut Vec<Command>,
) -> u64 {
    let mut plan = Plan {
        accounts,
        demand,
        floor: policy.floor,
        page: policy.page,
        taken: 0,
        cuts: BTreeMap::new(),
        next: BTreeSet::new(),
    };
    plan.add_unused();
    plan.add_oldest();
    let taken = plan.taken;
    let cuts = plan.cuts;
    for (key, cut) in cuts {
        let dead = accounts.change(key, |account| {
            account.cut(cut.bytes, cut.at_or_before, now, demand.creditor);
            !account.is_alive()
        });
        out.push(match dead {
            Some(true) => Command::DestroyDead {
                key,
                at_or_before: cut.at_or_before,
            },
            _ => Command::Destroy {
                key,
                at_or_before: cut.at_or_before,
            },
        });
    }
    taken
}

impl Plan<'_> {
    fn is_complete(&self) -> bool {
        self.taken >= self.demand.bytes
    }

    fn add_unused(&mut self) {
        let takes_all = self.demand.unused == Unused::All;
        let examined = if takes_all {
            usize::MAX
        } else {
            rule::EXAMINED_AT_ONCE
        };
        for ((small, _), key) in self.accounts.quietest_first().take(examined) {
            let is_enough = self.is_complete() || self.cuts.len() >= self.demand.owners;
            if is_enough || (small && !takes_all) {
                return;
            }
            self.add_unused_of(key);
        }
    }

    fn add_unused_of(&mut self, key: PoolId) {
        let Some(account) = self.accounts.get(key) else {
            return;
        };
        let room = account.target.saturating_sub(account.least(self.floor));
        // Takes at least half of the unused allowance, because a process that needs a little now
        // needs more soon, and each request has a cost.
        let missing = rule::pages_up(self.demand.bytes - self.taken, self.page);
        let unused = self.demand.unused.of(account);
        let least = match self.demand.unused {
            Unused::Beyond { least, .. } => rule::pages_up(least, self.page),
            Unused::All | Unused::QuietSince(_) => 0,
        };
        let bytes = missing
            .max(least)
            .max(rule::pages_down(unused / 2, self.page))
            .min(unused)
            .min(room);
        if Some(key) != self.demand.creditor && bytes > 0 {
            self.cuts.insert(
                key,
                Cut {
                    bytes,
                    ..Cut::default()
                },
            );
            self.taken += bytes;
        }
    }

    fn add_oldest(&mut self) {
        let mut fresh = self.accounts.oldest_first().peekable();
        while !self.is_complete() {
            let known = self.next.first().copied();
            // Once the plan has enough owners, the remaining processes are not examined.
            let new = fresh.peek().copied().filter(|(_, key)| self.may_ask(*key));
            let Some(front) = [known, new].into_iter().flatten().min() else {
                return;
            };
            if front.0 >= self.demand.older_than {
                return;
            }
            if known == Some(front) {
                self.next.pop_first();
                self.add_chunk_of(front.1);
            } else {
                fresh.next();
                self.add_owner(front.0, front.1);
            }
        }
    }

    fn may_ask(&self, key: PoolId) -> bool {
        self.cuts.contains_key(&key) || self.cuts.len() < self.demand.owners
    }

    fn add_owner(&mut self, done: Timestamp, key: PoolId) {
        if Some(key) != self.demand.creditor {
            self.next.insert((done, key));
        }
    }

    /// Adds the next chunk of a process to its cut.
    fn add_chunk_of(&mut self, key: PoolId) {
        let Some(account) = self.accounts.get(key) else {
            return;
        };
        let cut = self.cuts.get(&key).copied().unwrap_or_default();
        let room = account
            .target
            .saturating_sub(account.least(self.floor))
            .saturating_sub(cut.bytes);
        let Some(chunk) = account.listed().get(cut.chunks).filter(|_| room > 0) else {
            return;
        };
        let bytes = rule::pages_up(chunk.bytes, self.page).min(room);
        let grown = Cut {
            bytes: cut.bytes + bytes,
            chunks: cut.chunks + 1,
            at_or_before: chunk.done,
        };
        self.cuts.insert(key, grown);
        self.taken += bytes;
        if let Some(following) = account.listed().get(grown.chunks) {
            self.next.insert((following.done, key));
        }
    }
}
