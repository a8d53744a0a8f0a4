//! The numbers of stacks, and the table of their names.
//!
//! Used by [`super::samples`]. The number of a stack is FNV-1a (64 bits) over the number of its
//! caller's stack and the name of its function, so it is the same in every profile. Among ten
//! million different stacks, two have the same number with a probability of about one in 400,000.
//! Of a deep stack, the innermost [`MAX_FRAMES`] names are written, and [`CALLERS_LEFT_OUT`] as
//! their caller; the number is that of the whole stack. Invariant: each stack is written once per
//! batch and day.

use std::collections::HashSet;

use super::FleetTable;
use super::rows::{NS_OF_DAY, Rows};
use crate::ExportError;
use crate::call_tree::{CallId, CallTree};
use crate::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use crate::recording::Thread;
use crate::tree::What;

/// The number of the stack without functions, and the start of every number.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// The numbers of stacks. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// The stacks that the batch has already, by day: names are deleted with the samples of a day.
    written: HashSet<(i64, u64)>,
    /// By node of the present thread's tree.
    of_nodes: Vec<Option<u64>>,
    /// The nodes of a stack, the innermost first.
    path: Vec<(CallId, What)>,
}

impl Stacks {
    /// Begins a thread.
    pub(super) fn begin(&mut self) {
        self.of_nodes.clear();
    }

    /// The number of a node's stack. Writes the stack if the batch does not have it.
    pub(super) fn number(
        &mut self,
        tree: &CallTree<What, u64>,
        node: CallId,
        thread: &Thread<'_>,
        unix_ns: i64,
        rows: &mut Rows<'_>,
    ) -> Result<u64, ExportError> {
        let day = unix_ns.div_euclid(NS_OF_DAY);
        if let Some(number) = self
            .known(node)
            .filter(|number| self.written.contains(&(day, *number)))
        {
            return Ok(number);
        }
        let number = self.number_of(tree, node, thread);
        if self.written.insert((day, number)) {
            self.write(number, (tree, node), thread, unix_ns, rows)?;
        }
        Ok(number)
    }

    /// The number of a node's stack, from that of the nearest caller that has one.
    fn number_of(&mut self, tree: &CallTree<What, u64>, node: CallId, thread: &Thread<'_>) -> u64 {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let mut number = EMPTY;
        for (id, what) in functions(tree, node) {
            if let Some(known) = self.known(id) {
                number = known;
                break;
            }
            path.push((id, what));
        }
        for (id, what) in path.iter().rev() {
            number = below(number, name(*what, thread));
            self.note(*id, number);
        }
        self.path = path;
        number
    }

    fn known(&self, node: CallId) -> Option<u64> {
        *self.of_nodes.get(node.index())?
    }

    fn note(&mut self, node: CallId, number: u64) {
        let place = node.index();
        if place >= self.of_nodes.len() {
            self.of_nodes.resize(place + 1, None);
        }
        if let Some(noted) = self.of_nodes.get_mut(place) {
            *noted = Some(number);
        }
    }

    /// Writes a node's stack, the outermost function first.
    fn write(
        &mut self,
        number: u64,
        (tree, node): (&CallTree<What, u64>, CallId),
        thread: &Thread<'_>,
        unix_ns: i64,
        rows: &mut Rows<'_>,
    ) -> Result<(), ExportError> {
        let mut all = functions(tree, node);
        self.path.clear();
        self.path.extend(all.by_ref().take(MAX_FRAMES));
        let left_out = all.next().map(|_| CALLERS_LEFT_OUT);
        let path = self.path.iter().rev().map(|(_, what)| name(*what, thread));
        let names = left_out.into_iter().chain(path);
        rows.add(FleetTable::Stacks, unix_ns, |row| {
            row.entry_list("frames", names, |name, row| row.string(name));
            row.entry_u64("stack", number);
        })
    }
}

/// The functions of a node's stack, the innermost first.
fn functions(tree: &CallTree<What, u64>, node: CallId) -> impl Iterator<Item = (CallId, What)> {
    let callers = tree.callers(node).map(|(id, node)| (id, node.func));
    callers.filter(|(_, what)| *what != What::Root)
}

/// The name of a node: of its function, or `(idle)` or `(program)`.
fn name<'t>(what: What, thread: &Thread<'t>) -> &'t str {
    match what {
        What::Func(func) => thread
            .tables
            .function(func)
            .map_or("", |function| function.name),
        what => what.special().unwrap_or_default(),
    }
}

/// The number of the stack of a function that was called by the stack `caller`.
fn below(caller: u64, name: &str) -> u64 {
    let bytes = caller.to_le_bytes();
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().chain(name.as_bytes()).fold(EMPTY, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_stack_never_changes() {
        // Stored data has these numbers.
        let main = below(EMPTY, "main");
        assert_eq!(main, 0x6cd2_1bb0_41ec_3b19);
        assert_eq!(below(main, "run"), 0x00b1_85ad_a6d3_248a);
        assert_ne!(
            below(below(EMPTY, "a"), "bc"),
            below(below(EMPTY, "ab"), "c")
        );
    }
}
