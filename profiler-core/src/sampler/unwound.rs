//! Frames of the unwinder as frames of a pool.
//!
//! Used wherever a stack is unwound. A module's number in the unwinder is its definition's number in
//! the pool.

use profiler_unwind::{ModuleNumber, UnwoundFrame};

use super::PlacedFrame;
use crate::entry::stack::Frame;
use crate::ids::DefinitionId;

/// The number of a module in the unwinder. `None` without a definition.
pub(super) fn module_number(id: DefinitionId) -> Option<ModuleNumber> {
    (!id.is_none()).then(|| ModuleNumber(id.get()))
}

/// The frame of the pool, and its stack pointer.
pub(super) fn placed_frame(unwound: UnwoundFrame) -> PlacedFrame {
    let UnwoundFrame {
        module,
        address,
        sp,
    } = unwound;
    let frame = match module {
        Some(ModuleNumber(number)) => Frame::Code(DefinitionId::new(number), address),
        None => Frame::Unknown(address),
    };
    (frame, sp)
}
