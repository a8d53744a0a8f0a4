//! The room that is left in the sums and trees of all processes.
//!
//! Used by [`super::Weights`], and by the trees of stacks. Invariant: the room that was taken and
//! not given back is at most the initial room.

/// The number of cells and nodes that may still be added, for all processes together.
#[derive(Debug)]
pub(crate) struct Room {
    pub(super) cells: usize,
    pub(super) nodes: usize,
    /// Limit on the cells of one process, so that one process cannot take all.
    pub(super) share: usize,
}

impl Room {
    /// Room for this number of cells and of nodes of trees.
    pub(crate) const fn of(cells: usize, nodes: usize) -> Self {
        Self {
            cells,
            nodes,
            share: usize::MAX,
        }
    }

    /// Limits the cells of each process from now on.
    pub(crate) const fn set_share(&mut self, cells: usize) {
        self.share = cells;
    }

    /// Gives back the room of a process whose sums are dropped.
    pub(crate) const fn give_back(&mut self, cells: usize, nodes: usize) {
        self.cells = self.cells.saturating_add(cells);
        self.nodes = self.nodes.saturating_add(nodes);
    }

    /// Takes the room of a cell, if there is some.
    pub(super) fn take_cell(&mut self) -> bool {
        take_one(&mut self.cells)
    }

    /// Takes the room of a node, if there is some.
    pub(crate) fn take_node(&mut self) -> bool {
        take_one(&mut self.nodes)
    }
}

fn take_one(count: &mut usize) -> bool {
    let left = count.checked_sub(1);
    *count = left.unwrap_or(0);
    left.is_some()
}
