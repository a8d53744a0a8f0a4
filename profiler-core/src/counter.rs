//! Counters: numbers that any thread changes and the profile shows.
//!
//! A counter is a static. It gets a cell in the pool's live tables when it is first changed in a
//! session, so the parent can read it at any time, also after the process has died.

use crate::definition_cell::DefinitionCell;
use crate::ids::{CounterIndex, DefinitionId};
use crate::manager::ChunkManager;
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
}

impl Counter {
    /// A counter that is zero when a session starts.
    pub const fn new(name: &'static str, category: &'static str, description: &'static str) -> Self {
        Self { name, category, description, cell: DefinitionCell::new() }
    }

    /// Adds to the counter. While no session runs: one relaxed load, nothing counted.
    #[inline]
    pub fn add(&'static self, delta: i64) {
        if cfg!(feature = "enabled") && gate::is_active() {
            self.with_cell(|cell| cell.add(delta));
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

    fn with_cell(&'static self, body: impl FnOnce(&CounterCell)) {
        local::with_manager(|manager| {
            let index = self.index(manager)?;
            manager.pool().counter(index).map(body)
        });
    }

    fn index(&self, manager: &ChunkManager) -> Option<CounterIndex> {
        let known = self.cell.get(manager.tag()).or_else(|| self.register_in(manager))?;
        known.get().checked_sub(1).map(CounterIndex::new)
    }

    #[cold]
    fn register_in(&self, manager: &ChunkManager) -> Option<DefinitionId> {
        let mut state = manager.lock();
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
