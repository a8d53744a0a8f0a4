//! The call tree of one thread: one node for each path of functions, as V8's formats require.
//!
//! Used by the formats that have call trees. Two samples in one function on different lines share a
//! node; each level of a recursion is a separate node. The stacks of a table are mapped to paths of
//! functions once; the tree of a thread then needs only look-ups by number. Invariant: every node
//! except the root has exactly one caller, and the caller has a smaller number.

use std::collections::HashMap;

use super::by_row::ByRow;
use super::slices::Slice;
use profiler_reader::{FuncId, NodeId, Tables};

/// The number of a node; the root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TreeId(pub(super) u32);

/// The root.
pub(super) const ROOT: TreeId = TreeId(1);

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

/// A node.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeNode {
    pub(super) what: What,
    pub(super) caller: Option<TreeId>,
    /// Number of samples in it.
    pub(super) hits: u64,
    first_child: Option<TreeId>,
    last_child: Option<TreeId>,
    next_sibling: Option<TreeId>,
}

/// The number of samples in a node on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    pub(super) node: TreeId,
    /// Counted from 1.
    pub(super) line: u32,
    pub(super) ticks: u64,
}

/// The call tree of one thread. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct CallTree {
    nodes: Vec<TreeNode>,
    /// The paths of the present tables.
    paths: Option<Paths>,
    /// The node of each path.
    places: ByRow<TreeId>,
    idle: Option<TreeId>,
    program: Option<TreeId>,
    /// The node and the line of each counted sample.
    lines: Vec<(TreeId, u32)>,
}

impl CallTree {
    /// Begins the tree of another thread, whose tables are its own, or those of all threads.
    pub(super) fn begin(&mut self, tables: &Tables, has_own_tables: bool) {
        if has_own_tables {
            self.paths = None;
        }
        let paths = self.paths.get_or_insert_with(|| Paths::of(tables));
        self.places.begin(paths.all.len());
        self.nodes.clear();
        self.lines.clear();
        (self.idle, self.program) = (None, None);
        self.push(What::Root, None);
    }

    /// All nodes with their numbers; callers come first.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (TreeId, &TreeNode)> {
        (ROOT.0..).map(TreeId).zip(&self.nodes)
    }

    /// The children of a node, in the order of their numbers.
    pub(super) fn children(&self, node: &TreeNode) -> impl Iterator<Item = TreeId> {
        std::iter::successors(node.first_child, |id| self.node(*id)?.next_sibling)
    }

    /// Counts a slice in its node. Returns the node.
    pub(super) fn count(&mut self, tables: &Tables, slice: &Slice) -> TreeId {
        let id = self.place(slice);
        if let Some(node) = self.node_mut(id) {
            node.hits += 1;
        }
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
    pub(super) fn place(&mut self, slice: &Slice) -> TreeId {
        if slice.is_idle {
            let idle = self.idle;
            let idle = idle.unwrap_or_else(|| self.child(ROOT, What::Idle));
            self.idle = Some(idle);
            return idle;
        }
        // A stack without a function is treated as missing.
        let stack = slice.stack;
        match stack.and_then(|stack| self.paths.as_ref()?.of_stack(stack)) {
            Some(path) => self.path(path),
            None => {
                let program = self.program;
                let program = program.unwrap_or_else(|| self.child(ROOT, What::Program));
                self.program = Some(program);
                program
            }
        }
    }

    /// The node of a path.
    fn path(&mut self, path: PathId) -> TreeId {
        if let Some(known) = self.places.get(path.0) {
            return *known;
        }
        let Some(paths) = self.paths.take() else {
            return ROOT;
        };
        let mut missing = Vec::new();
        let mut place = ROOT;
        let mut at = Some(path);
        while let Some(path) = at {
            if let Some(known) = self.places.get(path.0) {
                place = *known;
                break;
            }
            let Some(found) = paths.get(path) else { break };
            missing.push((path, found.func));
            at = found.caller;
        }
        for (path, func) in missing.into_iter().rev() {
            place = self.child(place, What::Func(func));
            self.places.insert(path.0, place);
        }
        self.paths = Some(paths);
        place
    }

    /// Adds a child to a node.
    fn child(&mut self, caller: TreeId, what: What) -> TreeId {
        let id = self.push(what, Some(caller));
        let Some(node) = self.node_mut(caller) else {
            return id;
        };
        let before = node.last_child.replace(id);
        node.first_child = node.first_child.or(Some(id));
        if let Some(before) = before.and_then(|before| self.node_mut(before)) {
            before.next_sibling = Some(id);
        }
        id
    }

    fn push(&mut self, what: What, caller: Option<TreeId>) -> TreeId {
        self.nodes.push(TreeNode {
            what,
            caller,
            hits: 0,
            first_child: None,
            last_child: None,
            next_sibling: None,
        });
        TreeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    fn node_mut(&mut self, id: TreeId) -> Option<&mut TreeNode> {
        self.nodes.get_mut((id.0 as usize).checked_sub(1)?)
    }

    /// The node with this number.
    pub(super) fn node(&self, id: TreeId) -> Option<&TreeNode> {
        self.nodes.get((id.0 as usize).checked_sub(1)?)
    }
}

/// The line on which a slice's thread ran.
pub(super) fn line(tables: &Tables, slice: &Slice) -> Option<u32> {
    let leaf = slice.stack.filter(|_| !slice.is_idle)?;
    tables.leaf(leaf)?.line
}

/// The number of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PathId(u32);

/// A path of functions: a function, and the path of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Path {
    caller: Option<PathId>,
    func: FuncId,
}

/// The different paths of functions in the stacks of a table. Found once for all threads that share
/// a table.
#[derive(Debug, Default)]
struct Paths {
    all: Vec<Path>,
    /// By stack.
    of_stacks: Vec<Option<PathId>>,
}

impl Paths {
    fn of(tables: &Tables) -> Self {
        let mut paths = Self::default();
        let mut known: HashMap<Path, PathId> = HashMap::new();
        for (row, node) in (0..).zip(&tables.nodes) {
            let caller = node.caller.and_then(|caller| paths.of_stack(caller));
            let is_named = tables.named(NodeId(row)) == Some(NodeId(row));
            let frame = tables.frame(node.frame).filter(|_| is_named);
            let path = frame.map(|frame| {
                let path = Path {
                    caller,
                    func: frame.func,
                };
                *known.entry(path).or_insert_with(|| {
                    paths.all.push(path);
                    PathId(u32::try_from(paths.all.len() - 1).unwrap_or(u32::MAX))
                })
            });
            paths.of_stacks.push(path.or(caller));
        }
        paths
    }

    fn of_stack(&self, stack: NodeId) -> Option<PathId> {
        *self.of_stacks.get(stack.0 as usize)?
    }

    fn get(&self, path: PathId) -> Option<Path> {
        self.all.get(path.0 as usize).copied()
    }
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
        let mut tree = CallTree::default();
        tree.begin(&tables, true);
        let ids: Vec<u32> = (0..9)
            .map(|stack| tree.count(&tables, &slice(stack)).0)
            .collect();
        assert_eq!(
            ids,
            [2, 3, 4, 5, 6, 7, 7, 4, 8],
            "the root is 1; `b` on two lines is one node; a frame without a function adds no node"
        );
        let callers: Vec<_> = tree
            .nodes()
            .map(|(_, node)| node.caller.map(|id| id.0))
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
        let mut listed: Vec<TreeId> = tree
            .nodes()
            .flat_map(|(_, node)| tree.children(node))
            .collect();
        listed.sort();
        assert_eq!(
            listed,
            (2..=8).map(TreeId).collect::<Vec<_>>(),
            "every node is the child of one node"
        );
        let seventh = tree
            .take_ticks()
            .into_iter()
            .filter(|ticks| ticks.node == TreeId(7));
        let lines: Vec<_> = seventh.map(|ticks| (ticks.line, ticks.ticks)).collect();
        assert_eq!(lines, [(7, 1), (9, 1)]);
        assert_eq!(tree.node(TreeId(8)).unwrap().what, What::Program);
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
        let mut tree = CallTree::default();
        tree.begin(&deep, false);
        assert_eq!(tree.place(&slice(199_999)), TreeId(200_001));
    }

    #[test]
    fn threads_with_the_same_tables_have_trees_of_their_own() {
        let tables = tables();
        let mut tree = CallTree::default();
        tree.begin(&tables, false);
        for stack in [0, 5, 8] {
            tree.count(&tables, &slice(stack));
        }
        tree.begin(&tables, false);
        assert_eq!(tree.place(&slice(3)), TreeId(3), "the root, `a`, `b`");
        assert_eq!((tree.nodes().count(), tree.take_ticks()), (3, Vec::new()));
    }
}
