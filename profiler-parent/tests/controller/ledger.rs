//! A naive book-keeper: everything that was ever sent to one process, in a list.
//!
//! Used by `world`, which holds the controller's books against it after every event. It knows nothing of
//! rises, falls or debts: a process may hold the largest allowance from the one that it was last seen to
//! obey to the last one on its way, or what it held.

use profiler_core::internal::manager::update::Update;
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::{DeadPoolMemory, ProcessFigures};

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    sent: Vec<u64>,
    /// Place in `sent` of what it was last seen to obey.
    seen: usize,
    unreleased: u64,
    released: u64,
    /// What its report or its pool said last, until something of it is asked back.
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
        let later = self.sent[self.seen..].iter().position(|sent| *sent == obeyed);
        self.seen += later.unwrap_or_else(|| panic!("obeys {obeyed}, which was not sent: {self:?}"));
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

    fn booked(&self, target: u64) -> u64 {
        let obeys = if self.dead { 0 } else { self.sent[self.seen..].iter().copied().max().unwrap_or(0) };
        obeys.max(target).max(self.held())
    }

    /// The controller's books must say the same.
    pub(crate) fn check(&self, figures: &ProcessFigures) {
        assert_eq!((figures.dead, figures.held), (self.dead, self.held()), "{self:?} {figures:?}");
        assert_eq!(figures.released, self.released, "{self:?} {figures:?}");
        assert_eq!(figures.booked, self.booked(figures.allowance.get()), "{self:?} {figures:?}");
        if let Some(oldest) = self.oldest.filter(|_| figures.owed() == 0) {
            assert_eq!(figures.oldest, oldest, "{self:?} {figures:?}");
        }
    }
}
