//! Writes the part of a process from its memory, by another process.
//!
//! Used for children that are dead, frozen, late, or answered with invalid data, and for all
//! processes when the whole session is dead ([`crate::recover`]). The memory is read by position
//! and nothing in it is trusted, so [`write`] terminates regardless of the child's state.

use std::io::Write;

use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::{ByteSource, PoolReader};
use profiler_core::time::{SessionClock, Timestamp};
use profiler_gecko::gecko::ProcessPart;
use profiler_gecko::{
    CancelFlag, FailureLatch, LatchedWriter, ProcessRole, ProcessSummary, ProfileSpec, ProgressCell,
};
use profiler_json::JsonWriter;

/// The process whose part is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) pid: ProcessId,
    /// Shown name.
    pub(crate) name: &'a str,
    /// The time of its death, if it died.
    pub(crate) died: Option<Timestamp>,
}

/// Writes the part of a process from its pool to `out`. Returns `None` if no process ever took the
/// pool, or if the process is dead and left no data in it.
///
/// # Errors
/// The reason, in words; the output written to `out` is then useless.
pub(crate) fn write(
    subject: &Subject<'_>,
    pool: impl ByteSource,
    clock: SessionClock,
    spec: &ProfileSpec,
    out: impl Write,
) -> Result<Option<ProcessSummary>, String> {
    let reader = PoolReader::open(pool).map_err(|error| error.to_string())?;
    if reader.header().owner().is_none() {
        return Ok(None);
    }
    let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
    if subject.died.is_some() && snapshot.counts().recorded() == 0 {
        return Ok(None); // the same result as after its pool was closed
    }
    let role = ProcessRole {
        pid: subject.pid,
        name: subject.name.to_owned(),
        is_root: false,
    };
    let latch = FailureLatch::new(CancelFlag::new());
    let part = ProcessPart {
        clock,
        ended: subject.died,
        ..ProcessPart::new(&reader, &snapshot, spec, &role, &latch)
    };
    let mut json = JsonWriter::new(LatchedWriter::new(out, latch.clone()));
    let progress = ProgressCell::new("reading its memory");
    let summary = part
        .write(&mut json, progress.logger())
        .map_err(|failure| failure.to_string())?;
    json.finish().map_err(|error| error.to_string())?;
    Ok(Some(summary))
}
