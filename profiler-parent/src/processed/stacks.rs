//! Stacks of all processes as one tree, frames as they were observed.
//!
//! Filled in the first pass, before anything has a name. A node is a frame and the node
//! of its caller; equal stacks share all nodes. [`PathCache`] makes a sample cost its new frames and not
//! its depth. Invariants: a node's caller has a smaller number; memory is bounded by [`MAX_NODES`], and
//! what does not fit loses inner frames, counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use profiler_core::internal::entry::stack::Frame;

use super::frames::{FrameId, Frames, Position, Translation};
use super::owners::Place;
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
    /// Open addressing; a node's number plus one, 0 is free. At most three quarters are taken.
    index: Vec<u32>,
    key: u64,
    quota: Quota,
    lost: u64,
}

impl Stacks {
    /// None yet; so many processes are to come.
    pub(super) fn new(processes: usize) -> Self {
        let (key, quota) = (RandomState::new().hash_one(0), Quota::new(0, MAX_NODES, processes));
        Self { nodes: Vec::new(), index: vec![0; 1024], key, quota, lost: 0 }
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
        let mask = self.index.len().saturating_sub(1);
        let mut place = self.hash(entry) & mask;
        loop {
            match self.index.get(place).copied().unwrap_or(0) {
                0 => break,
                taken if self.nodes.get(taken as usize - 1) == Some(&entry) => {
                    return Some(NodeId(taken - 1));
                }
                _ => place = (place + 1) & mask,
            }
        }
        if self.nodes.len() >= self.quota.limit() {
            self.lost += 1;
            return caller;
        }
        let id = u32::try_from(self.nodes.len()).unwrap_or(NO_CALLER);
        self.nodes.push(entry);
        if let Some(free) = self.index.get_mut(place) {
            *free = id + 1;
        }
        if self.nodes.len() * 4 > self.index.len() * 3 {
            self.grow();
        }
        Some(NodeId(id))
    }

    fn grow(&mut self) {
        let len = self.index.len() * 2;
        self.index = Vec::new(); // the old one goes first
        let mut index = vec![0; len];
        for (number, entry) in (1_u32..).zip(&self.nodes) {
            let mut place = self.hash(*entry) & (len - 1);
            while index.get(place).is_some_and(|taken| *taken != 0) {
                place = (place + 1) & (len - 1);
            }
            if let Some(free) = index.get_mut(place) {
                *free = number;
            }
        }
        self.index = index;
    }

    /// Keyed, because frames come from processes that may want them all to collide.
    fn hash(&self, (caller, frame): (u32, FrameId)) -> usize {
        let mixed = ((u64::from(caller) << 32) | u64::from(frame.0)) ^ self.key;
        let wide = u128::from(mixed).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let folded = (wide ^ (wide >> 64)) as u64;
        (folded.wrapping_mul(self.key | 1) >> 20) as usize
    }
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
        kind: (Innermost, bool),
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

/// What the innermost address of a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Innermost {
    /// The instruction that was interrupted.
    Instruction,
    /// Where a call returns to, as all others.
    ReturnAddress,
}

impl PathCache {
    /// The node of a stack, outermost frame first; `None` for an empty one. Of one that is cut, frames further
    /// out are missing.
    pub(super) fn node(
        &mut self,
        stack: impl ExactSizeIterator<Item = Frame>,
        (innermost, is_cut): (Innermost, bool),
        translation: &mut Translation<'_>,
        (frames, stacks): (&mut Frames, &mut Stacks),
    ) -> Option<NodeId> {
        let depth = stack.len();
        let mut is_known = self.is_cut == is_cut;
        self.is_cut = is_cut;
        let mut caller = if is_cut { stacks.node(None, frames.truncated()) } else { None };
        for (level, frame) in stack.enumerate() {
            let position = if level == 0 { Position::Outermost } else { Position::Inner };
            if level + 1 == depth && innermost == Innermost::Instruction {
                let id = frames.instruction(frame, position, translation);
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
                    let id = frames.return_address(frame, position, translation);
                    let node = stacks.node(caller, id);
                    self.callers.extend(node.map(|node| (frame, node)));
                    node
                }
            };
        }
        caller
    }
}
