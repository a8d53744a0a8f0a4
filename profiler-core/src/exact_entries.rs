//! Entries of every kind with exact times, written into the pool of this process.
//!
//! Only for tests of the crates that read pools. The recorder counts the entries that it drops.
//! Samples come from [`SampleWriter`](crate::sampler::SampleWriter), which takes exact times, too.
//! Invariant: the entries are those that the recorder, the sampler and the allocator write.

use crate::entry::periodic::{COUNTER_VALUE_BYTES, CounterValue, OverheadEntry, write_counter};
use crate::entry::sample::write_allocation;
use crate::entry::stack::{self, Frame};
use crate::entry::{Kind, Timing, head_of, with_length};
use crate::ids::{DefinitionId, ThreadId};
use crate::pool::definitions::Definition;
use crate::pool::layout::header as at;
use crate::pool::tag::pool_tag;
use crate::record::local;
use crate::record::writer::{Front, PayloadBuffer};
use crate::time::Timestamp;

/// The room for the body of an entry.
const BODY_BYTES: usize = 4096;

/// Lets the recording begin at this time, however late the session has started. `false` while the
/// maintenance thread is still busy with the start.
pub fn begin_recording_at(begin: Timestamp) -> bool {
    local::with_manager(|manager| {
        manager.pool().set_header(at::RECORDING_START, begin.raw());
        manager.is_maintenance_idle().then_some(())
    })
    .is_some()
}

/// Adds a definition. `None` without a session, or if the pool is full.
pub fn define(definition: &Definition) -> Option<DefinitionId> {
    local::with_manager(|manager| manager.pool().define(definition).ok())
}

/// Adds a marker with a stack, and with this encoded payload. `None` if the entry is too long.
pub fn add_marker_with_stack(
    site: DefinitionId,
    at: Timestamp,
    frames: &[Frame],
    payload: &[u8],
    thread: Option<ThreadId>,
) -> Option<()> {
    let mut body = vec![0; BODY_BYTES];
    let len = stack::write(&mut body, frames.iter().copied(), false)?;
    body.truncate(len);
    body.extend_from_slice(payload);
    add(Kind::MarkerWithStack, at, site, thread, &body);
    Some(())
}

/// Adds an allocation (`bytes` below zero: a release). `None` if the entry is too long.
pub fn add_allocation(at: Timestamp, bytes: i64, address: u64, frames: &[Frame]) -> Option<()> {
    let mut body = vec![0; BODY_BYTES];
    let len = write_allocation(&mut body, bytes, address, frames.iter().copied(), false)?;
    body.truncate(len);
    add(Kind::Allocation, at, DefinitionId::NONE, None, &body);
    Some(())
}

/// Adds the values of counters.
pub fn add_counters(at: Timestamp, values: &[CounterValue]) {
    let mut body = Vec::new();
    for value in values {
        let mut room = [0; COUNTER_VALUE_BYTES];
        write_counter(&mut room, *value);
        body.extend_from_slice(&room);
    }
    add(Kind::Counters, at, DefinitionId::NONE, None, &body);
}

/// Adds the times of one pass of the sampler.
pub fn add_overhead(entry: &OverheadEntry) {
    let body = entry.encode();
    add(Kind::Overhead, entry.at, DefinitionId::NONE, None, &body);
}

fn add(kind: Kind, at: Timestamp, site: DefinitionId, thread: Option<ThreadId>, body: &[u8]) {
    let head = head_of(kind, Timing::Instant(at), thread.is_some(), site);
    let Ok(tag) = usize::try_from(pool_tag()) else {
        return;
    };
    let front = Front {
        head: with_length(head, tag),
        fixed: [at.raw(), thread.map_or(0, ThreadId::get), 0],
    };
    let encode = |room: PayloadBuffer<'_>| {
        let Some(place) = room.bytes.get_mut(..body.len()) else {
            return Ok(None);
        };
        place.copy_from_slice(body);
        Ok(Some(body.len()))
    };
    local::with_recorder(|recorder| recorder.with_tail(front, "", encode));
}
