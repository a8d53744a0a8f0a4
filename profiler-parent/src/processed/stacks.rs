//! The stacks of all processes as one tree of recorded frames.
//!
//! Filled in the first pass, before frames have names. A node is a frame and the node of its
//! caller; equal stacks share all nodes. With a [`PathCache`], the cost of a sample depends on its
//! new frames, not on its depth. Invariants: a node's caller has a smaller number; memory is
//! bounded by [`MAX_NODES`], and stacks that do not fit lose inner frames, which are counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::entry::stack::Frame;
use profiler_gecko::model::Place;
use profiler_json::interner::ItemIndex;

use super::frames::{AddressKind, FrameId, Frames, Position, Translation};
use super::quota::Quota;

/// Limit on the nodes. A node takes 8 bytes, its number in the profile 4 bytes, and the full index
/// about 5 bytes per node.
pub(super) const MAX_NODES: usize = 3 << 18;
/// Limit on the cached frames of all threads together.
const MAX_REMEMBERED: usize = 1 << 17;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

const NO_CALLER: u32 = u32::MAX;

/// The tree of stacks.
#[derive(Debug)]
pub(super) struct Stacks {
    nodes: Vec<(u32, FrameId)>,
    index: ItemIndex,
    key: u64,
    quota: Quota,
    lost: u64,
}

impl Stacks {
    /// Creates an empty tree for this number of processes.
    pub(super) fn new(processes: usize) -> Self {
        let key = RandomState::new().hash_one(0);
        let quota = Quota::new(0, MAX_NODES, processes);
        Self {
            nodes: Vec::new(),
            index: ItemIndex::default(),
            key,
            quota,
            lost: 0,
        }
    }

    /// Begins the next process.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quota.begin(self.nodes.len(), is_root);
    }

    /// Closes the tree: new nodes no longer fit.
    pub(super) fn close(&mut self) {
        self.quota.close();
    }

    /// All nodes in the order of their numbers: caller and frame.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (Option<NodeId>, FrameId)> + '_ {
        self.nodes
            .iter()
            .map(|(caller, frame)| ((*caller != NO_CALLER).then_some(NodeId(*caller)), *frame))
    }

    /// Number of frames that did not fit.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the node of `frame` called by `caller`. If the node does not fit, returns the
    /// caller's node.
    fn node(&mut self, caller: Option<NodeId>, frame: FrameId) -> Option<NodeId> {
        let entry = (caller.map_or(NO_CALLER, |caller| caller.0), frame);
        let Self {
            nodes, index, key, ..
        } = self;
        let is_equal = |number: u32| nodes.get(number as usize) == Some(&entry);
        if let Some(known) = index.find(hash(*key, entry.0, entry.1), is_equal) {
            return Some(NodeId(known));
        }
        if nodes.len() >= self.quota.limit() {
            self.lost += 1;
            return caller;
        }
        let id = u32::try_from(nodes.len()).unwrap_or(NO_CALLER);
        nodes.push(entry);
        index.add(id, |number| {
            nodes
                .get(number as usize)
                .map_or(0, |entry| hash(*key, entry.0, entry.1))
        });
        Some(NodeId(id))
    }
}

/// Hashes a node. The hash is keyed, because a hostile process may choose frames that collide. It
/// is faster than the standard hash, which matters because a stack has many nodes.
fn hash(key: u64, caller: u32, frame: FrameId) -> u64 {
    let mixed = ((u64::from(caller) << 32) | u64::from(frame.0)) ^ key;
    let wide = u128::from(mixed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let folded = (wide ^ (wide >> 64)) as u64;
    folded.wrapping_mul(key | 1) >> 20
}

/// What the addresses of a stack mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackKind {
    /// The kind of the innermost address; all others are return addresses.
    pub(super) innermost: AddressKind,
    /// Whether outer frames are missing.
    pub(super) is_cut: bool,
    /// Whether it is the stack of a sample without processor time.
    pub(super) is_idle: bool,
}

impl StackKind {
    /// The stack of a sample.
    pub(super) fn of_sample(sample: &SampleEntry<'_>) -> Self {
        Self {
            innermost: AddressKind::Instruction,
            is_cut: sample.cut || sample.failed,
            is_idle: sample.is_idle(),
        }
    }

    /// A stack that a thread took of itself, for a marker or an allocation.
    pub(super) fn of_caller(is_cut: bool) -> Self {
        Self {
            innermost: AddressKind::ReturnAddress,
            is_cut,
            is_idle: false,
        }
    }
}

/// The cached latest stacks of the threads.
#[derive(Debug, Default)]
pub(super) struct Paths {
    of_threads: HashMap<Place, PathCache>,
    remembered: usize,
}

impl Paths {
    /// Returns the node of a thread's stack; see [`PathCache::node`].
    pub(super) fn node(
        &mut self,
        thread: Place,
        stack: impl ExactSizeIterator<Item = Frame>,
        kind: StackKind,
        translation: &mut Translation<'_>,
        frames: &mut Frames,
        stacks: &mut Stacks,
    ) -> Option<NodeId> {
        if self.remembered > MAX_REMEMBERED {
            *self = Self::default();
        }
        let is_new = !self.of_threads.contains_key(&thread);
        let path = self.of_threads.entry(thread).or_default();
        let before = path.callers.len();
        let node = path.node(stack, kind, translation, frames, stacks);
        // A new thread counts as one frame more, for its entry in the map.
        self.remembered =
            (self.remembered + path.callers.len() + usize::from(is_new)).saturating_sub(before);
        node
    }
}

/// The cached nodes of a thread's latest stack.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    is_cut: bool,
    callers: Vec<(Frame, NodeId)>,
}

impl PathCache {
    /// Returns the node of a stack, whose outermost frame comes first; `None` for an empty stack. A
    /// cut stack lacks its outer frames.
    pub(super) fn node(
        &mut self,
        stack: impl ExactSizeIterator<Item = Frame>,
        kind: StackKind,
        translation: &mut Translation<'_>,
        frames: &mut Frames,
        stacks: &mut Stacks,
    ) -> Option<NodeId> {
        let StackKind {
            innermost,
            is_cut,
            is_idle,
        } = kind;
        let depth = stack.len();
        let mut is_known = self.is_cut == is_cut;
        self.is_cut = is_cut;
        let mut caller = if is_cut {
            stacks.node(None, frames.truncated())
        } else {
            None
        };
        for (level, frame) in stack.enumerate() {
            let is_innermost = level + 1 == depth;
            let position = match level {
                _ if is_idle && is_innermost => Position::Idle,
                0 => Position::Outermost,
                _ => Position::Inner,
            };
            if is_innermost && innermost == AddressKind::Instruction {
                let id = frames.observed(frame, position, innermost, translation);
                caller = stacks.node(caller, id);
                break;
            }
            let cached = if is_known {
                self.callers.get(level).filter(|(known, _)| *known == frame)
            } else {
                None
            };
            caller = match cached {
                Some((_, node)) => Some(*node),
                None => {
                    is_known = false;
                    self.callers.truncate(level);
                    let id =
                        frames.observed(frame, position, AddressKind::ReturnAddress, translation);
                    let node = stacks.node(caller, id);
                    self.callers.extend(node.map(|node| (frame, node)));
                    node
                }
            };
        }
        caller
    }
}
