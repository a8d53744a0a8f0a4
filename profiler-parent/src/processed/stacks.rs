//! Stacks of all processes as one tree, frames as they were observed.
//!
//! Filled in the first pass, before anything has a name. A node is a frame and the node of its
//! caller; equal stacks share all nodes. [`PathCache`] makes a sample cost its new frames and not
//! its depth. Invariants: a node's caller has a smaller number; memory is bounded by [`MAX_NODES`],
//! and stacks that do not fit lose inner frames, which are counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::profile::interner::ItemIndex;
use profiler_core::internal::profile::model::Place;

use super::frames::{AddressKind, FrameId, Frames, Position, Translation};
use super::quota::Quota;

/// Most nodes: 8 bytes each, the same for the index, and 4 for the number in the profile.
pub(super) const MAX_NODES: usize = 3 << 18;
/// Most frames of last stacks, of all threads together.
const MAX_REMEMBERED: usize = 1 << 17;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u32);

const NO_CALLER: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Stacks {
    nodes: Vec<(u32, FrameId)>,
    index: ItemIndex,
    key: u64,
    quota: Quota,
    lost: u64,
}

impl Stacks {
    /// None yet; so many processes are to come.
    pub(super) fn new(processes: usize) -> Self {
        let (key, quota) = (RandomState::new().hash_one(0), Quota::new(0, MAX_NODES, processes));
        Self { nodes: Vec::new(), index: ItemIndex::default(), key, quota, lost: 0 }
    }

    /// The next process begins.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quota.begin(self.nodes.len(), is_root);
    }

    /// All have been seen: what is not known by now stays unknown.
    pub(super) fn close(&mut self) {
        self.quota.close();
    }

    /// All nodes in order: caller, frame.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (Option<NodeId>, FrameId)> + '_ {
        self.nodes.iter().map(|(caller, frame)| ((*caller != NO_CALLER).then_some(NodeId(*caller)), *frame))
    }

    /// How many frames found no room.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// The node of `frame` called by `caller`. With no room left it is the caller's.
    fn node(&mut self, caller: Option<NodeId>, frame: FrameId) -> Option<NodeId> {
        let entry = (caller.map_or(NO_CALLER, |caller| caller.0), frame);
        let Self { nodes, index, key, .. } = self;
        let is_equal = |number: u32| nodes.get(number as usize) == Some(&entry);
        if let Some(known) = index.find(hash(*key, entry), is_equal) {
            return Some(NodeId(known));
        }
        if nodes.len() >= self.quota.limit() {
            self.lost += 1;
            return caller;
        }
        let id = u32::try_from(nodes.len()).unwrap_or(NO_CALLER);
        nodes.push(entry);
        index.add(id, |number| nodes.get(number as usize).map_or(0, |entry| hash(*key, *entry)));
        Some(NodeId(id))
    }
}

/// Keyed, because frames come from processes that may want them all to collide. Faster than the
/// standard hash: a stack has many nodes.
fn hash(key: u64, (caller, frame): (u32, FrameId)) -> u64 {
    let mixed = ((u64::from(caller) << 32) | u64::from(frame.0)) ^ key;
    let wide = u128::from(mixed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let folded = (wide ^ (wide >> 64)) as u64;
    folded.wrapping_mul(key | 1) >> 20
}

/// The last stacks of all threads, as many as are remembered.
#[derive(Debug, Default)]
pub(super) struct Paths {
    of_threads: HashMap<Place, PathCache>,
    remembered: usize,
}

impl Paths {
    /// The node of a stack of a thread, as [`PathCache::node`] gives it.
    pub(super) fn node(
        &mut self,
        thread: Place,
        stack: impl ExactSizeIterator<Item = Frame>,
        kind: (AddressKind, bool),
        translation: &mut Translation<'_>,
        tables: (&mut Frames, &mut Stacks),
    ) -> Option<NodeId> {
        if self.remembered > MAX_REMEMBERED {
            *self = Self::default();
        }
        let is_new = !self.of_threads.contains_key(&thread);
        let path = self.of_threads.entry(thread).or_default();
        let before = path.callers.len();
        let node = path.node(stack, kind, translation, tables);
        // One for the place in the map.
        self.remembered = (self.remembered + path.callers.len() + usize::from(is_new)).saturating_sub(before);
        node
    }
}

/// The nodes of a thread's last stack.
#[derive(Debug, Default)]
pub(super) struct PathCache {
    is_cut: bool,
    callers: Vec<(Frame, NodeId)>,
}

impl PathCache {
    /// The node of a stack, outermost frame first; `None` for an empty one. Of one that is cut,
    /// frames further out are missing.
    pub(super) fn node(
        &mut self,
        stack: impl ExactSizeIterator<Item = Frame>,
        (innermost, is_cut): (AddressKind, bool),
        translation: &mut Translation<'_>,
        (frames, stacks): (&mut Frames, &mut Stacks),
    ) -> Option<NodeId> {
        let depth = stack.len();
        let mut is_known = self.is_cut == is_cut;
        self.is_cut = is_cut;
        let mut caller = if is_cut { stacks.node(None, frames.truncated()) } else { None };
        for (level, frame) in stack.enumerate() {
            let position = if level == 0 { Position::Outermost } else { Position::Inner };
            if level + 1 == depth && innermost == AddressKind::Instruction {
                let id = frames.observed(frame, position, innermost, translation);
                caller = stacks.node(caller, id);
                break;
            }
            let cached =
                if is_known { self.callers.get(level).filter(|(known, _)| *known == frame) } else { None };
            caller = match cached {
                Some((_, node)) => Some(*node),
                None => {
                    is_known = false;
                    self.callers.truncate(level);
                    let id = frames.observed(frame, position, AddressKind::ReturnAddress, translation);
                    let node = stacks.node(caller, id);
                    self.callers.extend(node.map(|node| (frame, node)));
                    node
                }
            };
        }
        caller
    }
}
