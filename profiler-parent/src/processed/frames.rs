//! The table of the recorded frames of all processes, without duplicates, and of their labels.
//!
//! Each process has its own numbers for modules and labels; [`Translation`] converts them to the
//! numbers of the profile. Every code address is the address of an instruction: one is subtracted
//! from a return address, which is the byte after the call.

use std::collections::HashMap;

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::reader::Definitions;
use profiler_gecko::CategoryRow;
use profiler_gecko::model::{TextTable, label_category};
use profiler_json::StringId;
use profiler_json::interner::Interner;

use super::libs::{LibId, Libs};
use super::quota::Quota;
use super::strings::ProfileStrings;
use profiler_symbols::source_path::viewer_form;

/// Limit on the different frames of a profile. Further frames are shown as one frame.
pub(super) const MAX_FRAMES: usize = 1 << 17;
/// Limit on the cached modules, and on the cached labels, of one process. Frames may name any
/// number of them.
const MAX_KNOWN: usize = 1 << 14;

/// A frame of the profile before it has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RawFrame {
    /// Code of a module, by its offset in the module.
    Code(LibId, u64, Position),
    /// Code of a process that is in no module, by its address there.
    Unknown(MemberNumber, u64, Position),
    /// Code of a module that is not known, by its offset in the module.
    UnknownModule(MemberNumber, u64, Position),
    /// A label.
    Label(LabelId),
    /// A label in which a thread used no processor time.
    IdleLabel(LabelId),
    /// Stands for frames that are missing further out.
    Truncated,
    /// Stands for all frames that did not fit.
    TooMany,
}

/// Number of a process, in the order in which processes are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MemberNumber(pub(super) u32);

/// The position of code in its stack. The outermost frame sets the category of the stack, unless a
/// label does, or the thread used no processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Position {
    Outermost,
    Inner,
    /// The innermost frame of a sample without processor time.
    Idle,
}

/// The kind of a frame's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressKind {
    /// The instruction that was interrupted.
    Instruction,
    /// The address to which a call returns: the byte after the call instruction.
    ReturnAddress,
}

/// Number of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LabelId(u32);

/// The displayed properties of a label.
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

/// All frames and labels, without duplicates.
#[derive(Debug)]
pub(super) struct Frames {
    all: Interner<RawFrame>,
    labels: Interner<Label>,
    /// The quota of frames, without the two placeholder frames, and the quota of labels.
    quotas: (Quota, Quota),
    lost: u64,
    member: MemberNumber,
}

impl Frames {
    /// Creates an empty table for this number of processes.
    pub(super) fn new(processes: usize) -> Self {
        let quotas = (
            Quota::new(0, MAX_FRAMES - 2, processes),
            Quota::new(0, MAX_FRAMES, processes),
        );
        Self {
            all: Interner::default(),
            labels: Interner::default(),
            quotas,
            lost: 0,
            member: MemberNumber::default(),
        }
    }

    /// Begins the next process.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.member.0 += 1;
        self.quotas.0.begin(self.all.all().len(), is_root);
        self.quotas.1.begin(self.labels.all().len(), is_root);
    }

    /// Closes the table: new frames and labels no longer fit.
    pub(super) fn close(&mut self) {
        self.quotas.0.close();
        self.quotas.1.close();
    }

    /// The process that has begun last.
    pub(super) const fn member(&self) -> MemberNumber {
        self.member
    }

    /// All frames, in order of their numbers.
    pub(super) fn all(&self) -> &[RawFrame] {
        self.all.all()
    }

    /// Whether all frames are code, or all are labels.
    pub(super) fn have_one_type(&self) -> bool {
        let has = |is_wanted: fn(&RawFrame) -> bool| self.all().iter().any(is_wanted);
        let is_code = |frame: &RawFrame| {
            matches!(
                frame,
                RawFrame::Code(..) | RawFrame::Unknown(..) | RawFrame::UnknownModule(..)
            )
        };
        !has(is_code) || !has(|frame| matches!(frame, RawFrame::Label(_)))
    }

    /// The displayed properties of a label.
    pub(super) fn label(&self, id: LabelId) -> Option<&Label> {
        self.labels.all().get(id.0 as usize)
    }

    /// Number of times that a frame did not fit.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Adds a recorded frame, unless it is known, and returns its number.
    pub(super) fn observed(
        &mut self,
        frame: Frame,
        position: Position,
        kind: AddressKind,
        translation: &mut Translation<'_>,
    ) -> FrameId {
        let nudge = u64::from(kind == AddressKind::ReturnAddress);
        let frame = translation.translate(frame, position, nudge, &mut self.labels, self.quotas.1);
        self.intern(frame)
    }

    /// The frame that stands for missing outer frames.
    pub(super) fn truncated(&mut self) -> FrameId {
        self.intern(RawFrame::Truncated)
    }

    fn intern(&mut self, frame: RawFrame) -> FrameId {
        // There is always room for the two placeholder frames, because the quota is two below the
        // limit.
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

/// Converts the module and label numbers of one process to those of the profile.
#[derive(Debug)]
pub(super) struct Translation<'a> {
    /// The process.
    pub(super) member: MemberNumber,
    pub(super) definitions: &'a Definitions,
    pub(super) categories: &'a [CategoryRow],
    pub(super) libs: &'a mut Libs,
    pub(super) strings: &'a mut ProfileStrings,
    pub(super) known: &'a mut KnownDefinitions,
}

/// The cached conversions of one process.
#[derive(Debug, Default)]
pub(super) struct KnownDefinitions {
    modules: HashMap<DefinitionId, Option<LibId>>,
    labels: HashMap<DefinitionId, Option<LabelId>>,
}

impl Translation<'_> {
    fn translate(
        &mut self,
        frame: Frame,
        position: Position,
        nudge: u64,
        labels: &mut Interner<Label>,
        quota: Quota,
    ) -> RawFrame {
        match frame {
            Frame::Code(module, relative) => match self.lib(module) {
                Some(lib) => RawFrame::Code(lib, relative.saturating_sub(nudge), position),
                None => {
                    let relative = relative.saturating_sub(nudge);
                    RawFrame::UnknownModule(self.member, relative, position)
                }
            },
            Frame::Unknown(address) => {
                RawFrame::Unknown(self.member, address.saturating_sub(nudge), position)
            }
            Frame::Label(id) => self
                .label(id, labels, quota)
                .map_or(RawFrame::TooMany, |label| match position {
                    Position::Idle => RawFrame::IdleLabel(label),
                    Position::Outermost | Position::Inner => RawFrame::Label(label),
                }),
        }
    }

    fn lib(&mut self, id: DefinitionId) -> Option<LibId> {
        if let Some(known) = self.known.modules.get(&id) {
            return *known;
        }
        let lib = self
            .definitions
            .module(id)
            .and_then(|module| self.libs.intern(module));
        if self.known.modules.len() < MAX_KNOWN {
            self.known.modules.insert(id, lib);
        }
        lib
    }

    fn label(
        &mut self,
        id: DefinitionId,
        labels: &mut Interner<Label>,
        quota: Quota,
    ) -> Option<LabelId> {
        if let Some(known) = self.known.labels.get(&id) {
            return *known;
        }
        let label = labels
            .intern(self.new_label(id), quota.limit())
            .map(LabelId);
        if self.known.labels.len() < MAX_KNOWN {
            self.known.labels.insert(id, label);
        }
        label
    }

    fn new_label(&mut self, id: DefinitionId) -> Label {
        let Some(found) = self.definitions.label(id) else {
            let name = self.strings.own("(unknown label)");
            return Label {
                name,
                category: 0,
                subcategory: 0,
                file: None,
                line: None,
            };
        };
        let (category, subcategory) = label_category(self.categories, self.definitions, found);
        let narrow = |number: u64| u32::try_from(number).unwrap_or(0);
        Label {
            name: self.strings.intern(if found.name.is_empty() {
                "(unnamed)"
            } else {
                &found.name
            }),
            category: narrow(category),
            subcategory: narrow(subcategory),
            file: (!found.file.is_empty()).then(|| self.strings.intern(&viewer_form(&found.file))),
            line: (found.line > 0).then_some(found.line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_placeholder_frames_always_fit() {
        let mut frames = Frames::new(1);
        let last = (0..MAX_FRAMES as u64 + 5)
            .map(|at| frames.intern(RawFrame::Unknown(MemberNumber(1), at, Position::Inner)))
            .last();
        let too_many = last.unwrap();
        let truncated = frames.truncated();
        let shown = |FrameId(id)| frames.all().get(id as usize).copied();
        assert_eq!(shown(too_many), Some(RawFrame::TooMany));
        assert_eq!(shown(truncated), Some(RawFrame::Truncated));
        assert_eq!((frames.all().len(), frames.lost()), (MAX_FRAMES, 7));
    }
}
