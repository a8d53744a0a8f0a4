//! The stacks of one process as a tree of recorded frames, and the latest stack of each thread.
//!
//! Filled while a pool is followed. A sample contains only the frames that differ from the previous
//! sample of its thread in the same chunk; [`RecorderPaths`] keeps what is needed to complete it.
//! So a sample costs as much as its own frames, not as much as its depth. Invariants: a node's
//! caller has a smaller number; a stack that does not fit loses inner frames, never its time;
//! memory is bounded, whatever a pool contains.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use profiler_core::ids::{ThreadId, ThreadIndex};
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::entry::stack::{Frame, MAX_FRAMES};
use profiler_core::internal::profile::interner::ItemIndex;
use profiler_core::internal::reader::ChunkIdentity;

use super::frames::FrameNumber;

/// Limit on the nodes of one process.
const MOST_NODES: usize = 1 << 17;
/// Limit on the remembered frames of one process: 16 MiB.
const MOST_REMEMBERED: usize = 1 << 20;
/// Limit on the recording threads of one process whose stacks are remembered.
const MOST_RECORDERS: usize = 256;
/// Limit on the threads of one recorder whose places are reused from chunk to chunk.
const MOST_KEPT: usize = 1024;

/// Number of a node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeNumber(pub(super) u32);

impl NodeNumber {
    /// No node: an empty stack.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// What the address of a code frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FramePlace {
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
}

/// The frames of the session, to which a tree adds its new frames.
pub(super) trait FrameSource {
    /// Whether the tree may grow by one node, which is then taken.
    fn has_room(&mut self) -> bool;

    /// The number of a recorded frame.
    fn recorded(&mut self, frame: Frame, place: FramePlace) -> FrameNumber;

    /// The number of the frame that stands for missing frames.
    fn truncated(&mut self) -> FrameNumber;
}

/// All stacks of one process.
#[derive(Debug)]
pub(super) struct StackTree {
    nodes: Vec<StackNode>,
    index: ItemIndex,
    hasher: RandomState,
    lost: u64,
}

impl Default for StackTree {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            index: ItemIndex::default(),
            hasher: RandomState::new(),
            lost: 0,
        }
    }
}

impl StackTree {
    /// All nodes in the order of their numbers: caller and frame.
    pub(super) fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (NodeNumber, FrameNumber)> + DoubleEndedIterator + '_ {
        self.nodes.iter().map(|node| (node.caller, node.frame))
    }

    /// Number of nodes.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Number of times that a frame did not fit.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// The node of a frame; its caller's node if there is no room.
    fn node(
        &mut self,
        caller: NodeNumber,
        key: NodeKey,
        frames: &mut impl FrameSource,
    ) -> NodeNumber {
        let Self {
            nodes,
            index,
            hasher,
            ..
        } = self;
        let hash = |caller: NodeNumber, key: NodeKey| {
            let word = match key {
                NodeKey::Recorded(word, place) => (word, place as u8),
                NodeKey::Truncated => (0, u8::MAX),
            };
            hasher.hash_one((caller.0, word))
        };
        let node_at = |number: u32| nodes.get(number as usize);
        let is_equal = |number: u32| {
            node_at(number).is_some_and(|node| node.caller == caller && node.key == key)
        };
        if let Some(known) = index.find(hash(caller, key), is_equal) {
            return NodeNumber(known);
        }
        if nodes.len() >= MOST_NODES || !frames.has_room() {
            self.lost += 1;
            return caller;
        }
        let frame = match key {
            NodeKey::Recorded(word, place) => frames.recorded(Frame::decode(word), place),
            NodeKey::Truncated => frames.truncated(),
        };
        let number = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        nodes.push(StackNode { caller, key, frame });
        index.add(number, |number| {
            nodes
                .get(number as usize)
                .map_or(0, |node| hash(node.caller, node.key))
        });
        NodeNumber(number)
    }
}

/// The latest stack of one thread.
#[derive(Debug)]
struct LatestStack {
    /// The encoded frames, outermost first.
    words: Vec<u64>,
    /// The nodes of the frames that have called another frame.
    callers: Vec<NodeNumber>,
    innermost: NodeNumber,
    is_cut: bool,
}

impl Default for LatestStack {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            callers: Vec::new(),
            innermost: NodeNumber::NONE,
            is_cut: false,
        }
    }
}

impl LatestStack {
    /// The node of the thread's next sample.
    fn next(
        &mut self,
        sample: &SampleEntry<'_>,
        tree: &mut StackTree,
        frames: &mut impl FrameSource,
    ) -> NodeNumber {
        let known = self.words.len();
        // Frames of an entry that was not read cannot be shared.
        let is_cut = sample.cut || sample.failed || sample.shared() > known;
        let is_same = sample.own().is_empty() && sample.shared() >= known && known > 0;
        if is_same && (is_cut == self.is_cut || sample.shared() > known) {
            return self.innermost;
        }
        self.words.truncate(sample.shared());
        let room = MAX_FRAMES.saturating_sub(self.words.len());
        let own = sample.own().frames().take(room).map(Frame::encode);
        self.words.extend(own);
        let kept = sample.shared().min(self.words.len().saturating_sub(1));
        self.callers.truncate(kept);
        if is_cut != self.is_cut {
            self.callers.clear();
            self.is_cut = is_cut;
        }
        self.innermost = self.walk(tree, frames);
        self.innermost
    }

    /// Finds the nodes of the frames that are not known yet.
    fn walk(&mut self, tree: &mut StackTree, frames: &mut impl FrameSource) -> NodeNumber {
        let mut caller = match self.callers.last() {
            Some(known) => *known,
            None if self.is_cut => tree.node(NodeNumber::NONE, NodeKey::Truncated, frames),
            None => NodeNumber::NONE,
        };
        let Some((innermost, callers)) = self.words.split_last() else {
            return caller;
        };
        for word in callers.iter().skip(self.callers.len()) {
            caller = tree.node(caller, NodeKey::Recorded(*word, FramePlace::Caller), frames);
            self.callers.push(caller);
        }
        let key = NodeKey::Recorded(*innermost, FramePlace::Innermost);
        tree.node(caller, key, frames)
    }
}

/// The latest stacks that one thread has recorded in its present chunk.
#[derive(Debug, Default)]
struct RecorderPath {
    chunk: Option<ChunkIdentity>,
    of_threads: HashMap<Option<ThreadId>, LatestStack>,
    /// Frames in `of_threads`, and one for each thread.
    remembered: usize,
    /// When it was last used: the number of the use.
    used: u64,
}

impl RecorderPath {
    /// Forgets the stacks of the previous chunk, which no sample of this chunk can share. Takes as
    /// many steps as threads were sampled in the previous chunk, and a bounded number if a pool
    /// claims very many.
    fn begin_chunk(&mut self, chunk: ChunkIdentity) {
        self.chunk = Some(chunk);
        self.remembered = 0;
        if self.of_threads.len() > MOST_KEPT {
            self.of_threads = HashMap::new();
        } else {
            self.of_threads.clear();
        }
    }
}

/// The latest stacks that all threads of a process have recorded.
#[derive(Debug, Default)]
pub(super) struct RecorderPaths {
    of_recorders: HashMap<ThreadIndex, RecorderPath>,
    remembered: usize,
    uses: u64,
}

impl RecorderPaths {
    /// The node of a sample, which `recorder` has recorded in this chunk.
    pub(super) fn node(
        &mut self,
        recorder: ThreadIndex,
        chunk: ChunkIdentity,
        sample: &SampleEntry<'_>,
        tree: &mut StackTree,
        frames: &mut impl FrameSource,
    ) -> NodeNumber {
        self.make_room(recorder);
        self.uses += 1;
        let path = self.of_recorders.entry(recorder).or_default();
        path.used = self.uses;
        let remembered = path.remembered;
        if path.chunk != Some(chunk) {
            path.begin_chunk(chunk);
        }
        if !path.of_threads.contains_key(&sample.foreign) {
            path.remembered += 1;
        }
        let stack = path.of_threads.entry(sample.foreign).or_default();
        let before = stack.words.len();
        let node = stack.next(sample, tree, frames);
        path.remembered = (path.remembered + stack.words.len()).saturating_sub(before);
        self.remembered = (self.remembered + path.remembered).saturating_sub(remembered);
        node
    }

    /// Makes room for one more stack. A recorder that needs a place takes that of the least
    /// recently used recorder. If too many frames are remembered, which only forged pools cause,
    /// all of them are forgotten. The next samples of these threads then lack the frames that they
    /// share.
    fn make_room(&mut self, recorder: ThreadIndex) {
        if self.remembered > MOST_REMEMBERED {
            *self = Self::default();
        }
        let is_full = self.of_recorders.len() >= MOST_RECORDERS;
        if !is_full || self.of_recorders.contains_key(&recorder) {
            return;
        }
        let oldest = self.of_recorders.iter().min_by_key(|(_, path)| path.used);
        let oldest = oldest.map(|(recorder, _)| *recorder);
        let gone = oldest.and_then(|oldest| self.of_recorders.remove(&oldest));
        let gone = gone.map_or(0, |path| path.remembered);
        self.remembered = self.remembered.saturating_sub(gone);
    }
}

#[cfg(test)]
mod tests;
