//! What samples refer to, in one form whatever the profile's: nodes of a tree of stacks, frames, functions, texts.
//!
//! Made by [`super::shared`] (processed form, once) and [`super::located`] (Gecko form, per thread); read by every
//! format. Invariant: a node's caller comes before it; all other numbers are as the file has them, so whoever looks
//! something up may find nothing.

/// A stack: a frame and the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) u32);

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FrameId(pub(super) u32);

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FuncId(pub(super) u32);

/// A text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TextId(pub(super) u32);

/// See [`NodeId`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) caller: Option<NodeId>,
    pub(super) frame: FrameId,
}

/// See [`FrameId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) func: FuncId,
    /// From 1 on.
    pub(super) line: Option<u32>,
    /// Relative to its library.
    pub(super) address: Option<u64>,
}

/// See [`FuncId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Func {
    pub(super) name: TextId,
    pub(super) file: Option<TextId>,
    /// Where it begins, from 1 on.
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
    pub(super) library: Option<TextId>,
}

/// A function as it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Function<'t> {
    pub(super) name: &'t str,
    pub(super) file: Option<&'t str>,
    pub(super) library: Option<&'t str>,
    pub(super) line: Option<u32>,
    pub(super) column: Option<u32>,
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) nodes: Vec<Node>,
    pub(super) frames: Vec<Frame>,
    pub(super) funcs: Vec<Func>,
    pub(super) texts: Vec<String>,
    /// By node, see [`Self::find_leaves`].
    leaves: Vec<Option<FrameId>>,
}

impl Tables {
    /// Tables that are complete.
    pub(super) fn new(nodes: Vec<Node>, frames: Vec<Frame>, funcs: Vec<Func>, texts: Vec<String>) -> Self {
        let mut tables = Self { nodes, frames, funcs, texts, leaves: Vec::new() };
        tables.find_leaves();
        tables
    }

    /// To be called when nothing is added any more. A file may have a long chain of stacks that say nothing, and samples
    /// of each of them: nobody goes along it for every sample.
    pub(super) fn find_leaves(&mut self) {
        let mut leaves: Vec<Option<FrameId>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let is_named = self.frame(node.frame).is_some_and(|frame| self.function(frame.func).is_some());
            let callers = || *leaves.get(node.caller?.0 as usize)?;
            leaves.push(if is_named { Some(node.frame) } else { callers() });
        }
        self.leaves = leaves;
    }

    /// The innermost frame of a stack that has a function with a name.
    pub(super) fn leaf(&self, node: NodeId) -> Option<Frame> {
        self.frame((*self.leaves.get(node.0 as usize)?)?)
    }

    pub(super) fn node(&self, id: NodeId) -> Option<Node> {
        self.nodes.get(id.0 as usize).copied()
    }

    pub(super) fn frame(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(id.0 as usize).copied()
    }

    pub(super) fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(String::as_str)
    }

    /// A function, if it has a name.
    pub(super) fn function(&self, id: FuncId) -> Option<Function<'_>> {
        let func = self.funcs.get(id.0 as usize)?;
        let text = |id: Option<TextId>| id.and_then(|id| self.text(id)).filter(|text| !text.is_empty());
        Some(Function {
            name: self.text(func.name)?,
            file: text(func.file),
            library: text(func.library),
            line: func.line,
            column: func.column,
        })
    }

    /// The frames of a stack that have a function with a name, the innermost first.
    pub(super) fn stack(&self, node: NodeId) -> impl Iterator<Item = (FrameId, Frame)> {
        let nodes = std::iter::successors(self.node(node), |node| self.node(node.caller?));
        nodes
            .filter_map(|node| Some((node.frame, self.frame(node.frame)?)))
            .filter(|(_, frame)| self.function(frame.func).is_some())
    }
}
