//! Markers that carry their stack.
//!
//! Called by `record` when the options ask for a stack. If the options are constants, the compiler
//! evaluates that condition, so markers without a stack do not pay for it. The stack is taken only
//! if the marker is recorded, after its time and before its payload.

use super::record::{Site, add_named, address_of, front, with_site};
use super::{MarkerOptions, MarkerStack};
use crate::backtrace::Backtrace;
use crate::entry::{Kind, stack, with_kind};
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::record::recorder::Recorder;
use crate::record::writer::{Front, PayloadBuffer};

/// Records a marker with its stack. The frames at and below the address `own` are the profiler's
/// and are left out. `None` stands for an address in this function's frame.
#[cold]
#[inline(never)]
pub(super) fn add_with_stack(
    options: MarkerOptions,
    own: Option<u64>,
    name: &str,
    define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    mut encode: impl FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
) {
    let here = 0_u8;
    let own = own.unwrap_or(address_of(&here));
    let Front { head, fixed } = front(options.timing.resolve(), options.thread);
    let front = Front {
        head: with_kind(head, Kind::MarkerWithStack),
        fixed,
    };
    with_site(define, |recorder: &Recorder, site: Site| {
        let taken = match options.stack {
            MarkerStack::None => Backtrace::none(),
            MarkerStack::Labels => Backtrace::labels(),
            MarkerStack::Full => Backtrace::full(own),
        };
        add_named(recorder, site, front, name, |room: PayloadBuffer<'_>| {
            let Some(len) = stack::write(room.bytes, taken.frames(), taken.is_cut()) else {
                return Ok(None);
            };
            let Some(room) = room.behind(len) else {
                return Ok(None);
            };
            Ok(encode(room)?.map(|payload| payload.saturating_add(len)))
        });
    });
}
