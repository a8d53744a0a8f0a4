//! The time that each stack of each thread took, by periods.
//!
//! Filled while a pool is read, summed up for a request. Invariants: the sum over all cells equals
//! the time that was added, except for the time that [`Weights::left_out`] counts; the periods of a
//! cell add up to its total to a microsecond, because the fractions are carried over; memory is
//! bounded by [`Room`].

mod cell;
mod room;

use crate::hash::FastMap;
use crate::stack_tree::NodeNumber;
use crate::window::{PeriodRange, length_ns};
use cell::Cell;
pub(crate) use room::Room;

/// Time on and off the processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) on_ns: u64,
    pub(crate) off_ns: u64,
}

impl Weight {
    /// Time on the processor.
    pub(crate) const fn on(on_ns: u64) -> Self {
        Self { on_ns, off_ns: 0 }
    }

    /// Time off the processor.
    pub(crate) const fn off(off_ns: u64) -> Self {
        Self { on_ns: 0, off_ns }
    }

    /// The sum of both.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            on_ns: self.on_ns.saturating_add(other.on_ns),
            off_ns: self.off_ns.saturating_add(other.off_ns),
        }
    }

    /// Whether there is any time.
    pub(crate) const fn is_zero(self) -> bool {
        self.on_ns == 0 && self.off_ns == 0
    }
}

/// Number of a thread in its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ThreadNumber(pub(crate) u32);

/// The time of one cell in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellWeight {
    pub(crate) thread: ThreadNumber,
    pub(crate) node: NodeNumber,
    pub(crate) weight: Weight,
}

/// The time of all stacks of one process.
#[derive(Debug, Default)]
pub(crate) struct Weights {
    cells: Vec<Cell>,
    index: FastMap<(ThreadNumber, NodeNumber), u32>,
    left_out: Weight,
}

impl Weights {
    /// Adds time that a thread spent at a stack, at one point in session time.
    pub(crate) fn add(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        at_ns: i64,
        weight: Weight,
        room: &mut Room,
    ) {
        match self.cell(thread, node, room) {
            Some(cell) => cell.add(at_ns, weight),
            None => self.left_out = self.left_out.plus(weight),
        }
    }

    /// Adds time off the processor that a thread spent at a stack, from one point in session time
    /// to another.
    pub(crate) fn add_wait(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        range: (i64, i64),
        room: &mut Room,
    ) {
        match self.cell(thread, node, room) {
            Some(cell) => cell.add_wait(range),
            None => self.left_out = self.left_out.plus(Weight::off(length_ns(range))),
        }
    }

    /// Takes the room of a thread's time without a stack: time for whose stack there is no room
    /// counts there.
    pub(crate) fn reserve(&mut self, thread: ThreadNumber, room: &mut Room) {
        let _ = self.place(thread, NodeNumber::NONE, room);
    }

    /// The cell of a stack; that of the thread without a stack if there is no room.
    fn cell(
        &mut self,
        thread: ThreadNumber,
        node: NodeNumber,
        room: &mut Room,
    ) -> Option<&mut Cell> {
        let place = self
            .place(thread, node, room)
            .or_else(|| self.place(thread, NodeNumber::NONE, room))?;
        self.cells.get_mut(place as usize)
    }

    fn place(&mut self, thread: ThreadNumber, node: NodeNumber, room: &mut Room) -> Option<u32> {
        if let Some(known) = self.index.get(&(thread, node)) {
            return Some(*known);
        }
        let has_share = node == NodeNumber::NONE || self.cells.len() < room.share;
        let place = u32::try_from(self.cells.len()).ok()?;
        if !has_share || !room.take_cell() {
            return None;
        }
        self.cells.push(Cell::new(thread, node));
        self.index.insert((thread, node), place);
        Some(place)
    }

    /// Number of cells, which were taken from the room.
    pub(crate) const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Frees what only adding needs.
    pub(crate) fn finish(&mut self) {
        self.index = FastMap::default();
        self.cells.shrink_to_fit();
    }

    /// Drops the periods that no window contains any more.
    pub(crate) fn forget_before(&mut self, now_ns: i64) {
        for cell in &mut self.cells {
            cell.forget_before(now_ns);
        }
    }

    /// The time of every cell in a range; `None` for all time.
    pub(crate) fn within(
        &self,
        range: Option<PeriodRange>,
    ) -> impl Iterator<Item = CellWeight> + '_ {
        self.cells.iter().map(move |cell| CellWeight {
            thread: cell.thread,
            node: cell.node,
            weight: cell.within(range.as_ref()),
        })
    }

    /// The time for which there was no room.
    pub(crate) const fn left_out(&self) -> Weight {
        self.left_out
    }
}

#[cfg(test)]
mod tests;
