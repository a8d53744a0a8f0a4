//! Frames of all processes, as they were observed, each once; and what they refer to.
//!
//! Each process has numbers of its own for its modules and labels; [`Translation`] turns them into those
//! of the profile. An address of code is that of an instruction: where a call returns to is one byte
//! beyond its last.

use std::collections::HashMap;

use profiler_core::entry::stack::Frame;
use profiler_core::ids::DefinitionId;
use profiler_core::profile::gecko::shared::category_pair;
use profiler_core::profile::{CategoryRow, StringId, StringTable};
use profiler_core::reader::Definitions;

use super::libs::{LibId, Libs};

/// Most different frames of a profile; what is more is shown as one. About 100 bytes each.
const MAX_FRAMES: usize = 1 << 19;

/// A frame of the profile before it has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RawFrame {
    /// Code of a module, relative to it.
    Code(LibId, u64, Position),
    /// Code of no known module.
    Unknown(u64, Position),
    /// A label.
    Label(Label),
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

/// What a label shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Label {
    pub(super) name: StringId,
    pub(super) category: u64,
    pub(super) subcategory: u64,
    pub(super) file: Option<StringId>,
    pub(super) line: Option<u32>,
}

/// Number of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FrameId(pub(super) u32);

/// All frames, each once.
#[derive(Debug, Default)]
pub(super) struct Frames {
    known: HashMap<RawFrame, FrameId>,
    all: Vec<RawFrame>,
}

impl Frames {
    /// All frames, in order of their numbers.
    pub(super) fn all(&self) -> &[RawFrame] {
        &self.all
    }

    /// Where a frame of code stands.
    pub(super) fn position(&self, number: usize) -> Position {
        match self.all.get(number) {
            Some(RawFrame::Code(_, _, position) | RawFrame::Unknown(_, position)) => *position,
            _ => Position::Inner,
        }
    }

    /// The frame of an interrupted instruction.
    pub(super) fn instruction(
        &mut self,
        frame: Frame,
        position: Position,
        translation: &mut Translation<'_>,
    ) -> FrameId {
        let frame = translation.translate(frame, position, 0);
        self.intern(frame)
    }

    /// The frame of a call.
    pub(super) fn return_address(
        &mut self,
        frame: Frame,
        position: Position,
        translation: &mut Translation<'_>,
    ) -> FrameId {
        let frame = translation.translate(frame, position, 1);
        self.intern(frame)
    }

    /// What stands for missing frames.
    pub(super) fn truncated(&mut self) -> FrameId {
        self.intern(RawFrame::Truncated)
    }

    fn intern(&mut self, frame: RawFrame) -> FrameId {
        if let Some(known) = self.known.get(&frame) {
            return *known;
        }
        let is_full = self.all.len() >= MAX_FRAMES && frame != RawFrame::TooMany;
        if is_full {
            return self.intern(RawFrame::TooMany);
        }
        let next = FrameId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(frame);
        self.known.insert(frame, next);
        next
    }
}

/// What the numbers of one process mean in the profile.
#[derive(Debug)]
pub(super) struct Translation<'a> {
    pub(super) definitions: &'a Definitions,
    pub(super) categories: &'a [CategoryRow],
    pub(super) libs: &'a mut Libs,
    pub(super) strings: &'a mut StringTable,
    pub(super) known: &'a mut Known,
}

/// What was translated before, kept per process.
#[derive(Debug, Default)]
pub(super) struct Known {
    modules: HashMap<DefinitionId, Option<LibId>>,
    labels: HashMap<DefinitionId, Label>,
}

impl Translation<'_> {
    fn translate(&mut self, frame: Frame, position: Position, nudge: u64) -> RawFrame {
        match frame {
            Frame::Code(module, relative) => match self.lib(module) {
                Some(lib) => RawFrame::Code(lib, relative.saturating_sub(nudge), position),
                None => RawFrame::Unknown(relative.saturating_sub(nudge), position),
            },
            Frame::Unknown(address) => RawFrame::Unknown(address.saturating_sub(nudge), position),
            Frame::Label(id) => RawFrame::Label(self.label(id)),
        }
    }

    fn lib(&mut self, id: DefinitionId) -> Option<LibId> {
        let (definitions, libs) = (self.definitions, &mut *self.libs);
        *self.known.modules.entry(id).or_insert_with(|| Some(libs.intern(definitions.module(id)?)))
    }

    fn label(&mut self, id: DefinitionId) -> Label {
        if let Some(label) = self.known.labels.get(&id) {
            return *label;
        }
        let label = self.new_label(id);
        self.known.labels.insert(id, label);
        label
    }

    fn new_label(&mut self, id: DefinitionId) -> Label {
        let Some(found) = self.definitions.label(id) else {
            let name = self.strings.intern("(unknown label)");
            return Label { name, category: 0, subcategory: 0, file: None, line: None };
        };
        let category = self.definitions.category(found.category);
        let subcategory = category
            .and_then(|category| category.subcategories.get(usize::from(found.subcategory).checked_sub(1)?));
        let name = category.map(|category| category.name.as_str());
        let (category, subcategory) = category_pair(self.categories, name, subcategory.map(String::as_str));
        Label {
            name: self.strings.intern(if found.name.is_empty() { "(unnamed)" } else { &found.name }),
            category,
            subcategory,
            file: (!found.file.is_empty()).then(|| self.strings.intern(&found.file)),
            line: (found.line > 0).then_some(found.line),
        }
    }
}
