//! Adds the costs of stacks up to the functions that are on them.
//!
//! Used by `functions`, for one block of samples after the other. Every stack of the table is a node
//! of a tree, below the stack of its caller. The cost of a function, with all its callees, is the sum
//! of the nodes below its outermost calls, so a recursive function counts once. Each node is visited
//! once per block, however deep the stacks are.

use profiler_reader::{NodeId, Tables};

use super::cost::Cost;

/// The sums of one block.
#[derive(Debug)]
pub(super) struct StackSums<'t> {
    tables: &'t Tables,
    /// By function of the tables: its number.
    numbers: &'t [Option<usize>],
    /// By node: the cost of the block so far, of the node itself and then also of those below it.
    costs: Vec<Cost>,
    /// By node: the number of the last block that has cost in it or below it.
    blocks: Vec<u32>,
    block: u32,
    /// The nodes with cost in the present block.
    nodes: Vec<NodeId>,
    /// By node: whether no caller has the same function; `None` if it is not known.
    outermost: Vec<Option<bool>>,
    /// The nodes that were visited, for a test of the work.
    steps: u64,
}

impl<'t> StackSums<'t> {
    pub(super) fn new(tables: &'t Tables, numbers: &'t [Option<usize>]) -> Self {
        let count = tables.node_count();
        Self {
            tables,
            numbers,
            costs: vec![Cost::default(); count],
            blocks: vec![0; count],
            block: 1,
            nodes: Vec::new(),
            outermost: vec![None; count],
            steps: 0,
        }
    }

    /// The nodes that were visited.
    #[cfg(test)]
    const fn steps(&self) -> u64 {
        self.steps
    }

    /// Adds the cost of a stack. Returns the number of its innermost function.
    pub(super) fn add(&mut self, stack: NodeId, cost: Cost) -> Option<usize> {
        let innermost = self.tables.named(stack)?;
        *self.costs.get_mut(innermost.0 as usize)? += cost;
        let mut number = None;
        for (node, func) in self.tables.named_nodes(innermost) {
            self.steps += 1;
            number = number.or_else(|| self.numbers.get(func.0 as usize).copied().flatten());
            let Some(block) = self.blocks.get_mut(node.0 as usize) else {
                break;
            };
            if std::mem::replace(block, self.block) == self.block {
                break; // and so are its callers
            }
            self.nodes.push(node);
        }
        number
    }

    /// Passes the total of every function in the block, in parts, and begins another block.
    pub(super) fn take(&mut self, mut each: impl FnMut(usize, Cost)) {
        // A caller comes before its callees in the table.
        let mut nodes = std::mem::take(&mut self.nodes);
        nodes.sort_unstable();
        self.find_outermost(&nodes);
        for node in nodes.drain(..).rev() {
            self.steps += 1;
            let place = node.0 as usize;
            let cost = self.costs.get_mut(place).map(std::mem::take);
            let cost = cost.unwrap_or_default();
            let mut callers = self.tables.named_nodes(node);
            let number = callers.next().and_then(|(_, func)| {
                let number = self.numbers.get(func.0 as usize).copied();
                number.flatten()
            });
            if let Some(number) = number.filter(|_| self.outermost.get(place) == Some(&Some(true)))
            {
                each(number, cost);
            }
            if let Some((caller, _)) = callers.next()
                && let Some(sum) = self.costs.get_mut(caller.0 as usize)
            {
                *sum += cost;
            }
        }
        self.nodes = nodes;
        self.block += 1;
    }

    /// Finds which of these nodes, in the order of the table, have no caller with the same function.
    fn find_outermost(&mut self, nodes: &[NodeId]) {
        let is_new = |node: &&NodeId| self.outermost.get(node.0 as usize) == Some(&None);
        let new: Vec<NodeId> = nodes.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return;
        }
        let walk = OutermostWalk::of(self.tables, self.numbers, nodes);
        self.steps += walk.visit(|node, is_outermost| {
            if let Some(place) = self.outermost.get_mut(node.0 as usize) {
                *place = Some(is_outermost);
            }
        });
    }
}

/// A walk of the tree in depth, with the functions that are open.
#[derive(Debug)]
struct OutermostWalk<'t> {
    tables: &'t Tables,
    numbers: &'t [Option<usize>],
    /// The nodes that no other one calls.
    roots: Vec<NodeId>,
    /// The callees of each node, by the place of the node among the nodes.
    callees: std::collections::HashMap<NodeId, Vec<NodeId>>,
}

impl<'t> OutermostWalk<'t> {
    fn of(tables: &'t Tables, numbers: &'t [Option<usize>], nodes: &[NodeId]) -> Self {
        let mut walk = Self {
            tables,
            numbers,
            roots: Vec::new(),
            callees: std::collections::HashMap::new(),
        };
        for node in nodes {
            match tables.named_nodes(*node).nth(1) {
                Some((caller, _)) => walk.callees.entry(caller).or_default().push(*node),
                None => walk.roots.push(*node),
            }
        }
        walk
    }

    /// Passes each node, and whether no caller has its function. Returns the number of steps.
    fn visit(mut self, mut each: impl FnMut(NodeId, bool)) -> u64 {
        let mut open = vec![0_u32; self.numbers.iter().flatten().max().map_or(0, |max| max + 1)];
        // A node to enter, or one to leave.
        let mut left: Vec<(NodeId, bool)> = Vec::new();
        left.extend(self.roots.iter().map(|node| (*node, true)));
        let mut steps = 0;
        while let Some((node, is_entered)) = left.pop() {
            steps += 1;
            let func = self.tables.named_nodes(node).next();
            let number = func.and_then(|(_, func)| self.numbers.get(func.0 as usize).copied());
            let count = number.flatten().and_then(|number| open.get_mut(number));
            if !is_entered {
                count.into_iter().for_each(|count| *count -= 1);
                continue;
            }
            each(node, count.as_ref().is_some_and(|count| **count == 0));
            count.into_iter().for_each(|count| *count += 1);
            left.push((node, false));
            let callees = self.callees.remove(&node).unwrap_or_default();
            left.extend(callees.into_iter().map(|node| (node, true)));
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use profiler_reader::{Frame, FrameId, Func, FuncId, Node, TextId};
    use proptest::prelude::*;

    use super::*;

    /// Nodes by their caller and their function; functions have names.
    fn tables(nodes: &[(Option<u32>, u32)], funcs: u32) -> Tables {
        let nodes = nodes.iter().map(|(caller, func)| Node {
            caller: caller.map(NodeId),
            frame: FrameId(*func),
        });
        let frame = |func| Frame {
            func: FuncId(func),
            line: None,
            address: None,
        };
        let func = |name| Func {
            name: TextId(name),
            file: None,
            line: None,
            column: None,
            library: None,
        };
        let names = (0..funcs).map(|func| format!("f{func}"));
        Tables::new(
            nodes.collect(),
            (0..funcs).map(frame).collect(),
            (0..funcs).map(func).collect(),
            names.collect(),
        )
    }

    fn samples(samples: f64) -> Cost {
        Cost {
            samples,
            ..Cost::default()
        }
    }

    /// The totals of each function in each block, and the steps.
    fn totals(tables: &Tables, funcs: usize, blocks: &[Vec<u32>]) -> (Vec<Vec<f64>>, u64) {
        let numbers: Vec<Option<usize>> = (0..funcs).map(Some).collect();
        let mut sums = StackSums::new(tables, &numbers);
        let mut all = Vec::new();
        for block in blocks {
            for stack in block {
                sums.add(NodeId(*stack), samples(1.0));
            }
            let mut totals = vec![0.0; funcs];
            sums.take(|number, cost| totals[number] += cost.samples);
            all.push(totals);
        }
        (all, sums.steps())
    }

    #[test]
    fn the_work_grows_with_the_number_of_stacks_and_not_with_their_depth() {
        let steps = |count: u32| {
            let chain: Vec<_> = (0..count)
                .map(|row| (row.checked_sub(1), row % 7))
                .collect();
            let tables = tables(&chain, 7);
            let block: Vec<u32> = (0..count).collect();
            totals(&tables, 7, &[block.clone(), block]).1
        };
        let (few, many) = (steps(1_000), steps(10_000));
        assert!(many <= few * 11, "{few} and {many} steps");
    }

    proptest! {
        #[test]
        fn totals_are_those_of_counting_each_stack(
            nodes in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u32), 1..40),
            blocks in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..20), 1..4),
        ) {
            let callers = |(row, (caller, func)): (usize, &(prop::sample::Index, u32))| {
                let caller = caller.index(row + 1).checked_sub(1);
                (caller.map(|caller| caller as u32), *func)
            };
            let rows: Vec<_> = nodes.iter().enumerate().map(callers).collect();
            let blocks: Vec<Vec<u32>> = blocks
                .iter()
                .map(|block| block.iter().map(|index| index.index(rows.len()) as u32).collect())
                .collect();
            let tables = tables(&rows, 4);
            for (block, found) in blocks.iter().zip(totals(&tables, 4, &blocks).0) {
                let mut expected = vec![0.0; 4];
                for stack in block {
                    let funcs: HashSet<_> = tables.functions(NodeId(*stack)).collect();
                    funcs.iter().for_each(|func| expected[func.0 as usize] += 1.0);
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
}
