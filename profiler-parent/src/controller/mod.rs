//! The global controller: one hard byte limit over all processes of a session.
//!
//! Used by the session, which feeds it [`Event`]s and carries out its [`Command`]s. It is a pure
//! state machine: no I/O, no thread, no clock. Like Gecko's `ProfileBufferGlobalController`, it
//! destroys the oldest chunk of all processes first. Unlike Gecko's, it does not count memory as
//! free before it has been freed.
//!
//! # The rule
//!
//! Every process, including the parent, has an *allowance*, and its own chunk manager never holds
//! more. A process that had to destroy its own oldest chunk to continue reports this in its update
//! (`wanted_bytes`). It is then served, in this order, from
//!
//! 1. free budget, at once;
//! 2. unused allowance of processes that have been quiet while others recorded much, and of any
//!    process that was lent more than twice what it holds;
//! 3. the oldest data of all processes, if it is older than the asker's own.
//!
//! For 2 and 3 the owners get `DestroyReleasedChunksAtOrBefore` and a smaller allowance. Only
//! chunks that are older than the asker's own are taken, the oldest chunks of all owners first.
//! Therefore a process with little data never loses all of it for one request of a process with
//! much data. All processes keep about the same span of time in the end.
//!
//! Before a process has recorded anything, it is *lent* a part of the limit (`rule`), so that it
//! can record at full speed until the parent answers. If memory for the next process is missing,
//! unused memory is taken back from those that were lent the most. A process that was lent less
//! because others had not answered yet is lent the rest when they have obeyed.
//!
//! # Why slow and fast processes keep similar spans
//!
//! The fairness of the rule is limited by the size of chunks: a process cannot keep less than its
//! open chunk, and loses its data a chunk at a time. With chunks of one size, one chunk of a
//! process that records at a hundredth of another's rate covers a quarter of the common span, and
//! the process keeps or loses it as a whole: the plain model of the rule gives 0.36 to 0.53
//! (shortest ÷ longest span, rates 1:2:…:128). The rule therefore relies on the processes:
//!
//! - The size of a thread's chunks follows its rate and is at most a sixteenth of the allowance
//!   (`record::writer`), so a chunk covers at most about a sixteenth of the span at any rate.
//! - A thread that becomes idle does not keep a large chunk (`record::reclaim`), and the process
//!   keeps no unused stock.
//!
//! With these two measures the same rates give 0.96 in the simulation
//! (`tests/controller/steady.rs`; 0.86 with chunks of 64 KiB for all) and about 0.9 in real
//! processes (`figures -- flood`). One request asks for at most a sixteenth of the asker's
//! allowance or one chunk, whichever is larger (`rule`). A process with few chunks gets room for
//! one chunk in advance, because the loss of one of eight chunks is the loss of an eighth of the
//! span.
//!
//! # The invariant, and why the bound is hard
//!
//! The *charged* bytes of a process are the most that it may hold now, as far as the controller can
//! tell: the greatest of the allowance that it was last seen to obey, the allowances sent since,
//! the decided allowance, and the bytes that it held at its latest report. The invariant is **sum
//! of charged ≤ limit**. Memory is given only if it is free under that sum. So the bytes that are
//! really held stay within the limit, even if messages are late, lost or reordered between
//! processes: a process cannot hold more than its allowance, and its allowance is at most what is
//! charged for it.
//!
//! A raise is charged when it is decided, before it is sent. A cut stays charged at the old
//! value until an update shows that the process obeys the new one:
//!
//! ```text
//!   controller                               process             charged   allowance
//!   ─────────────────────────────────────────────────────────────────────────────────
//!   Await(8)     ──────────────────────────▶ obeys 8                8         8
//!   another process wants 2
//!   Destroy(ts)  ──────────────────────────▶                        8         6    owes 2
//!                ◀── update {allowance 8} ── destroys ≤ ts          8         6    owes 2
//!   Await(6)     ──────────────────────────▶ obeys 6                8         6    owes 2
//!                ◀── update {allowance 6, held 6}                   6         6    2 are free
//!   the other process gets 2
//! ```
//!
//! The first answer frees nothing: until `Await(6)` arrives the process may fill up to 8 again.
//! Between two settled states the allowances sent to a process only rise or only fall, so the value
//! in an update shows how far the process has got, without sequence numbers (see `account`).
//!
//! # Consequences
//!
//! - A process that does not answer is passed over: its debt stays charged, it is not asked again,
//!   and other processes are asked instead. After an eighth of the limit has been recorded
//!   meanwhile, its debt is no longer expected to be paid.
//! - A dead process is charged with what its pool holds. Its chunks are destroyed by age, like
//!   those of live processes, with [`Command::DestroyDead`]; a pool without chunks is dropped.
//! - A lowered limit is enforced by cuts, oldest data first. Until the processes have shown that
//!   they obey, [`Controller::over`] returns the excess. The debt of a stopped process is taken
//!   from the others at [`Event::Overdue`]. Live processes keep their floors: if the limit is below
//!   the sum of the floors, no process gets more memory and no process is admitted.
//! - A process whose pool occupies more than is charged for it ([`Event::Occupies`]) has broken the
//!   rule: only stray or hostile writes to its pool can cause this. Its *excess* is not taken from
//!   it, because it would not obey, but from the others, by age, so that the host's memory stays
//!   within the limit. At most half of the limit is taken in this way. Beyond that the limit is
//!   exceeded, and `over` reports it: otherwise one hostile process, which could take as much
//!   memory by other means anyway, could also destroy the data of all others.
//! - Each event costs O(log n) for n processes. A report of a process asks at most eight others.
//!   All processes can be asked only if memory is missing under the limit: after the limit was
//!   lowered, for the reserve for joins, or for an excess.

mod account;
mod accounts;
mod admission;
mod dead_pools;
mod limit;
mod messages;
mod pressure;
mod reclaim;
mod rows;
mod rule;

use std::collections::BTreeSet;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;

use account::Account;
use accounts::Accounts;
use reclaim::{Demand, Unused, reclaim};

pub(crate) use limit::MemoryLimit;
pub use messages::{Command, DeadPoolMemory, Event, Policy, ProcessFigures, Refusal};

/// The global controller. See the [module](self).
#[derive(Debug)]
pub struct Controller {
    limit: u64,
    policy: Policy,
    accounts: Accounts,
    /// Refused processes that try again; their floors are kept free.
    waiting: BTreeSet<PoolId>,
    /// Processes that have connected and were not lent the part of each process yet.
    lacking: Vec<PoolId>,
    /// Bytes recorded so far: the time of the accounts.
    now: u64,
}

impl Controller {
    /// Creates a controller for a session of at most `limit` bytes.
    pub fn new(limit: ByteLimit, policy: Policy) -> Self {
        let policy = Policy {
            page: if policy.page == 0 { 1 } else { policy.page },
            ..policy
        };
        let accounts = Accounts::new(policy.floor);
        Self {
            limit: limit.get(),
            policy,
            accounts,
            waiting: BTreeSet::new(),
            lacking: Vec::new(),
            now: 0,
        }
    }

    /// Processes one event and appends the resulting commands to `out`, in the order in which they
    /// must be carried out. Events about unknown processes change nothing.
    pub fn handle(&mut self, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Join { key } => self.join(key, out),
            Event::Connected { key } => self.connect(key, out),
            Event::Disconnected { key } => {
                self.accounts
                    .change(key, |account| account.set_connected(false));
            }
            Event::Update { key, update } => self.update(key, &update, out),
            Event::Died { key, pool } => self.bury(key, pool, out),
            Event::DeadDestroyed { key, held_bytes } => self.dead_destroyed(key, held_bytes, out),
            Event::Forgotten { key } => self.forget(key),
            Event::Occupies { key, true_bytes } => {
                self.accounts
                    .change(key, |account| account.occupies(true_bytes));
            }
            Event::Overdue => self.accounts.give_up_on_debts_before(None),
            Event::LimitChanged { limit } => self.limit = limit.get(),
        }
        self.take_missing(out);
    }

    /// The limit of the session.
    pub const fn limit(&self) -> ByteLimit {
        ByteLimit::new(self.limit)
    }

    /// The bytes that all processes may hold now, plus the bytes that some hold against the rule.
    pub const fn charged(&self) -> u64 {
        self.accounts
            .charged()
            .saturating_add(self.accounts.excess())
    }

    /// Bytes that may still be given.
    pub fn free(&self) -> u64 {
        self.limit
            .saturating_sub(self.accounts.charged().saturating_add(self.borne()))
    }

    /// The bytes by which `charged` exceeds the limit. 0 except in three cases: the limit was
    /// lowered and the processes have not shown yet that they obey; the floors alone exceed the
    /// limit; a process breaks the rule.
    pub const fn over(&self) -> u64 {
        self.charged().saturating_sub(self.limit)
    }

    /// The part of the excess that is taken from obedient processes.
    fn borne(&self) -> u64 {
        self.accounts.excess().min(rule::most_borne(self.limit))
    }

    /// The decided allowance of a process.
    pub fn allowance(&self, key: PoolId) -> Option<ByteLimit> {
        self.accounts
            .get(key)
            .map(|account| ByteLimit::new(account.target))
    }

    /// The figures of one process.
    pub fn figures(&self, key: PoolId) -> Option<ProcessFigures> {
        self.accounts.get(key).map(Account::figures)
    }

    /// The figures of the processes whose account was changed since the last call.
    pub fn take_changed_figures(&mut self) -> impl Iterator<Item = (PoolId, ProcessFigures)> {
        self.accounts
            .take_changed()
            .into_iter()
            .map(|(key, account)| (key, account.figures()))
    }

    /// The figures of all processes, in the order of their keys.
    pub fn all_figures(&self) -> impl Iterator<Item = (PoolId, ProcessFigures)> {
        self.accounts
            .iter()
            .map(|(key, account)| (key, account.figures()))
    }

    fn reserve(&self) -> u64 {
        rule::reserve(&self.policy, self.limit, self.waiting.len())
    }

    /// The free bytes that are not reserved for joins.
    fn spare(&self) -> u64 {
        rule::pages_down(self.free().saturating_sub(self.reserve()), self.policy.page)
    }

    fn pass_time(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
        let then = self.now.saturating_sub(rule::late_after(self.limit));
        self.accounts.give_up_on_debts_before(Some(then));
    }

    fn connect(&mut self, key: PoolId, out: &mut Vec<Command>) {
        self.accounts
            .change(key, |account| account.set_connected(true));
        self.note_connected(key);
        self.lend_parts(out);
        self.send(key, out);
    }

    fn send(&mut self, key: PoolId, out: &mut Vec<Command>) {
        let sent = self
            .accounts
            .change(key, |account| (account.send(), account.provoke()));
        let (allowance, provoked) = sent.unwrap_or_default();
        out.extend(allowance.map(|allowance| Command::Await { key, allowance }));
        if provoked {
            out.push(Command::Destroy {
                key,
                at_or_before: Timestamp::ZERO,
            });
        }
    }

    fn update(&mut self, key: PoolId, update: &Update, out: &mut Vec<Command>) {
        if !self.accounts.get(key).is_some_and(Account::is_alive) {
            return;
        }
        let recorded = update
            .newly_released
            .iter()
            .fold(0_u64, |sum, chunk| sum.saturating_add(chunk.bytes));
        let recorded = recorded.min(self.limit);
        self.pass_time(recorded);
        let has_paid = self.settle(key, |account, now, page| account.learn(update, now, page));
        let has_asked = self.serve(key, update.wanted_bytes, recorded, out);
        // Not if data was asked for: a process that is asked twice would keep data older than that.
        if has_paid && !has_asked {
            self.lend_parts(out);
        }
        self.send(key, out);
    }

    /// The bytes by which charged memory and the reserve for joins exceed the limit once all
    /// expected debts are paid.
    fn missing(&self) -> u64 {
        let expected = self.accounts.expected().saturating_add(self.borne());
        expected
            .saturating_add(self.reserve())
            .saturating_sub(self.limit)
    }

    /// Takes the missing bytes from all processes: after the limit was lowered, or for the reserve.
    fn take_missing(&mut self, out: &mut Vec<Command>) {
        let demand = Demand {
            bytes: self.missing(),
            older_than: Timestamp::MAX,
            unused: Unused::All,
            creditor: None,
            owners: usize::MAX,
        };
        if demand.bytes > 0 {
            reclaim(&mut self.accounts, &demand, &self.policy, self.now, out);
        }
    }

    fn forget(&mut self, key: PoolId) {
        self.waiting.remove(&key);
        self.settle(key, |account, _, _| account.found(0));
        self.accounts.remove(key);
    }
}
