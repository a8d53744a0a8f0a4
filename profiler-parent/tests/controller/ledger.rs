//! A simple model of the controller's account of one process: a list of all allowances that were
//! sent to it.
//!
//! Used by `world`, which compares the controller's accounts with it after every event. The model
//! has no increases, decreases or debts. A process may hold the largest allowance from the last one
//! that it obeyed to the last one on its way, or the bytes that it held.

use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{DeadPoolMemory, ProcessFigures};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sent: Vec<u64>,
    /// The index in `sent` of the allowance that the process was last seen to obey.
    seen: usize,
    unreleased: u64,
    released: u64,
    /// The oldest time in its last report or pool; `None` after some of its chunks were requested
    /// back.
    oldest: Option<Option<Timestamp>>,
    dead: bool,
}

impl Ledger {
    pub(crate) fn send(&mut self, allowance: u64) {
        self.sent.push(allowance);
    }

    pub(crate) fn ask_back(&mut self) {
        self.oldest = None;
    }

    pub(crate) fn report(&mut self, update: &Update) {
        let obeyed = update.allowance.get();
        let later = self.sent[self.seen..]
            .iter()
            .position(|sent| *sent == obeyed);
        self.seen +=
            later.unwrap_or_else(|| panic!("obeys {obeyed}, which was not sent: {self:?}"));
        (self.unreleased, self.released) = (update.unreleased_bytes, update.released_bytes);
        self.oldest = Some(update.oldest_done);
    }

    pub(crate) fn die(&mut self, pool: &DeadPoolMemory) {
        self.dead = true;
        self.unreleased = pool.unreleased_bytes;
        self.released = pool.true_bytes - pool.unreleased_bytes;
        self.oldest = Some(pool.chunks.first().map(|chunk| chunk.done));
    }

    pub(crate) fn destroyed(&mut self, held: u64) {
        self.released = held - self.unreleased;
    }

    fn held(&self) -> u64 {
        self.unreleased + self.released
    }

    fn charged(&self, target: u64) -> u64 {
        let obeys = if self.dead {
            0
        } else {
            self.sent[self.seen..].iter().copied().max().unwrap_or(0)
        };
        obeys.max(target).max(self.held())
    }

    /// Checks that the controller's account has the same values.
    pub(crate) fn check(&self, figures: &ProcessFigures) {
        assert_eq!(
            (figures.dead, figures.held),
            (self.dead, self.held()),
            "{self:?} {figures:?}"
        );
        assert_eq!(figures.released, self.released, "{self:?} {figures:?}");
        assert_eq!(
            figures.charged,
            self.charged(figures.allowance.get()),
            "{self:?} {figures:?}"
        );
        if let Some(oldest) = self.oldest.filter(|_| figures.owed() == 0) {
            assert_eq!(figures.oldest, oldest, "{self:?} {figures:?}");
        }
    }
}
