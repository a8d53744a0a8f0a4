//! The account of one process: what it may hold, which allowances it was sent, and what it
//! reported.
//!
//! Used by `accounts` and changed through it only. Invariants:
//!
//! - `charged` is at least what the process may hold now: the greatest of the allowance it was last
//!   seen to obey (`shown`), those sent since (`sent`), the decided one (`target`) and what it
//!   held. What a process holds beyond that, against the rule, is its `excess`, which is kept
//!   separately.
//! - Between `shown` and `sent` allowances only rose or only fell. So the allowance in a report
//!   shows how far the process has got, without a sequence number, because no value occurs twice.

use std::cmp::Ordering;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;

use super::messages::{DeadPoolMemory, ProcessFigures};
use super::rows::Rows;
use super::rule;

/// How a process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Alive, no control channel (not yet, or no longer).
    Unreachable,
    /// Alive, with a control channel.
    Connected,
    /// Dead; the parent holds its pool.
    Dead,
    /// Dead, its pool is being closed.
    Dropping,
}

/// The account of one process. See the head of this file.
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
    /// Time of its latest report, in recorded bytes.
    pub(super) heard: u64,
    /// Time of the latest request to give memory back, in recorded bytes.
    pub(super) asked: u64,
    /// Whether its debt is so old that payment is no longer expected.
    pub(super) late: bool,
    /// The process for which it was last asked to give memory back.
    pub(super) creditor: Option<PoolId>,
    /// Bytes that others were asked to give back for it.
    pub(super) coming: u64,
    /// Bytes that its pool really occupies beyond everything charged for it.
    excess: u64,
    /// Whether it is in the list of changed accounts.
    pub(super) is_listed_as_changed: bool,
}

impl Account {
    /// The account of a process that may be spawned with `allowance`.
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

    pub(super) fn charged(&self) -> u64 {
        self.target.max(self.sent).max(self.shown).max(self.held())
    }

    pub(super) fn owed(&self) -> u64 {
        self.charged().saturating_sub(self.target)
    }

    /// The bytes that it holds against the rule.
    pub(super) const fn excess(&self) -> u64 {
        self.excess
    }

    pub(super) const fn is_alive(&self) -> bool {
        matches!(self.life, Life::Unreachable | Life::Connected)
    }

    /// Whether it may be asked to give memory back: it is connected, owes nothing, and obeys.
    pub(super) fn can_be_asked(&self) -> bool {
        let answers = matches!(self.life, Life::Connected | Life::Dead) && !self.destroying;
        answers && self.may_be_served()
    }

    /// Whether it may be given memory: it neither owes nor holds memory against the rule.
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

    /// The bytes that it has been granted and does not hold.
    pub(super) fn unused(&self) -> u64 {
        self.target.saturating_sub(self.held())
    }

    /// The part of the unused allowance beyond room for another chunk like the latest.
    pub(super) fn spare(&self) -> u64 {
        self.unused()
            .saturating_sub(self.listed.last().map_or(0, |chunk| chunk.bytes))
    }

    /// The part of the unused allowance beyond as much again as the process holds: what it was lent
    /// and does not need soon.
    pub(super) fn surplus(&self) -> u64 {
        self.unused().saturating_sub(self.held()).min(self.spare())
    }

    /// The smallest allowance that a command may leave it.
    pub(super) const fn least(&self, floor: u64) -> u64 {
        match self.life {
            Life::Unreachable | Life::Connected => floor,
            Life::Dead | Life::Dropping => self.unreleased,
        }
    }

    /// Opens or closes its control channel. Requests outstanding on the old channel are void; a new
    /// channel begins with a report that lists everything.
    pub(super) fn set_connected(&mut self, connected: bool) {
        if self.is_alive() {
            self.life = if connected {
                Life::Connected
            } else {
                Life::Unreachable
            };
            if connected {
                self.listed = Rows::default();
            }
            self.awaiting = false;
            self.destroying = false;
        }
    }

    /// Processes a report.
    pub(super) fn learn(&mut self, update: &Update, now: u64, page: u64) {
        self.awaiting = false;
        self.destroying = false;
        self.heard = now;
        let most = self.charged();
        self.learn_allowance(update.allowance.get());
        self.unreleased = update.unreleased_bytes.min(most);
        self.released = update.released_bytes.min(most - self.unreleased);
        self.learn_chunks(update);
        self.restore_unfreeable(most, page);
        if self.owed() == 0 {
            self.late = false;
            self.listed.sum_up_to(self.released, update.oldest_done);
        }
        // A process cannot make the parent keep more rows than the process has pages.
        self.listed
            .limit(usize::try_from(self.held() / page).unwrap_or(usize::MAX));
    }

    fn learn_allowance(&mut self, obeyed: u64) {
        let low = self.sent.min(self.shown);
        let high = self.sent.max(self.shown);
        self.shown = obeyed.clamp(low, high);
    }

    fn learn_chunks(&mut self, update: &Update) {
        self.listed.drop_before(update.oldest_done);
        for chunk in update.newly_released.iter().filter(|chunk| chunk.bytes > 0) {
            self.listed.insert(*chunk);
        }
    }

    /// Lets an obedient process keep memory that it cannot free: the chunks that its threads write
    /// to. Otherwise its debt would never be paid, and it would drop entries.
    fn restore_unfreeable(&mut self, most: u64, page: u64) {
        if self.shown == self.sent && self.sent == self.target && self.unreleased > self.target {
            self.target = rule::pages_up(self.unreleased, page).min(most);
        }
    }

    /// Notes that the pool of the live process occupies `bytes`. An obedient process never exceeds
    /// what is charged.
    pub(super) fn occupies(&mut self, bytes: u64) {
        self.excess = if self.is_alive() {
            bytes.saturating_sub(self.charged())
        } else {
            0
        };
    }

    /// Decides that it gives back `bytes` and loses its chunks up to `at_or_before`.
    pub(super) fn cut(
        &mut self,
        bytes: u64,
        at_or_before: Timestamp,
        now: u64,
        creditor: Option<PoolId>,
    ) {
        self.target = self.target.saturating_sub(bytes);
        self.listed.drop_at_or_before(at_or_before);
        self.destroying = true;
        self.asked = now;
        self.creditor = creditor;
    }

    /// The allowance of the next `Await`, if one may be sent. A change of direction waits until the
    /// process has shown the previous change.
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

    /// Whether the next change has the opposite direction of a change that it has not shown yet.
    fn must_show_first(&self) -> bool {
        match self.target.cmp(&self.sent) {
            Ordering::Less => self.sent > self.shown,
            Ordering::Equal => false,
            Ordering::Greater => self.sent < self.shown,
        }
    }

    /// Whether to send a `Destroy` that only asks for an update: the process owes, and a raise
    /// alone causes no update. Notes it as sent.
    pub(super) fn provoke(&mut self) -> bool {
        let silent = self.awaiting && !self.destroying && self.owed() > 0 && self.must_show_first();
        self.destroying |= silent;
        silent
    }

    /// Notes that the process is dead and left `pool`, which is charged from now on.
    pub(super) fn die(&mut self, pool: DeadPoolMemory) {
        self.life = Life::Dead;
        self.unreleased = pool.unreleased_bytes.min(pool.true_bytes);
        self.listed = Rows::new(pool.chunks);
        self.coming = 0;
        self.found(pool.true_bytes);
    }

    /// Notes that its pool holds `held` bytes.
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

    /// Marks its pool to be closed, because no data in it is worth keeping.
    pub(super) const fn start_dropping(&mut self) {
        self.life = Life::Dropping;
        self.target = 0;
    }

    pub(super) fn figures(&self) -> ProcessFigures {
        ProcessFigures {
            allowance: ByteLimit::new(self.target),
            charged: self.charged(),
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
