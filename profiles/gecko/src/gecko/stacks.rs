//! The stack table of one thread: each distinct stack once, as its innermost frame and the stack
//! around it.
//!
//! Filled by samples and markers while their rows are written; written after them. Invariant: a
//! stack comes after the stack around it, as viewers require. Memory grows with the number of
//! distinct stacks, not with the number of samples.

use std::io::Write;

use super::frames::{FrameId, FrameTable, ShownFrame};
use super::process::GeckoProcess;
use super::table;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::entry::stack::{Frame, MAX_FRAMES, Stack};
use profiler_json::JsonWriter;
use profiler_json::interner::Interner;
use profiler_json::strings::StringTable;

/// Number of a stack in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StackId(u32);

impl StackId {
    /// The bare number, as rows hold it.
    pub(super) fn get(self) -> u64 {
        u64::from(self.0)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct StackTable {
    frames: FrameTable,
    rows: Interner<(Option<StackId>, FrameId)>,
    /// The placeholder for missing frames.
    truncated: Option<StackId>,
}

impl StackTable {
    /// The stack around the outermost frame of a stack: the placeholder if frames are missing.
    fn root(&mut self, is_truncated: bool) -> Option<StackId> {
        if !is_truncated {
            return None;
        }
        let id = self.intern(None, ShownFrame::Truncated);
        self.truncated = Some(id);
        Some(id)
    }

    /// The stack of `frame` inside the stack `around`.
    fn add(&mut self, around: Option<StackId>, frame: Frame) -> StackId {
        let is_outermost = around.is_none() || around == self.truncated;
        let shown = if is_outermost {
            ShownFrame::Outermost(frame)
        } else {
            ShownFrame::Inner(frame)
        };
        self.intern(around, shown)
    }

    /// The stack of `frame` inside the stack `around`, for samples without processor time.
    fn add_idle(&mut self, around: Option<StackId>, frame: Frame) -> StackId {
        self.intern(around, ShownFrame::Idle(frame))
    }

    /// A whole stack; `None` for one without frames.
    pub(super) fn of(&mut self, stack: Stack<'_>) -> Option<StackId> {
        let root = self.root(stack.is_cut());
        stack
            .frames()
            .fold(root, |around, frame| Some(self.add(around, frame)))
    }

    fn intern(&mut self, around: Option<StackId>, frame: ShownFrame) -> StackId {
        let row = (around, self.frames.intern(frame));
        StackId(self.rows.intern(row, usize::MAX).unwrap_or(u32::MAX))
    }

    /// Writes the keys `stackTable` and `frameTable`.
    pub(super) fn write<W: Write>(
        &self,
        process: &GeckoProcess<'_>,
        strings: &mut StringTable,
        out: &mut JsonWriter<W>,
    ) {
        table::begin("stackTable", r#"{"prefix":0,"frame":1}"#, out);
        for (around, frame) in self.rows.all() {
            out.begin_array();
            out.u64_or_null(around.map(StackId::get));
            out.u64(frame.get());
            out.end_array();
        }
        table::end(out);
        self.frames.write(process, strings, out);
    }
}

/// The stack of a thread's last sample. The next sample contains only the difference to it.
#[derive(Debug, Default)]
pub(super) struct StackPath {
    frames: Vec<Frame>,
    /// Numbers of the outermost stacks of these frames, as far as they were interned.
    ids: Vec<StackId>,
    is_truncated: bool,
}

impl StackPath {
    /// Begins a new chunk: discards the stack of the previous one.
    pub(super) fn begin_chunk(&mut self) {
        self.frames.clear();
        self.ids.clear();
    }

    /// Advances to the thread's next sample in the chunk. Must be called for every sample.
    pub(super) fn follow(&mut self, sample: &SampleEntry<'_>) {
        let is_truncated = sample.cut || sample.failed;
        if self.is_truncated != is_truncated {
            self.ids.clear(); // the same frames have another stack around them
        }
        self.is_truncated = is_truncated;
        self.frames.truncate(sample.shared());
        self.ids.truncate(sample.shared());
        let room = MAX_FRAMES.saturating_sub(self.frames.len());
        self.frames.extend(sample.own().frames().take(room));
    }

    /// The number of its stack; `None` if it has no frames. The innermost frame of an idle sample
    /// has a category of its own, so it is another frame than that of the same code while it runs.
    pub(super) fn intern(&mut self, stacks: &mut StackTable, is_idle: bool) -> Option<StackId> {
        let idle_frame = self.frames.last().copied().filter(|_| is_idle);
        let depth = self.frames.len() - usize::from(idle_frame.is_some());
        let known = self.ids.len().min(depth);
        let mut around = match self.ids.get(..known).and_then(<[_]>::last) {
            Some(id) => Some(*id),
            None => stacks.root(self.is_truncated),
        };
        for frame in self.frames.get(known..depth).unwrap_or_default() {
            let id = stacks.add(around, *frame);
            self.ids.push(id);
            around = Some(id);
        }
        match idle_frame {
            Some(frame) => Some(stacks.add_idle(around, frame)),
            None => around,
        }
    }
}
