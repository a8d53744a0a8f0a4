//! The tables that samples refer to, in one form for both formats: a tree of stacks, frames,
//! functions, texts.
//!
//! Created by [`super::shared`] (processed format, once) and [`super::located`] (Gecko format, per
//! thread); read by every export and by `profiler info`. Invariant: a node's caller comes before
//! it. All other indices are as in the file, so a look-up may find nothing.

/// A stack: a frame and the stack of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(
    /// Row of the table.
    pub u32,
);

/// A place in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FuncId(
    /// Row of the table.
    pub u32,
);

/// A text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub u32);

/// A row of the table of stacks. See [`NodeId`].
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// The stack of the caller; `None` for the outermost frame.
    pub caller: Option<NodeId>,
    /// The innermost frame.
    pub frame: FrameId,
}

/// A row of the table of frames. See [`FrameId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its function.
    pub func: FuncId,
    /// Counted from 1.
    pub line: Option<u32>,
    /// Relative to its library.
    pub address: Option<u64>,
}

/// A row of the table of functions. See [`FuncId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Func {
    /// Its name.
    pub name: TextId,
    /// The path of its source.
    pub file: Option<TextId>,
    /// Its first line, counted from 1.
    pub line: Option<u32>,
    /// The column of its first line, counted from 1.
    pub column: Option<u32>,
    /// The library that contains its code.
    pub library: Option<TextId>,
}

/// A function, for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function<'t> {
    /// Its name, or library and offset.
    pub name: &'t str,
    /// The path of its source.
    pub file: Option<&'t str>,
    /// The library that contains its code.
    pub library: Option<&'t str>,
    /// Its first line, counted from 1.
    pub line: Option<u32>,
    /// The column of its first line, counted from 1.
    pub column: Option<u32>,
}

/// All tables.
#[derive(Debug, Default)]
pub struct Tables {
    /// The stacks.
    pub nodes: Vec<Node>,
    /// The frames.
    pub frames: Vec<Frame>,
    /// The functions.
    pub funcs: Vec<Func>,
    /// The texts.
    pub texts: Vec<String>,
    /// By frame, see [`Self::is_inlined`]; a missing entry is false.
    pub(super) inlined: Vec<bool>,
    /// By node, see [`Self::find_named`].
    named: Vec<Option<NodeId>>,
}

impl Tables {
    /// Creates tables from complete lists.
    pub fn new(nodes: Vec<Node>, frames: Vec<Frame>, funcs: Vec<Func>, texts: Vec<String>) -> Self {
        let mut tables = Self {
            nodes,
            frames,
            funcs,
            texts,
            inlined: Vec::new(),
            named: Vec::new(),
        };
        tables.find_named();
        tables
    }

    /// Finds for every stack the innermost frame that has a function with a name, once for all
    /// samples, because samples share their stacks, and a file may have a long chain of stacks
    /// without a function. Must be called after the last addition.
    pub fn find_named(&mut self) {
        let mut named: Vec<Option<NodeId>> = Vec::with_capacity(self.nodes.len());
        for (row, node) in self.nodes.iter().enumerate() {
            let is_named = self
                .frame(node.frame)
                .is_some_and(|frame| self.function(frame.func).is_some());
            let callers = || *named.get(node.caller?.0 as usize)?;
            named.push(if is_named {
                Some(NodeId(narrow(row)))
            } else {
                callers()
            });
        }
        self.named = named;
    }

    /// The stack itself, or its nearest caller, that has a function with a name.
    pub fn named(&self, node: NodeId) -> Option<NodeId> {
        *self.named.get(node.0 as usize)?
    }

    /// The innermost frame of a stack that has a function with a name.
    pub fn leaf(&self, node: NodeId) -> Option<Frame> {
        self.frame(self.node(self.named(node)?)?.frame)
    }

    /// The stack with this number.
    pub fn node(&self, id: NodeId) -> Option<Node> {
        self.nodes.get(id.0 as usize).copied()
    }

    /// The frame with this number.
    pub fn frame(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(id.0 as usize).copied()
    }

    /// Whether the frame is a part of its caller's: its function is inlined there, at the same
    /// address.
    pub fn is_inlined(&self, id: FrameId) -> bool {
        self.inlined.get(id.0 as usize).copied().unwrap_or(false)
    }

    /// The text with this number.
    pub fn text(&self, id: TextId) -> Option<&str> {
        self.texts.get(id.0 as usize).map(String::as_str)
    }

    /// The number of stacks.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The number of functions.
    pub fn func_count(&self) -> usize {
        self.funcs.len()
    }

    /// The functions on a stack that have a name, the innermost first.
    pub fn functions(&self, node: NodeId) -> impl Iterator<Item = FuncId> {
        self.stack(node).map(|(_, frame)| frame.func)
    }

    /// The stacks that end in a function with a name, from this one out, with these functions.
    pub fn named_nodes(&self, id: NodeId) -> impl Iterator<Item = (NodeId, FuncId)> {
        let nodes = std::iter::successors(self.named(id), move |at| {
            self.named(self.node(*at)?.caller?)
        });
        nodes.filter_map(|id| Some((id, self.frame(self.node(id)?.frame)?.func)))
    }

    /// A function, if it has a name.
    pub fn function(&self, id: FuncId) -> Option<Function<'_>> {
        let func = self.funcs.get(id.0 as usize)?;
        let text = |id: Option<TextId>| {
            id.and_then(|id| self.text(id))
                .filter(|text| !text.is_empty())
        };
        Some(Function {
            name: self.text(func.name)?,
            file: text(func.file),
            library: text(func.library),
            line: func.line,
            column: func.column,
        })
    }

    /// The frames of a stack that have a function with a name, the innermost first.
    pub fn stack(&self, id: NodeId) -> impl Iterator<Item = (FrameId, Frame)> {
        let node = |id: NodeId| self.node(self.named(id)?);
        let nodes = std::iter::successors(node(id), move |at| node(at.caller?));
        nodes.filter_map(|node| Some((node.frame, self.frame(node.frame)?)))
    }
}

pub(super) fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
