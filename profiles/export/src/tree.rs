//! The call tree of one thread: one node for each path of functions, as V8's formats require.
//!
//! Used by the formats that have call trees. Two samples in one function on different lines share a
//! node; each level of a recursion is a separate node. The node of each stack is looked up by the
//! stack's number. Invariant: every node except the root has exactly one caller, and the caller has
//! a smaller number.

use super::by_row::ByRow;
use super::call_tree::{CallId, CallTree};
use super::slices::Slice;
use profiler_reader::{FuncId, NodeId, Tables};

/// The root.
pub(super) const ROOT: CallId = CallId::FIRST;

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Root,
    /// The thread was not running on a processor.
    Idle,
    /// The function is unknown.
    Program,
    Func(FuncId),
}

impl What {
    /// The name that viewers expect for a node that is not a function.
    pub(super) const fn special(self) -> Option<&'static str> {
        match self {
            Self::Root => Some("(root)"),
            Self::Idle => Some("(idle)"),
            Self::Program => Some("(program)"),
            Self::Func(_) => None,
        }
    }
}

/// The number of samples in a node on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) node: CallId,
    /// Counted from 1.
    pub(super) line: u32,
    pub(super) ticks: u64,
}

/// The call tree of one thread. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ThreadTree {
    /// The nodes. Their weights are those of the added slices.
    pub(super) calls: CallTree<What, u64>,
    /// The node of each stack of the tables.
    places: ByRow<CallId>,
    /// The node and the line of each counted sample.
    lines: Vec<(CallId, u32)>,
}

impl ThreadTree {
    /// Begins the tree of another thread with these tables.
    pub(super) fn begin(&mut self, tables: &Tables) {
        self.places.begin(tables.node_count());
        self.calls.clear();
        self.lines.clear();
        self.calls.callee(None, What::Root);
    }

    /// Counts a slice in its node. Returns the node.
    pub(super) fn count(&mut self, tables: &Tables, slice: &Slice) -> CallId {
        let id = self.place(tables, slice);
        self.calls.add_own(id, 1);
        if let Some(line) = line(tables, slice) {
            self.lines.push((id, line));
        }
        id
    }

    /// The numbers of counted samples by node and line, sorted. The counts start again at 0.
    pub(super) fn take_ticks(&mut self) -> Vec<Ticks> {
        self.lines.sort_unstable();
        let same = self.lines.chunk_by(|one, other| one == other);
        let ticks = same.filter_map(|same| {
            let (node, line) = *same.first()?;
            let ticks = same.len() as u64;
            Some(Ticks { node, line, ticks })
        });
        let ticks = ticks.collect();
        self.lines.clear();
        ticks
    }

    /// The node of a slice.
    pub(super) fn place(&mut self, tables: &Tables, slice: &Slice) -> CallId {
        if slice.is_idle {
            return self.calls.callee(Some(ROOT), What::Idle);
        }
        // A stack without a function is treated as missing.
        match slice.stack.and_then(|stack| tables.named(stack)) {
            Some(stack) => self.stack(tables, stack),
            None => self.calls.callee(Some(ROOT), What::Program),
        }
    }

    /// The node of a stack whose innermost function has a name.
    fn stack(&mut self, tables: &Tables, stack: NodeId) -> CallId {
        let mut missing = Vec::new();
        let mut place = ROOT;
        let mut at = Some(stack);
        while let Some(stack) = at {
            if let Some(known) = self.places.get(stack.0) {
                place = *known;
                break;
            }
            let Some(node) = tables.node(stack) else {
                break;
            };
            missing.extend(tables.frame(node.frame).map(|frame| (stack, frame.func)));
            at = node.caller.and_then(|caller| tables.named(caller));
        }
        for (stack, func) in missing.into_iter().rev() {
            place = self.calls.callee(Some(place), What::Func(func));
            self.places.insert(stack.0, place);
        }
        place
    }
}

/// The line on which a slice's thread ran.
pub(super) fn line(tables: &Tables, slice: &Slice) -> Option<u32> {
    let leaf = slice.stack.filter(|_| !slice.is_idle)?;
    tables.leaf(leaf)?.line
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_reader::{Frame, FrameId, Func, Node, TextId};

    fn slice(stack: u32) -> Slice {
        Slice {
            start: 0,
            end: 1,
            at: 1,
            stack: Some(NodeId(stack)),
            is_idle: false,
            cpu: 0,
            is_sample: true,
        }
    }

    /// `a` calls itself twice, and each of the three calls `b`, one call being on two lines; frame
    /// 3 has no function.
    fn tables() -> Tables {
        let func = |name| Func {
            name: TextId(name),
            file: None,
            line: None,
            column: None,
            library: None,
        };
        let frame = |func, line| Frame {
            func: FuncId(func),
            line,
            address: None,
        };
        let node = |caller: Option<u32>, frame| Node {
            caller: caller.map(NodeId),
            frame: FrameId(frame),
        };
        let a = 0;
        let b = 1;
        let other_b = 2;
        let nothing = 3;
        Tables::new(
            vec![
                node(None, a),
                node(Some(0), a),
                node(Some(1), a),
                node(Some(0), b),
                node(Some(1), b),
                node(Some(2), b),
                node(Some(2), other_b),
                node(Some(2), nothing),
                node(None, nothing),
            ],
            vec![
                frame(0, None),
                frame(1, Some(7)),
                frame(1, Some(9)),
                frame(5, None),
            ],
            vec![func(0), func(1)],
            vec!["a".to_owned(), "b".to_owned()],
        )
    }

    #[test]
    fn x2_recursion_and_shared_callees_give_every_node_one_caller() {
        let tables = tables();
        let mut tree = ThreadTree::default();
        tree.begin(&tables);
        let ids: Vec<u32> = (0..9)
            .map(|stack| tree.count(&tables, &slice(stack)).number())
            .collect();
        assert_eq!(
            ids,
            [2, 3, 4, 5, 6, 7, 7, 4, 8],
            "the root is 1; `b` on two lines is one node; a frame without a function adds no node"
        );
        let callers: Vec<_> = tree
            .calls
            .nodes()
            .map(|(_, node)| node.caller.map(CallId::number))
            .collect();
        assert_eq!(
            callers,
            [
                None,
                Some(1),
                Some(2),
                Some(3),
                Some(2),
                Some(3),
                Some(4),
                Some(1)
            ]
        );
        let mut listed: Vec<u32> = tree
            .calls
            .nodes()
            .flat_map(|(_, node)| tree.calls.callees(node))
            .map(CallId::number)
            .collect();
        listed.sort();
        assert_eq!(
            listed,
            (2..=8).collect::<Vec<_>>(),
            "every node is the child of one node"
        );
        let seventh = tree
            .take_ticks()
            .into_iter()
            .filter(|ticks| ticks.node.number() == 7);
        let lines: Vec<_> = seventh.map(|ticks| (ticks.line, ticks.ticks)).collect();
        assert_eq!(lines, [(7, 1), (9, 1)]);
        let (_, last) = tree.calls.nodes().last().unwrap();
        assert_eq!(last.func, What::Program);
    }

    #[test]
    fn a_deep_path_is_built_without_recursion() {
        let nodes = (0..200_000)
            .map(|n: u32| Node {
                caller: n.checked_sub(1).map(NodeId),
                frame: FrameId(0),
            })
            .collect();
        let Tables {
            frames,
            funcs,
            texts,
            ..
        } = tables();
        let deep = Tables::new(nodes, frames, funcs, texts);
        let mut tree = ThreadTree::default();
        tree.begin(&deep);
        let place = tree.place(&deep, &slice(199_999));
        assert_eq!(place.number(), 200_001);
    }

    #[test]
    fn threads_with_the_same_tables_have_trees_of_their_own() {
        let tables = tables();
        let mut tree = ThreadTree::default();
        tree.begin(&tables);
        for stack in [0, 5, 8] {
            tree.count(&tables, &slice(stack));
        }
        tree.begin(&tables);
        let place = tree.place(&tables, &slice(3));
        assert_eq!(place.number(), 3, "the root, `a`, `b`");
        assert_eq!((tree.calls.count(), tree.take_ticks()), (3, Vec::new()));
    }
}
