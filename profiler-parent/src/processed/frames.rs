//! Frames of all processes, as they were observed, each once; and what they refer to.
//!
//! Each process has numbers of its own for its modules and labels; [`Translation`] turns them into
//! those of the profile. An address of code is that of an instruction: where a call returns to is
//! one byte beyond its last.

use std::collections::HashMap;

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::profile::interner::Interner;
use profiler_core::internal::profile::model::{TextTable, label_category};
use profiler_core::internal::profile::{CategoryRow, StringId};
use profiler_core::internal::reader::Definitions;

use super::libs::{LibId, Libs};
use super::quota::Quota;
use super::strings::ProfileStrings;

/// Most different frames of a profile; what is more is shown as one.
pub(super) const MAX_FRAMES: usize = 1 << 17;
/// Modules and labels of one process whose translation is remembered. Frames may name any.
const MOST_KNOWN: usize = 1 << 14;

/// A frame of the profile before it has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RawFrame {
    /// Code of a module, relative to it.
    Code(LibId, u64, Position),
    /// Code of no known module.
    Unknown(u64, Position),
    /// A label.
    Label(LabelId),
    /// Stands for frames that are missing further out.
    Truncated,
    /// Stands for all frames that found no room.
    TooMany,
}

/// Where code stands in its stack. The outermost says what the stack is about, unless a label does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Position {
    Outermost,
    Inner,
}

/// What the address of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// The instruction that was interrupted.
    Instruction,
    /// Where a call returns to: one byte beyond the call's last.
    ReturnAddress,
}

/// Number of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LabelId(u32);

/// What a label shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Label {
    pub(super) name: StringId,
    pub(super) category: u32,
    pub(super) subcategory: u32,
    pub(super) file: Option<StringId>,
    pub(super) line: Option<u32>,
}

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FrameId(pub(super) u32);

/// All frames, each once.
#[derive(Debug)]
pub(super) struct Frames {
    all: Interner<RawFrame>,
    labels: Interner<Label>,
    /// Of frames but for the two that stand for others, and of labels.
    quotas: (Quota, Quota),
    lost: u64,
}

impl Frames {
    /// None yet; so many processes are to come.
    pub(super) fn new(processes: usize) -> Self {
        let quotas = (Quota::new(0, MAX_FRAMES - 2, processes), Quota::new(0, MAX_FRAMES, processes));
        Self { all: Interner::default(), labels: Interner::default(), quotas, lost: 0 }
    }

    /// The next process begins.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quotas.0.begin(self.all.all().len(), is_root);
        self.quotas.1.begin(self.labels.all().len(), is_root);
    }

    /// All have been seen: what is not known by now stays unknown.
    pub(super) fn close(&mut self) {
        self.quotas.0.close();
        self.quotas.1.close();
    }

    /// All frames, in order of their numbers.
    pub(super) fn all(&self) -> &[RawFrame] {
        self.all.all()
    }

    /// What a label shows.
    pub(super) fn label(&self, id: LabelId) -> Option<&Label> {
        self.labels.all().get(id.0 as usize)
    }

    /// How many times a frame found no room.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// A frame as it was observed.
    pub(super) fn observed(
        &mut self,
        frame: Frame,
        position: Position,
        kind: AddressKind,
        translation: &mut Translation<'_>,
    ) -> FrameId {
        let nudge = u64::from(kind == AddressKind::ReturnAddress);
        let frame = translation.translate(frame, position, nudge, (&mut self.labels, self.quotas.1));
        self.intern(frame)
    }

    /// What stands for missing frames.
    pub(super) fn truncated(&mut self) -> FrameId {
        self.intern(RawFrame::Truncated)
    }

    fn intern(&mut self, frame: RawFrame) -> FrameId {
        // There is always room for the two that stand for others: no quota goes up to all.
        let fitting = match frame {
            RawFrame::TooMany => None,
            RawFrame::Truncated => self.all.intern(frame, MAX_FRAMES),
            frame => self.all.intern(frame, self.quotas.0.limit()),
        };
        let id = fitting.or_else(|| {
            self.lost += 1;
            self.all.intern(RawFrame::TooMany, MAX_FRAMES)
        });
        FrameId(id.unwrap_or(u32::MAX))
    }
}

/// What the numbers of one process mean in the profile.
#[derive(Debug)]
pub(super) struct Translation<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) categories: &'a [CategoryRow],
    pub(super) libs: &'a mut Libs,
    pub(super) strings: &'a mut ProfileStrings,
    pub(super) known: &'a mut Known,
}

/// What was translated before, kept per process.
#[derive(Debug, Default)]
pub(super) struct Known {
    modules: HashMap<DefinitionId, Option<LibId>>,
    labels: HashMap<DefinitionId, Option<LabelId>>,
}

impl Translation<'_> {
    fn translate(
        &mut self,
        frame: Frame,
        position: Position,
        nudge: u64,
        labels: (&mut Interner<Label>, Quota),
    ) -> RawFrame {
        match frame {
            Frame::Code(module, relative) => match self.lib(module) {
                Some(lib) => RawFrame::Code(lib, relative.saturating_sub(nudge), position),
                None => RawFrame::Unknown(relative.saturating_sub(nudge), position),
            },
            Frame::Unknown(address) => RawFrame::Unknown(address.saturating_sub(nudge), position),
            Frame::Label(id) => self.label(id, labels).map_or(RawFrame::TooMany, RawFrame::Label),
        }
    }

    fn lib(&mut self, id: DefinitionId) -> Option<LibId> {
        if let Some(known) = self.known.modules.get(&id) {
            return *known;
        }
        let lib = self.definitions.module(id).and_then(|module| self.libs.intern(module));
        if self.known.modules.len() < MOST_KNOWN {
            self.known.modules.insert(id, lib);
        }
        lib
    }

    fn label(&mut self, id: DefinitionId, (labels, quota): (&mut Interner<Label>, Quota)) -> Option<LabelId> {
        if let Some(known) = self.known.labels.get(&id) {
            return *known;
        }
        let label = labels.intern(self.new_label(id), quota.limit()).map(LabelId);
        if self.known.labels.len() < MOST_KNOWN {
            self.known.labels.insert(id, label);
        }
        label
    }

    fn new_label(&mut self, id: DefinitionId) -> Label {
        let Some(found) = self.definitions.label(id) else {
            let name = self.strings.own("(unknown label)");
            return Label { name, category: 0, subcategory: 0, file: None, line: None };
        };
        let (category, subcategory) = label_category(self.categories, self.definitions, found);
        let narrow = |number: u64| u32::try_from(number).unwrap_or(0);
        Label {
            name: self.strings.intern(if found.name.is_empty() { "(unnamed)" } else { &found.name }),
            category: narrow(category),
            subcategory: narrow(subcategory),
            file: (!found.file.is_empty()).then(|| self.strings.intern(&found.file)),
            line: (found.line > 0).then_some(found.line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_frames_that_stand_for_others_always_find_room() {
        let mut frames = Frames::new(1);
        let last =
            (0..MAX_FRAMES as u64 + 5).map(|at| frames.intern(RawFrame::Unknown(at, Position::Inner))).last();
        let too_many = last.unwrap();
        let truncated = frames.truncated();
        let shown = |FrameId(id)| frames.all().get(id as usize).copied();
        assert_eq!(shown(too_many), Some(RawFrame::TooMany));
        assert_eq!(shown(truncated), Some(RawFrame::Truncated));
        assert_eq!((frames.all().len(), frames.lost()), (MAX_FRAMES, 7));
    }
}
