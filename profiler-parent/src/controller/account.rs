//! The account of one process: what it may hold, what it was told, what it showed.
//!
//! Used by `accounts` and changed through it only. Invariants:
//!
//! - `booked` is at least what the process may hold now: the greatest of what it was last seen
//!   to obey (`shown`), what it was sent since (`sent`), what is decided (`target`) and what it held.
//!   What a process holds beyond that, against the rule, is its `excess`, and stands beside it.
//! - Between `shown` and `sent` allowances only rose or only fell. So the allowance in a report
//!   tells without a sequence number how far the process has got: no value occurs twice.

use std::cmp::Ordering;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;

use super::messages::{DeadPool, ProcessFigures};
use super::rows::Rows;
use super::rule;

/// How a process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Alive, no control channel (not yet, or no longer).
    Unreachable,
    /// Alive, with a control channel.
    Connected,
    /// Dead, its pool is in the parent's hands.
    Dead,
    /// Dead, its pool is being closed.
    Dropping,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) life: Life,
    pub(super) target: u64,
    sent: u64,
    shown: u64,
    unreleased: u64,
    released: u64,
    listed: Rows,
    awaiting: bool,
    destroying: bool,
    /// The books' time of its latest report.
    pub(super) heard: u64,
    /// The books' time when it was asked to give something back.
    pub(super) asked: u64,
    /// It owes for so long that nobody counts on it any more.
    pub(super) late: bool,
    /// For whom it was asked.
    pub(super) creditor: Option<PoolId>,
    /// Bytes that others were asked to give back for it.
    pub(super) coming: u64,
    /// What its pool really occupies beyond all that is booked for it.
    excess: u64,
    /// It stands on the list of those whose books have changed.
    pub(super) is_listed_as_changed: bool,
}

impl Account {
    /// A process that may be spawned with `allowance`.
    pub(super) fn admitted(allowance: u64, now: u64) -> Self {
        Self {
            life: Life::Unreachable,
            target: allowance,
            sent: allowance,
            shown: allowance,
            unreleased: 0,
            released: 0,
            listed: Rows::default(),
            awaiting: false,
            destroying: false,
            heard: now,
            asked: now,
            late: false,
            creditor: None,
            coming: 0,
            excess: 0,
            is_listed_as_changed: false,
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.unreleased.saturating_add(self.released)
    }

    pub(super) fn booked(&self) -> u64 {
        self.target.max(self.sent).max(self.shown).max(self.held())
    }

    pub(super) fn owed(&self) -> u64 {
        self.booked().saturating_sub(self.target)
    }

    /// What it holds against the rule.
    pub(super) const fn excess(&self) -> u64 {
        self.excess
    }

    pub(super) const fn is_alive(&self) -> bool {
        matches!(self.life, Life::Unreachable | Life::Connected)
    }

    /// Whether it may be asked to give something back: it answers, it owes nothing, and it obeys.
    pub(super) fn can_be_asked(&self) -> bool {
        let answers = matches!(self.life, Life::Connected | Life::Dead) && !self.destroying;
        answers && self.may_be_served()
    }

    /// Whether it may be given something: whoever owes, or takes against the rule, is not.
    pub(super) fn may_be_served(&self) -> bool {
        self.owed() == 0 && self.excess == 0
    }

    /// Its chunks that are not being destroyed, oldest first.
    pub(super) const fn listed(&self) -> &Rows {
        &self.listed
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.listed.first().map(|chunk| chunk.done)
    }

    /// What it has been granted and does not hold.
    pub(super) fn unused(&self) -> u64 {
        self.target.saturating_sub(self.held())
    }

    /// The part of it that is more than room for another chunk like the latest.
    pub(super) fn spare(&self) -> u64 {
        self.unused().saturating_sub(self.listed.last().map_or(0, |chunk| chunk.bytes))
    }

    /// The smallest allowance that a command may leave it.
    pub(super) const fn least(&self, floor: u64) -> u64 {
        match self.life {
            Life::Unreachable | Life::Connected => floor,
            Life::Dead | Life::Dropping => self.unreleased,
        }
    }

    /// Opens or closes its control channel. What was outstanding on the old one is void, and a new one
    /// begins with a report that lists everything.
    pub(super) fn set_connected(&mut self, connected: bool) {
        if self.is_alive() {
            self.life = if connected { Life::Connected } else { Life::Unreachable };
            if connected {
                self.listed = Rows::default();
            }
            self.awaiting = false;
            self.destroying = false;
        }
    }

    /// Takes in a report.
    pub(super) fn learn(&mut self, update: &Update, now: u64, page: u64) {
        self.awaiting = false;
        self.destroying = false;
        self.heard = now;
        let most = self.booked();
        self.learn_allowance(update.allowance.get());
        self.unreleased = update.unreleased_bytes.min(most);
        self.released = update.released_bytes.min(most - self.unreleased);
        self.learn_chunks(update);
        self.give_back_what_cannot_be_freed(most, page);
        if self.owed() == 0 {
            self.late = false;
            self.listed.sum_up_to(self.released, update.oldest_done);
        }
        // No process makes the parent keep more rows than it has pages.
        self.listed.limit(usize::try_from(self.held() / page).unwrap_or(usize::MAX));
    }

    fn learn_allowance(&mut self, obeyed: u64) {
        let (low, high) = (self.sent.min(self.shown), self.sent.max(self.shown));
        self.shown = obeyed.clamp(low, high);
    }

    fn learn_chunks(&mut self, update: &Update) {
        self.listed.drop_before(update.oldest_done);
        for chunk in update.newly_released.iter().filter(|chunk| chunk.bytes > 0) {
            self.listed.insert(*chunk);
        }
    }

    /// A process that obeys but cannot get below what its threads write to would owe for ever
    /// and drop entries; it keeps what it cannot give.
    fn give_back_what_cannot_be_freed(&mut self, most: u64, page: u64) {
        if self.shown == self.sent && self.sent == self.target && self.unreleased > self.target {
            self.target = rule::pages_up(self.unreleased, page).min(most);
        }
    }

    /// The pool of the live process was seen to occupy `bytes`. Who obeys is never above the books.
    pub(super) fn occupies(&mut self, bytes: u64) {
        self.excess = if self.is_alive() { bytes.saturating_sub(self.booked()) } else { 0 };
    }

    /// Decides that it gives back `bytes` and loses its chunks up to `at_or_before`.
    pub(super) fn cut(&mut self, bytes: u64, at_or_before: Timestamp, now: u64, creditor: Option<PoolId>) {
        self.target = self.target.saturating_sub(bytes);
        self.listed.drop_at_or_before(at_or_before);
        self.destroying = true;
        self.asked = now;
        self.creditor = creditor;
    }

    /// The allowance of the next `Await`, if one may be sent. A change of direction waits until
    /// the process has shown the previous change.
    pub(super) fn send(&mut self) -> Option<ByteLimit> {
        if self.life != Life::Connected || self.awaiting {
            return None;
        }
        if !self.must_show_first() {
            self.sent = self.target;
        }
        self.awaiting = true;
        Some(ByteLimit::new(self.sent))
    }

    /// Whether the next change goes the other way than one that it has not shown yet.
    fn must_show_first(&self) -> bool {
        match self.target.cmp(&self.sent) {
            Ordering::Less => self.sent > self.shown,
            Ordering::Equal => false,
            Ordering::Greater => self.sent < self.shown,
        }
    }

    /// Whether it owes and has no reason to report: a raise makes no update of its own.
    pub(super) fn provoke(&mut self) -> bool {
        let silent = self.awaiting && !self.destroying && self.owed() > 0 && self.must_show_first();
        self.destroying |= silent;
        silent
    }

    /// The process is dead and left `pool`: it may hold exactly what it holds.
    pub(super) fn die(&mut self, pool: DeadPool) {
        self.life = Life::Dead;
        self.unreleased = pool.unreleased_bytes.min(pool.true_bytes);
        self.listed = Rows::of(pool.chunks);
        self.coming = 0;
        self.found(pool.true_bytes);
    }

    /// Its pool was seen to hold `held`.
    pub(super) fn found(&mut self, held: u64) {
        self.awaiting = false;
        self.destroying = false;
        self.late = false;
        self.excess = 0;
        self.unreleased = self.unreleased.min(held);
        self.released = held - self.unreleased;
        (self.target, self.sent, self.shown) = (held, held, held);
        let oldest = self.oldest();
        self.listed.sum_up_to(self.released, oldest);
    }

    /// Nothing in it is worth keeping: its pool is to be closed.
    pub(super) const fn start_dropping(&mut self) {
        self.life = Life::Dropping;
        self.target = 0;
    }

    pub(super) fn figures(&self) -> ProcessFigures {
        ProcessFigures {
            allowance: ByteLimit::new(self.target),
            booked: self.booked(),
            held: self.held(),
            excess: self.excess,
            released: self.released,
            oldest: self.oldest(),
            dead: !self.is_alive(),
            awaiting: self.awaiting,
            destroying: self.destroying,
            can_be_asked: self.can_be_asked(),
        }
    }
}
