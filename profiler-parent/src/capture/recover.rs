//! A process's part, written by the parent from the process's memory.
//!
//! For children that are dead, frozen, late, or that answered with rubbish. The memory is read by
//! position and believed in nothing, so whatever became of the child, this ends.

use std::fs::File;
use std::io::Write;

use profiler_core::pool::layout::Life;
use profiler_core::profile::gecko::ProcessPart;
use profiler_core::profile::{
    CancelFlag, FailureLatch, JsonWriter, LatchedWriter, ProcessRole, ProcessSummary, ProfileSpec,
    ProgressCell,
};
use profiler_core::reader::PoolReader;
use profiler_core::time::{SessionClock, Timestamp};

use super::roster::Member;

/// Writes the part of `member`, which died then if it died, from its pool to `out`; `None` if no
/// process ever took that pool, or a dead one left nothing in it.
///
/// # Errors
/// Why not, in words; what was written to `out` is useless then.
pub(super) fn write(
    (member, died): (&Member, Option<Timestamp>),
    pool: &File,
    clock: SessionClock,
    spec: &ProfileSpec,
    out: impl Write,
) -> Result<Option<ProcessSummary>, String> {
    let reader = PoolReader::open(pool).map_err(|error| error.to_string())?;
    if reader.header().life == Life::Created {
        return Ok(None);
    }
    let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
    if died.is_some() && snapshot.counts().recorded() == 0 {
        return Ok(None); // as once its pool is closed
    }
    let role = ProcessRole { pid: member.pid, name: member.name.clone(), is_root: false };
    let latch = FailureLatch::new(CancelFlag::new());
    let part = ProcessPart {
        reader: &reader,
        snapshot: &snapshot,
        clock,
        spec,
        role: &role,
        ended: died,
        late: None,
        latch: &latch,
    };
    let mut json = JsonWriter::new(LatchedWriter::new(out, latch.clone()));
    let progress = ProgressCell::new("reading its memory");
    let summary = part.write(&mut json, progress.logger()).map_err(|failure| failure.to_string())?;
    json.finish().map_err(|error| error.to_string())?;
    Ok(Some(summary))
}
