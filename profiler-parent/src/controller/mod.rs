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
//! 2. unused allowance of processes that have been quiet while others recorded much;
//! 3. the oldest data of all processes, if it is older than the asker's own.
//!
//! For 2 and 3 the owners get `DestroyReleasedChunksAtOrBefore` and a smaller allowance. Exactly
//! the chunks older than the asker's are taken, merged over all owners by age, so a process with
//! little data is never emptied to feed one step of a large one. All processes end up keeping about
//! the same span of time.
//!
//! # Why slow and fast processes keep similar spans
//!
//! The fairness of the rule is limited by the size of chunks: a process cannot keep less than its
//! open chunk, and loses its data a chunk at a time. With chunks of one size, a process that
//! records at a hundredth of another's rate keeps one chunk that is a quarter of the common span,
//! or loses it: the plain model of the rule gives 0.36 to 0.53 (shortest ÷ longest span, rates
//! 1:2:…:128). The rule therefore relies on the processes:
//!
//! - The size of a thread's chunks follows its rate and stays below a sixteenth of the allowance
//!   (`record::writer`), so a chunk is at most about a sixteenth of the span at any rate.
//! - A thread that falls idle does not keep a large chunk (`record::reclaim`), and the process
//!   keeps no unused stock.
//!
//! With that the same rates give 0.96 in the simulation (`tests/controller/steady.rs`; 0.86 with 64
//! KiB for all) and about 0.9 in real processes (`figures -- flood`). `rule` asks for whole chunks
//! at the age of the asker's own oldest. A process with few chunks gets one chunk ahead, because
//! losing one of eight chunks loses an eighth of the span.
//!
//! # The invariant, and why the bound is hard
//!
//! The *booked* bytes of a process are the most that it may hold now, as far as the controller can
//! tell: the greatest of the allowance it was last seen to obey, those sent since, the decided one,
//! and what it held. The invariant is **sum of booked ≤ limit**. Memory is given only if it is free
//! under that sum. So the true bytes stay below it, even if messages are late, lost or reordered
//! between processes: a process cannot hold more than its allowance, its allowance is one of those
//! booked, and their sum is within the limit.
//!
//! A raise is booked when it is decided, before it is sent. A cut stays booked at the old
//! value until an update shows the new one obeyed:
//!
//! ```text
//!   controller                               process             booked   allowance
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
//! in an update tells how far the process has got, without sequence numbers (see `account`).
//!
//! # Consequences
//!
//! - A process that does not answer is passed over: its debt stays booked, it is not asked again,
//!   and others serve. After an eighth of the limit has been recorded meanwhile, its debt is no
//!   longer expected to be paid.
//! - A dead process is booked with what its pool holds. Its chunks go by age, like those of live
//!   processes, by [`Command::DestroyDead`]; a pool without chunks is dropped.
//! - A lowered limit is enforced by cuts, oldest data first; until they are shown,
//!   [`Controller::over`] returns the excess. The debt of a stopped process is taken from the
//!   others at [`Event::Overdue`]. Live processes keep their floors: a limit below the sum of the
//!   floors (0 included) leaves all at their floors, gives nothing and admits no process.
//! - A process whose pool occupies more than is booked for it ([`Event::Occupies`]) has broken the
//!   rule: only wild or hostile writes can do that. Its *excess* is not taken from it, because it
//!   would not obey, but from the others, by age, so that the host's memory stays within the limit.
//!   At most half of the limit is taken in this way. Beyond that the limit is exceeded, and `over`
//!   reports it: otherwise one hostile process, which could take as much memory by other means
//!   anyway, could also destroy the data of all others.
//! - Each event costs O(log n) for n processes and asks at most a few of them; only a lowered limit
//!   may affect all.

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
use reclaim::{Demand, reclaim};

pub(crate) use limit::MemoryLimit;
pub use messages::{Command, DeadPoolMemory, Event, Policy, ProcessFigures, Refusal};

/// The global controller. See the module's head.
#[derive(Debug)]
pub struct Controller {
    limit: u64,
    policy: Policy,
    books: Accounts,
    /// Refused processes that try again; their floors are kept free.
    waiting: BTreeSet<PoolId>,
    /// Bytes recorded so far: the time of the accounts.
    now: u64,
}

impl Controller {
    /// A controller for a session of at most `limit` bytes.
    pub fn new(limit: ByteLimit, policy: Policy) -> Self {
        let policy = Policy { page: if policy.page == 0 { 1 } else { policy.page }, ..policy };
        let books = Accounts::new(policy.floor);
        Self { limit: limit.get(), policy, books, waiting: BTreeSet::new(), now: 0 }
    }

    /// Processes one event and appends the resulting commands to `out`, in the order in which they
    /// must be carried out. Events about unknown processes change nothing.
    pub fn handle(&mut self, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Join { key } => self.join(key, out),
            Event::Connected { key } => self.connect(key, out),
            Event::Disconnected { key } => {
                self.books.change(key, |account| account.set_connected(false));
            }
            Event::Update { key, update } => self.update(key, &update, out),
            Event::Died { key, pool } => self.bury(key, pool, out),
            Event::DeadDestroyed { key, held_bytes } => self.dead_destroyed(key, held_bytes, out),
            Event::Forgotten { key } => self.forget(key),
            Event::Occupies { key, true_bytes } => {
                self.books.change(key, |account| account.occupies(true_bytes));
            }
            Event::Overdue => self.books.give_up_on_debts_before(None),
            Event::LimitChanged { limit } => self.limit = limit.get(),
        }
        self.take_what_is_missing(out);
    }

    /// The limit of the session.
    pub const fn limit(&self) -> ByteLimit {
        ByteLimit::new(self.limit)
    }

    /// Sum of what all processes may hold now, and of what some hold against the rule.
    pub const fn booked(&self) -> u64 {
        self.books.booked().saturating_add(self.books.excess())
    }

    /// Bytes that may still be given.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.books.booked().saturating_add(self.borne()))
    }

    /// The bytes by which `booked` exceeds the limit. 0, except after the limit was lowered and
    /// until the processes have shown that they obey, where floors alone exceed the limit, or where
    /// a process breaks the rule.
    pub const fn over(&self) -> u64 {
        self.booked().saturating_sub(self.limit)
    }

    /// The part of all excess for which obedient processes make up.
    fn borne(&self) -> u64 {
        self.books.excess().min(rule::most_borne(self.limit))
    }

    /// The decided allowance of a process.
    pub fn allowance(&self, key: PoolId) -> Option<ByteLimit> {
        self.books.get(key).map(|account| ByteLimit::new(account.target))
    }

    /// The figures of one process.
    pub fn figures(&self, key: PoolId) -> Option<ProcessFigures> {
        self.books.get(key).map(Account::figures)
    }

    /// The figures of the processes whose account was changed since the last call.
    pub fn take_changed_figures(&mut self) -> impl Iterator<Item = (PoolId, ProcessFigures)> {
        self.books.take_changed().into_iter().map(|(key, account)| (key, account.figures()))
    }

    /// The figures of all processes, in the order of their keys.
    pub fn all_figures(&self) -> impl Iterator<Item = (PoolId, ProcessFigures)> {
        self.books.iter().map(|(key, account)| (key, account.figures()))
    }

    fn reserve(&self) -> u64 {
        rule::reserve(&self.policy, self.limit, self.waiting.len())
    }

    /// Free budget that is not kept for joins.
    fn spare(&self) -> u64 {
        rule::pages_down(self.free().saturating_sub(self.reserve()), self.policy.page)
    }

    fn pass_time(&mut self, bytes: u64) {
        self.now = self.now.saturating_add(bytes);
        let then = self.now.saturating_sub(rule::late_after(self.limit));
        self.books.give_up_on_debts_before(Some(then));
    }

    fn connect(&mut self, key: PoolId, out: &mut Vec<Command>) {
        self.books.change(key, |account| account.set_connected(true));
        self.send(key, out);
    }

    fn send(&mut self, key: PoolId, out: &mut Vec<Command>) {
        let sent = self.books.change(key, |account| (account.send(), account.provoke()));
        let (allowance, provoked) = sent.unwrap_or_default();
        out.extend(allowance.map(|allowance| Command::Await { key, allowance }));
        if provoked {
            out.push(Command::Destroy { key, at_or_before: Timestamp::ZERO });
        }
    }

    fn update(&mut self, key: PoolId, update: &Update, out: &mut Vec<Command>) {
        if !self.books.get(key).is_some_and(Account::is_alive) {
            return;
        }
        let recorded = update.newly_released.iter().fold(0_u64, |sum, chunk| sum.saturating_add(chunk.bytes));
        let recorded = recorded.min(self.limit);
        self.pass_time(recorded);
        self.settle(key, |account, now, page| account.learn(update, now, page));
        self.serve(key, update.wanted_bytes, recorded, out);
        self.send(key, out);
    }

    /// The bytes that, booked or kept for joins, exceed the limit once all expected debts are paid.
    fn missing(&self) -> u64 {
        let expected = self.books.expected().saturating_add(self.borne());
        expected.saturating_add(self.reserve()).saturating_sub(self.limit)
    }

    /// Takes from all processes what a lowered limit, or the reserve for joins, lacks.
    fn take_what_is_missing(&mut self, out: &mut Vec<Command>) {
        let demand = Demand {
            bytes: self.missing(),
            older_than: Timestamp::MAX,
            quiet_since: None,
            creditor: None,
            owners: usize::MAX,
        };
        if demand.bytes > 0 {
            reclaim(&mut self.books, &demand, &self.policy, self.now, out);
        }
    }

    fn forget(&mut self, key: PoolId) {
        self.waiting.remove(&key);
        self.settle(key, |account, _, _| account.found(0));
        self.books.remove(key);
    }
}
