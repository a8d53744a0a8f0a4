//! The part of this process in the Gecko format, written on a separate thread while children are
//! asked for theirs.
//!
//! Used by `gathering`. The main thread of this process is written last, because it shows the
//! markers about incomplete processes, which are known only when all children are settled. The
//! writer waits for them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_core::ids::ProcessId;
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::time::SessionClock;
use profiler_gecko::gecko::{IncompleteProcess, LateMarkers, ProcessPart};
use profiler_gecko::model::MetaSection;
use profiler_gecko::{
    CancelFlag, FailureLatch, LatchedWriter, ProcessRole, ProcessSummary, ProfileSpec,
    ProfileSubject, ProgressCell, ShownRange,
};
use profiler_json::JsonWriter;
use profiler_sys::{OwnFile, QuietThread, spawn_quiet};

use super::parts::{copy_remaining, spool};

/// The own part while it is being written.
#[derive(Debug)]
pub(crate) struct OwnPart {
    late: Sender<Vec<IncompleteProcess>>,
    thread: QuietThread<Result<Written, String>>,
}

/// The output of the thread: the object without `processes` and `meta`, not closed.
#[derive(Debug)]
pub(crate) struct Written {
    spool: File,
    reader: PoolReader<Arc<OwnFile>>,
    snapshot: Snapshot,
    role: ProcessRole,
    pub(crate) summary: ProcessSummary,
}

impl OwnPart {
    /// Begins to write the part of process `pid` from its pool.
    pub(crate) fn start(
        clock: SessionClock,
        pool: Arc<OwnFile>,
        pid: ProcessId,
        name: &str,
        spec: &ProfileSpec,
        is_hidden: bool,
    ) -> io::Result<Self> {
        let (late, incomplete) = bounded(1);
        let role = ProcessRole {
            pid,
            name: name.to_owned(),
            is_root: true,
        };
        let spec = spec.clone();
        let thread = spawn_quiet("profiler-own", move || {
            write(pool, role, clock, &spec, incomplete, is_hidden)
        })?;
        Ok(Self { late, thread })
    }

    /// Passes the list of incomplete processes to the writer, and waits for it to finish.
    pub(crate) fn finish(self, incomplete: Vec<IncompleteProcess>) -> Result<Written, String> {
        let _ = self.late.send(incomplete);
        self.thread
            .join()
            .unwrap_or_else(|_| Err("the writer panicked".to_owned()))
    }
}

impl Written {
    /// Appends the output to the file, after the array of processes.
    pub(crate) fn append_to(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(b",")?;
        self.spool.seek(SeekFrom::Start(1))?; // the array's object is already open
        copy_remaining(&mut self.spool, out)
    }

    /// Ends the profile with `meta`, which contains these `sections`.
    pub(crate) fn close(
        &self,
        clock: SessionClock,
        spec: &ProfileSpec,
        subject: Option<&ProfileSubject>,
        sections: &[MetaSection],
        shown: ShownRange,
        out: &mut impl Write,
    ) -> io::Result<()> {
        out.write_all(b",")?;
        let latch = FailureLatch::new(CancelFlag::new());
        let mut json = JsonWriter::new(out);
        let part = ProcessPart {
            clock,
            ..ProcessPart::new(&self.reader, &self.snapshot, spec, &self.role, &latch)
        };
        part.close(&mut json, subject, sections, shown);
        json.finish().map(|_| ())
    }
}

fn write(
    pool: Arc<OwnFile>,
    role: ProcessRole,
    clock: SessionClock,
    spec: &ProfileSpec,
    incomplete: Receiver<Vec<IncompleteProcess>>,
    is_hidden: bool,
) -> Result<Written, String> {
    let spool = spool().map_err(|error| error.to_string())?;
    let reader = PoolReader::open(pool).map_err(|error| error.to_string())?;
    let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
    let incomplete = Mutex::new(incomplete);
    // A dropped sender means that the capture was abandoned: then no process counts as incomplete.
    let wait = || {
        incomplete
            .lock()
            .map(|late| late.recv().unwrap_or_default())
            .unwrap_or_default()
    };
    let latch = FailureLatch::new(CancelFlag::new());
    let progress = ProgressCell::new("writing the parent's part");
    let late = Some(LateMarkers(&wait));
    let mut json = JsonWriter::new(LatchedWriter::new(&spool, latch.clone()));
    let part = ProcessPart {
        clock,
        late,
        ..ProcessPart::new(&reader, &snapshot, spec, &role, &latch)
    };
    let summary = match is_hidden {
        true => part.write_hidden(&mut json, progress.logger()),
        false => part.write_open(&mut json, progress.logger()),
    };
    let summary = summary.map_err(|failure| failure.to_string())?;
    json.finish().map_err(|error| error.to_string())?;
    Ok(Written {
        spool,
        reader,
        snapshot,
        role,
        summary,
    })
}
