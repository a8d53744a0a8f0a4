//! The latest stack of each thread, as the threads of a process have recorded them.
//!
//! A sample contains only the frames that differ from the previous sample of its thread in the same
//! chunk; [`RecorderPaths`] keeps what is needed to complete it. So a sample costs as much as its
//! own frames, not as much as its depth. Invariant: memory is bounded, whatever a pool contains.

use profiler_core::ids::{ThreadId, ThreadIndex};
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::reader::ChunkIdentity;

use super::{FramePlace, FrameSource, NodeKey, NodeNumber, StackTree};
use crate::hash::FastMap;

/// Limit on the remembered frames of one process: 16 MiB.
pub(super) const MAX_REMEMBERED: usize = 1 << 20;
/// Limit on the recording threads of one process whose stacks are remembered.
pub(super) const MAX_RECORDERS: usize = 256;
/// Limit on the threads of one recorder whose places are reused from chunk to chunk.
pub(super) const MAX_KEPT: usize = 1024;

/// The latest stack of one thread.
#[derive(Debug)]
pub(super) struct LatestStack {
    /// The encoded frames, outermost first.
    pub(super) words: Vec<u64>,
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
        sample.apply_to(&mut self.words);
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
pub(super) struct RecorderPath {
    chunk: Option<ChunkIdentity>,
    pub(super) of_threads: FastMap<Option<ThreadId>, LatestStack>,
    /// Frames in `of_threads`, and one for each thread.
    pub(super) remembered: usize,
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
        if self.of_threads.len() > MAX_KEPT {
            self.of_threads = FastMap::default();
        } else {
            self.of_threads.clear();
        }
    }
}

/// The latest stacks that all threads of a process have recorded.
#[derive(Debug, Default)]
pub(crate) struct RecorderPaths {
    pub(super) of_recorders: FastMap<ThreadIndex, RecorderPath>,
    pub(super) remembered: usize,
    uses: u64,
}

impl RecorderPaths {
    /// The node of a sample, which `recorder` has recorded in this chunk.
    pub(crate) fn node(
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
        let stack = path.of_threads.entry(sample.foreign).or_insert_with(|| {
            path.remembered += 1;
            LatestStack::default()
        });
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
        if self.remembered > MAX_REMEMBERED {
            *self = Self::default();
        }
        let is_full = self.of_recorders.len() >= MAX_RECORDERS;
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
