//! The stacks of one process as a tree of recorded frames.
//!
//! Filled while a pool is followed; [`paths`] has the latest stack of each thread. Most functions
//! call the same function as the last time, so each node knows its latest callee, and only other
//! callees are looked up by their hash. Invariants: a node's caller has a smaller number; equal
//! stacks have the same node; a stack that does not fit loses inner frames, never its time; memory
//! is bounded, whatever a pool contains.

mod paths;

use std::hash::BuildHasher;

use profiler_core::internal::entry::stack::Frame;
use profiler_json::interner::ItemIndex;

use crate::hash::FastHash;
pub(crate) use paths::RecorderPaths;

/// Limit on the nodes of one process.
const MAX_NODES: usize = 1 << 17;

/// Number of a frame, of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameNumber(pub(crate) u32);

/// Number of a node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeNumber(pub(crate) u32);

impl NodeNumber {
    /// No node: an empty stack.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// What the address of a code frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FramePlace {
    /// The innermost frame of a sample: the address of the next instruction.
    Innermost,
    /// The address to which a call returns: the byte after the call.
    Caller,
}

/// A frame as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKey {
    /// The encoded frame.
    Recorded(u64, FramePlace),
    /// Stands for frames that are missing further out.
    Truncated,
}

/// A frame and its caller.
#[derive(Clone, Copy, Debug)]
struct StackNode {
    caller: NodeNumber,
    key: NodeKey,
    frame: FrameNumber,
    /// The callee that was found last.
    latest: NodeNumber,
}

/// The frames of the session, to which a tree adds its new frames.
pub(crate) trait FrameSource {
    /// Whether the tree may grow by one node, which is then taken.
    fn has_room(&mut self) -> bool;

    /// The number of a recorded frame.
    fn recorded(&mut self, frame: Frame, place: FramePlace) -> FrameNumber;

    /// The number of the frame that stands for missing frames.
    fn truncated(&mut self) -> FrameNumber;
}

/// All stacks of one process.
#[derive(Debug)]
pub(crate) struct StackTree {
    nodes: Vec<StackNode>,
    index: ItemIndex,
    hasher: FastHash,
    /// The outermost frame that was found last.
    latest: NodeNumber,
    lost: u64,
}

impl Default for StackTree {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            index: ItemIndex::default(),
            hasher: FastHash::default(),
            latest: NodeNumber::NONE,
            lost: 0,
        }
    }
}

impl StackTree {
    /// All nodes in the order of their numbers: caller and frame.
    pub(crate) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (NodeNumber, FrameNumber)> + DoubleEndedIterator + '_ {
        self.nodes.iter().map(|node| (node.caller, node.frame))
    }

    /// Number of nodes.
    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Number of times that a frame did not fit.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// The node of a frame; its caller's node if there is no room.
    fn node(
        &mut self,
        caller: NodeNumber,
        key: NodeKey,
        frames: &mut impl FrameSource,
    ) -> NodeNumber {
        let latest = self.get(caller).map_or(self.latest, |node| node.latest);
        if self.get(latest).is_some_and(|node| node.key == key) {
            return latest;
        }
        let known = self.find(caller, key);
        let Some(found) = known.or_else(|| self.add(caller, key, frames)) else {
            self.lost += 1;
            return caller;
        };
        match self.nodes.get_mut(caller.0 as usize) {
            Some(caller) => caller.latest = found,
            None => self.latest = found,
        }
        found
    }

    fn get(&self, number: NodeNumber) -> Option<&StackNode> {
        self.nodes.get(number.0 as usize)
    }

    fn find(&self, caller: NodeNumber, key: NodeKey) -> Option<NodeNumber> {
        let is_equal = |number: u32| {
            let node = self.get(NodeNumber(number));
            node.is_some_and(|node| node.caller == caller && node.key == key)
        };
        let found = self.index.find(hash(&self.hasher, caller, key), is_equal);
        found.map(NodeNumber)
    }

    /// Adds a node that is not in the tree; `None` if there is no room.
    fn add(
        &mut self,
        caller: NodeNumber,
        key: NodeKey,
        frames: &mut impl FrameSource,
    ) -> Option<NodeNumber> {
        if self.nodes.len() >= MAX_NODES || !frames.has_room() {
            return None;
        }
        let number = u32::try_from(self.nodes.len()).ok()?;
        let frame = match key {
            NodeKey::Recorded(word, place) => frames.recorded(Frame::decode(word), place),
            NodeKey::Truncated => frames.truncated(),
        };
        self.nodes.push(StackNode {
            caller,
            key,
            frame,
            latest: NodeNumber::NONE,
        });
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.index.add(number, |number| {
            let node = nodes.get(number as usize);
            node.map_or(0, |node| hash(hasher, node.caller, node.key))
        });
        Some(NodeNumber(number))
    }
}

fn hash(hasher: &FastHash, caller: NodeNumber, key: NodeKey) -> u64 {
    let word = match key {
        NodeKey::Recorded(word, place) => (word, place as u8),
        NodeKey::Truncated => (0, u8::MAX),
    };
    hasher.hash_one((caller.0, word))
}

#[cfg(test)]
mod tests;
