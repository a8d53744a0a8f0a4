//! Counters: numbers that any thread changes and the profile shows.
//!
//! A counter is a static. It gets a cell in the pool's live tables when it is first changed in a
//! session, so the parent can read it at any time, also after the process has died.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::definition_cell::DefinitionCell;
use crate::ids::{CounterIndex, DefinitionId};
use crate::manager::{ChunkManager, State};
use crate::pool::definitions::Definition;
use crate::pool::live::CounterCell;
use crate::record::{gate, local};

/// A counter.
///
/// The viewer draws the category "Memory" as accumulated bytes, "Bandwidth" as bytes per
/// second, and any other word as a rate.
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
    /// Number of the cell + 1, where other statics keep a definition's number.
    cell: DefinitionCell,
    /// What was added while the cell could not be had at once; it goes there with the next change.
    waiting: AtomicI64,
    /// The session that `waiting` belongs to.
    waiting_in: AtomicU64,
}

impl Counter {
    /// A counter that is zero when a session starts.
    pub const fn new(name: &'static str, category: &'static str, description: &'static str) -> Self {
        let (waiting, waiting_in) = (AtomicI64::new(0), AtomicU64::new(0));
        Self { name, category, description, cell: DefinitionCell::new(), waiting, waiting_in }
    }

    /// Adds to the counter. While no session runs: one relaxed load, nothing counted.
    #[inline]
    pub fn add(&'static self, delta: i64) {
        let is_on = cfg!(feature = "enabled") && gate::is_active();
        if is_on && !self.with_cell(|cell| cell.add(delta)) {
            self.keep(delta);
        }
    }

    /// The same, for so many changes at once.
    pub(crate) fn add_many(&'static self, delta: i64, changes: u64) {
        let is_on = cfg!(feature = "enabled") && gate::is_active();
        if is_on && !self.with_cell(|cell| cell.add_many(delta, changes)) {
            self.keep(delta);
        }
    }

    /// Sets the counter.
    #[inline]
    pub fn set(&'static self, value: i64) {
        if cfg!(feature = "enabled") && gate::is_active() {
            self.with_cell(|cell| cell.set(value));
        }
    }

    /// The counter's value since the session started; 0 while none runs.
    pub fn get(&'static self) -> i64 {
        let mut value = 0;
        if gate::is_active() {
            self.with_cell(|cell| value = cell.get());
        }
        value
    }

    /// Makes the counter known, so that it is in the profile even if it never changes.
    pub fn register(&'static self) {
        if cfg!(feature = "enabled") && gate::is_active() {
            self.with_cell(|_| {});
        }
    }

    /// Runs `body` with the cell; false if there is none, or not at once.
    fn with_cell(&'static self, body: impl FnOnce(&CounterCell)) -> bool {
        let found = local::with_manager(|manager| {
            let index = self.index(manager)?;
            let cell = manager.pool().counter(index)?;
            body(cell);
            if self.waiting.load(Ordering::Relaxed) != 0 {
                self.put_waiting(cell);
            }
            Some(())
        });
        found.is_some()
    }

    /// Remembers what could not be added: the cell is being made, by another thread or, in a
    /// global allocator, by this very one.
    #[cold]
    fn keep(&self, delta: i64) {
        let session = gate::epoch_of(gate::word());
        if self.waiting_in.swap(session, Ordering::Relaxed) != session {
            self.waiting.store(0, Ordering::Relaxed);
        }
        self.waiting.fetch_add(delta, Ordering::Relaxed);
    }

    #[cold]
    fn put_waiting(&self, cell: &CounterCell) {
        let waiting = self.waiting.swap(0, Ordering::Relaxed);
        if self.waiting_in.load(Ordering::Relaxed) == gate::epoch_of(gate::word()) {
            cell.add(waiting);
        }
    }

    fn index(&self, manager: &ChunkManager) -> Option<CounterIndex> {
        let known = self.cell.get(manager.tag()).or_else(|| self.register_in(manager))?;
        known.get().checked_sub(1).map(CounterIndex::new)
    }

    #[cold]
    fn register_in(&self, manager: &ChunkManager) -> Option<DefinitionId> {
        // Never waits: the holder may be this thread, allocating under the lock.
        let mut state = manager.try_lock()?;
        if let Some(known) = self.cell.get(manager.tag()) {
            return Some(known); // another thread was faster
        }
        let cell = state.rows.add_counter(manager)?;
        let definition = Definition::Counter {
            cell,
            name: self.name.to_owned(),
            category: self.category.to_owned(),
            description: self.description.to_owned(),
        };
        let id = manager.pool().define(&definition).ok()?;
        manager.pool().counter(cell)?.publish(id);
        let number = DefinitionId::new(cell.get().checked_add(1)?);
        self.cell.set(manager.tag(), number);
        Some(number)
    }
}

/// The counter that shows a group over time: its time, in nanoseconds, and its ticks.
pub(crate) struct GroupTrack;

impl GroupTrack {
    /// Viewers' kind of these counters.
    pub(crate) const CATEGORY: &'static str = "Group";

    /// Makes a counter; `None` if there is no room. The group's owner changes it.
    pub(crate) fn add(manager: &ChunkManager, state: &mut State, name: &str) -> Option<CounterIndex> {
        let cell = state.rows.add_counter(manager)?;
        let definition = Definition::Counter {
            cell,
            name: name.to_owned(),
            category: Self::CATEGORY.to_owned(),
            description: "Time spent for this group by all threads, in nanoseconds".to_owned(),
        };
        let id = manager.pool().define(&definition).ok()?;
        manager.pool().counter(cell)?.publish(id);
        Some(cell)
    }
}
