//! Allocated and freed memory: rows of the marker table that viewers recognise by their type.
//!
//! Called by [`super::threads`] for the allocations among a thread's own entries. All rows have
//! address and thread, because viewers require them in all rows or in none.

use std::io::Write;

use super::markers::MarkerTable;
use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::sample::AllocationEntry;

/// The type name that viewers reserve for allocations.
const TYPE_NAME: &str = "Native allocation";

/// Writes one allocation of a thread.
pub(super) fn write<W: Write>(
    table: &mut MarkerTable<'_, '_, W>,
    thread: ThreadId,
    allocation: &AllocationEntry<'_>,
) {
    table.write_instant(TYPE_NAME, allocation.at, |table| {
        let out = table.out();
        out.begin_object();
        out.entry_str("type", TYPE_NAME);
        out.key("size");
        out.i64(allocation.bytes);
        out.entry_u64("memoryAddress", allocation.address);
        out.entry_u64("threadId", thread.get());
        table.write_stack(allocation.stack, allocation.at, None);
        table.out().end_object();
    });
}
