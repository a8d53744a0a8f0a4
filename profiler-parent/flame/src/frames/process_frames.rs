//! Adds the frames of one process to the frames of all processes.
//!
//! Used while a pool is read. Invariant: the numbers of modules and labels come from the process
//! and are not trusted; an unknown number gives a frame named `(unknown label)`, or an address.

use std::collections::HashMap;

use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::reader::Definitions;

use super::{FrameTable, FunctionKind, MAX_MODULES, ModuleNumber, SharedFrame};
use crate::stack_tree::{FrameNumber, FramePlace, FrameSource};
use crate::weights::Room;

/// The frames of one process: its numbers of modules and labels, and the table that they go to.
pub(crate) struct ProcessFrames<'a> {
    pub(crate) table: &'a mut FrameTable,
    pub(crate) definitions: &'a Definitions,
    pub(crate) known: &'a mut KnownModules,
    pub(crate) room: &'a mut Room,
}

/// The files of one process by its own numbers. At most [`MAX_MODULES`].
#[derive(Debug, Default)]
pub(crate) struct KnownModules(HashMap<DefinitionId, Option<ModuleNumber>>);

impl FrameSource for ProcessFrames<'_> {
    fn has_room(&mut self) -> bool {
        self.room.take_node()
    }

    fn recorded(&mut self, frame: Frame, place: FramePlace) -> FrameNumber {
        let nudge = u64::from(place == FramePlace::Caller);
        match frame {
            Frame::Code(module, address) => {
                let address = address.saturating_sub(nudge);
                match self.module(module) {
                    Some(module) => self.table.code(module, address),
                    None => self.table.unknown(address),
                }
            }
            Frame::Unknown(address) => self.table.unknown(address.saturating_sub(nudge)),
            Frame::Label(id) => {
                let label = self.definitions.label(id);
                let name = label.map_or("(unknown label)", |label| {
                    if label.name.is_empty() {
                        "(unnamed)"
                    } else {
                        &label.name
                    }
                });
                let function = self.table.function(name, None, FunctionKind::Label);
                self.table
                    .frame(SharedFrame::Function(function), |_| function)
            }
        }
    }

    fn truncated(&mut self) -> FrameNumber {
        let function = self.table.truncated;
        self.table
            .frame(SharedFrame::Function(function), |_| function)
    }
}

impl ProcessFrames<'_> {
    fn module(&mut self, id: DefinitionId) -> Option<ModuleNumber> {
        if let Some(known) = self.known.0.get(&id) {
            return *known;
        }
        let definition = self.definitions.module(id)?;
        let number = self.table.module(&definition.path, &definition.build_id);
        if self.known.0.len() < MAX_MODULES {
            self.known.0.insert(id, number);
        }
        number
    }
}
