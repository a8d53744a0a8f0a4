//! Counters: numbers that any thread changes and the profile shows.
//!
//! A counter is a static. It gets a cell in the pool's live tables when it is first changed in a
//! session, so the parent can read it at any time, also after the process has died. Invariants:
//! nothing here waits for a lock, because a global allocator may change a counter while the same
//! thread makes the counter's cell; the first change retries a fixed number of times; amounts added
//! before the cell exists are kept in [`PendingSum`] and moved to the cell once it exists, by the
//! thread that made the cell or by the thread that added them.

use crate::definition_cell::DefinitionCell;
use crate::ids::{CounterIndex, DefinitionId};
use crate::manager::{ChunkManager, ChunkManagerState};
use crate::pending_sum::PendingSum;
use crate::pool::definitions::{CounterDefinition, Definition, GROUP_TRACK_CATEGORY};
use crate::pool::live::CounterCell;
use crate::record::backoff::spin_then_yield;
use crate::record::{local, session_state};

/// A counter.
///
/// The viewer draws the category "Memory" as accumulated bytes, "Bandwidth" as bytes per second,
/// and any other category as a rate.
///
/// ```
/// use profiler_core::counter::Counter;
///
/// static BYTES_READ: Counter = Counter::new("Bytes read", "Bandwidth", "Bytes read from files");
/// BYTES_READ.add(4096);
/// ```
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    category: &'static str,
    description: &'static str,
    /// The number of the cell + 1, where other statics keep a definition's number.
    cell: DefinitionCell,
    /// Amounts added while the cell was unavailable, and the number of changes. `keep` adds to
    /// `changes` last; `put_waiting` takes from `changes` first.
    waiting: PendingSum,
    changes: PendingSum,
}

impl Counter {
    /// A counter that is zero when a session starts.
    pub const fn new(
        name: &'static str,
        category: &'static str,
        description: &'static str,
    ) -> Self {
        let waiting = PendingSum::new();
        let changes = PendingSum::new();
        Self {
            name,
            category,
            description,
            cell: DefinitionCell::new(),
            waiting,
            changes,
        }
    }

    /// Adds to the counter. While no session runs: one relaxed load, nothing counted.
    #[inline]
    pub fn add(&'static self, delta: i64) {
        let is_on = cfg!(feature = "enabled") && session_state::is_active();
        if is_on && !self.with_cell(|cell| cell.add(delta)) {
            self.keep(delta, 1);
        }
    }

    /// Adds to the counter, as this number of changes.
    pub(crate) fn add_many(&'static self, delta: i64, changes: u64) {
        let is_on = cfg!(feature = "enabled") && session_state::is_active();
        if is_on && !self.with_cell(|cell| cell.add_many(delta, changes)) {
            self.keep(delta, changes);
        }
    }

    /// Sets the counter.
    #[inline]
    pub fn set(&'static self, value: i64) {
        if cfg!(feature = "enabled") && session_state::is_active() {
            self.with_cell(|cell| cell.set(value));
        }
    }

    /// The counter's value since the session started; 0 while none runs.
    pub fn get(&'static self) -> i64 {
        let mut value = 0;
        if session_state::is_active() {
            self.with_cell(|cell| value = cell.get());
        }
        value
    }

    /// Creates the counter's cell, so that it is in the profile even if it never changes.
    pub fn register(&'static self) {
        if cfg!(feature = "enabled") && session_state::is_active() {
            self.with_cell(|_| {});
        }
    }

    /// Runs `body` with the cell. False if there is no cell and none can be made without waiting.
    fn with_cell(&'static self, body: impl FnOnce(&CounterCell)) -> bool {
        let found = local::with_manager(|manager| {
            let index = self.index(manager)?;
            let cell = manager.pool().counter(index)?;
            body(cell);
            if !self.changes.is_empty() {
                self.put_waiting(cell);
            }
            Some(())
        });
        found.is_some()
    }

    /// Keeps an amount that could not be added because the cell is being made: by another thread
    /// or, in a global allocator, by the calling thread.
    #[cold]
    fn keep(&self, delta: i64, changes: u64) {
        let session = session_state::epoch_of(session_state::word());
        self.waiting.add(session, delta);
        self.changes
            .add(session, i64::try_from(changes).unwrap_or(i64::MAX));
        // A thread that made the cell meanwhile may have collected before this: see `PendingSum`.
        let _ = local::with_manager(|manager| {
            let cell = manager
                .pool()
                .counter(cell_of(self.cell.get(manager.tag())?)?)?;
            self.put_waiting(cell);
            Some(())
        });
    }

    /// Moves the kept amounts of this session to the cell.
    #[cold]
    fn put_waiting(&self, cell: &CounterCell) {
        let session = session_state::epoch_of(session_state::word());
        let changes = u64::try_from(self.changes.take(session)).unwrap_or(0);
        let delta = self.waiting.take(session);
        if (delta, changes) != (0, 0) {
            cell.add_many(delta, changes);
        }
    }

    fn index(&self, manager: &ChunkManager) -> Option<CounterIndex> {
        self.cell
            .get(manager.tag())
            .or_else(|| self.register_in(manager))
            .and_then(cell_of)
    }

    #[cold]
    fn register_in(&self, manager: &ChunkManager) -> Option<DefinitionId> {
        // Never waits: this thread may hold the lock and allocate under it. The first change
        // retries a fixed number of times, because other threads hold the lock for microseconds
        // and a counter may change only once.
        let mut state = match self.changes.is_empty() {
            true => spin_then_yield(|| manager.try_lock())?,
            false => manager.try_lock()?,
        };
        if let Some(known) = self.cell.get(manager.tag()) {
            return Some(known); // another thread was faster
        }
        let cell = state.rows.add_counter(manager)?;
        let definition = Definition::Counter(CounterDefinition {
            cell,
            name: self.name.to_owned(),
            category: self.category.to_owned(),
            description: self.description.to_owned(),
        });
        let id = manager.pool().define(&definition).ok()?;
        let published = manager.pool().counter(cell)?;
        published.publish(id);
        let number = DefinitionId::new(cell.get().checked_add(1)?);
        self.cell.set(manager.tag(), number);
        // Called after the cell is published, even if no amount seems to be kept: a thread that
        // keeps an amount from now on finds the cell.
        self.put_waiting(published);
        Some(number)
    }
}

/// The cell of a stored number. The stored number is the cell's plus one.
fn cell_of(number: DefinitionId) -> Option<CounterIndex> {
    number.get().checked_sub(1).map(CounterIndex::new)
}

/// The counters that show a group over time: its time, in nanoseconds, and its ticks.
pub(crate) struct GroupTrack;

impl GroupTrack {
    /// Makes a counter; `None` if there is no room. The group changes it when it commits a run.
    pub(crate) fn add(
        manager: &ChunkManager,
        state: &mut ChunkManagerState,
        name: &str,
    ) -> Option<CounterIndex> {
        let cell = state.rows.add_counter(manager)?;
        let definition = Definition::Counter(CounterDefinition {
            cell,
            name: name.to_owned(),
            category: GROUP_TRACK_CATEGORY.to_owned(),
            description: "Time spent for this group by all threads".to_owned(),
        });
        let id = manager.pool().define(&definition).ok()?;
        manager.pool().counter(cell)?.publish(id);
        Some(cell)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::MutexGuard;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::reader::PoolReader;
    use crate::session::{self, Features, SessionParams, StartOptions};

    fn start() -> MutexGuard<'static, ()> {
        let alone = session::alone_in_tests();
        let params = SessionParams {
            features: Features::NO_SAMPLING,
            ..SessionParams::default()
        };
        session::start(params, StartOptions::default()).unwrap();
        // Otherwise the maintenance thread may hold the lock that makes a cell.
        let is_idle = || local::is_maintenance_idle() == Some(true);
        assert!(test_support::patience::until(is_idle));
        alone
    }

    /// The value and changes as read from the pool.
    fn in_pool(name: &str) -> Option<(i64, u64)> {
        let snapshot = PoolReader::open(session::pool_file().unwrap())
            .unwrap()
            .snapshot()
            .unwrap();
        let found = snapshot
            .counters
            .iter()
            .find(|counter| counter.definition.name == name);
        found.map(|counter| (counter.value, counter.number))
    }

    #[test]
    fn amounts_kept_before_and_after_the_cell_is_made_are_moved_to_it() {
        static LATE: Counter = Counter::new("late", "", "");
        let _alone = start();
        LATE.keep(5, 2);
        assert_eq!(in_pool("late"), None);
        LATE.register();
        assert_eq!(
            in_pool("late"),
            Some((5, 2)),
            "moved by the thread that makes the cell"
        );
        LATE.keep(-7, 1); // of a thread that has not yet seen the cell
        assert_eq!(in_pool("late"), Some((-2, 3)), "moved by the late thread");
        session::stop();
    }

    #[test]
    fn an_amount_kept_while_another_thread_makes_the_cell_is_not_lost() {
        const COUNTERS: usize = 1000;
        static BOTH: [Counter; COUNTERS] = [const { Counter::new("both", "", "") }; COUNTERS];
        static ARRIVED: AtomicUsize = AtomicUsize::new(0);
        let _alone = start();
        let each = |act: fn(&'static Counter), delay: fn(usize) -> usize| {
            for (index, counter) in BOTH.iter().enumerate() {
                ARRIVED.fetch_add(1, Ordering::AcqRel);
                let tries =
                    (1_u32..).take_while(|_| ARRIVED.load(Ordering::Acquire) < 2 * (index + 1));
                tries
                    .filter(|tries| tries % 1000 == 0)
                    .for_each(|_| std::thread::yield_now());
                // The delay varies which of the two threads is first.
                (0..delay(index)).for_each(|step| _ = std::hint::black_box(step));
                act(counter);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| each(|counter| counter.keep(1, 1), |index| index % 50 * 100));
            each(Counter::register, |_| 0);
        });
        let is_lost = |counter: &&Counter| {
            let placed = local::with_manager(|manager| {
                let cell = manager
                    .pool()
                    .counter(cell_of(counter.cell.get(manager.tag())?)?)?;
                Some(cell.get())
            });
            // There is no cell if another thread held the manager's lock.
            (placed.unwrap_or(0), counter.waiting.peek())
                != if placed.is_some() { (1, 0) } else { (0, 1) }
        };
        assert_eq!(BOTH.iter().filter(is_lost).count(), 0);
        session::stop();
    }
}
