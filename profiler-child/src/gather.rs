//! Writing this process's part of a profile, on a separate thread.
//!
//! Called by the control thread, which starts and cancels the writing and asks for its progress.
//! Invariant: one part is written at a time, into the part file from its beginning; a new request
//! cancels the old one and waits for it on its own thread, so the control thread never waits.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use ipc_protocol::limits;
use ipc_protocol::message::{GatherId, GatherOutcome, Proportion, ToParent};
use profiler_core::internal::reader::PoolReader;
use profiler_core::session;
use profiler_gecko::gecko::ProcessPart;
use profiler_gecko::{
    CancelFlag, FailureLatch, LatchedWriter, ProcessRole, ProcessSummary, ProfileSpec, ProgressCell,
};
use profiler_json::JsonWriter;
use profiler_sys::{OwnFile, QuietThread, spawn_quiet};

use crate::outgoing::Outgoing;

/// The captures of this process.
#[derive(Debug)]
pub(crate) struct Gathers {
    outgoing: Outgoing,
    files: Arc<Files>,
    current: Option<Running>,
}

/// The input and output of a part.
#[derive(Debug)]
pub(crate) struct Files {
    /// This process's pool, for reading; absent if nothing was recorded from the start.
    pub(crate) pool: Option<OwnFile>,
    /// The file that the parent passed, if it passed one.
    pub(crate) part_file: Option<OwnFile>,
}

impl Files {
    fn pool(&self) -> io::Result<OwnFile> {
        let copy = |pool: &OwnFile| pool.get()?.try_clone();
        self.pool
            .as_ref()
            .map_or_else(session::pool_file, copy)
            .map(OwnFile::from)
    }

    fn part_file(&self) -> io::Result<&OwnFile> {
        self.part_file
            .as_ref()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "this process has none"))
    }
}

#[derive(Debug)]
struct Running {
    id: GatherId,
    cancel: CancelFlag,
    progress: Arc<ProgressCell>,
    thread: QuietThread<()>,
}

impl Gathers {
    pub(crate) fn new(outgoing: Outgoing, files: Files) -> Self {
        Self {
            outgoing,
            files: Arc::new(files),
            current: None,
        }
    }

    pub(crate) fn start(&mut self, id: GatherId, spec: ProfileSpec) {
        let earlier = self.current.take();
        if let Some(earlier) = &earlier {
            earlier.cancel.cancel();
        }
        let cancel = CancelFlag::new();
        let progress = Arc::new(ProgressCell::new("Received the request"));
        let body = {
            let outgoing = self.outgoing.clone();
            let files = Arc::clone(&self.files);
            let cancel = cancel.clone();
            let progress = Arc::clone(&progress);
            move || {
                let _ = earlier.map(|earlier| earlier.thread.join());
                let outcome = write(&files, &spec, cancel, &progress);
                outgoing.send(&ToParent::Profile {
                    id,
                    outcome: outcome.unwrap_or_else(failed),
                });
            }
        };
        match spawn_quiet("profiler-gather", body) {
            Ok(thread) => {
                self.current = Some(Running {
                    id,
                    cancel,
                    progress,
                    thread,
                })
            }
            Err(error) => self.outgoing.send(&ToParent::Profile {
                id,
                outcome: failed(error.to_string()),
            }),
        }
    }

    pub(crate) fn cancel(&self, id: GatherId) {
        if let Some(running) = self.current.as_ref().filter(|running| running.id == id) {
            running.cancel.cancel();
        }
    }

    pub(crate) fn report_progress(&self, id: GatherId) {
        let running = self.current.as_ref().filter(|running| running.id == id);
        let (proportion, location) = match running {
            Some(running) => {
                let progress = running.progress.read();
                (
                    Proportion::from_raw(progress.proportion.bits()),
                    progress.location,
                )
            }
            None => (Proportion::INVALID, "No such capture is in progress"),
        };
        let mut location = location.to_owned();
        limits::clip(&mut location, limits::MAX_LOCATION_BYTES);
        self.outgoing.send(&ToParent::GatherProgress {
            id,
            proportion,
            location,
        });
    }
}

fn write(
    files: &Files,
    spec: &ProfileSpec,
    cancel: CancelFlag,
    progress: &ProgressCell,
) -> Result<GatherOutcome, String> {
    let unusable = |error: io::Error| format!("cannot use the part file: {error}");
    let part_file = files.part_file().map_err(unusable)?;
    rewind(part_file).map_err(unusable)?;
    let pool = files.pool().map_err(|error| error.to_string())?;
    let reader = PoolReader::open(pool).map_err(|error| error.to_string())?;
    let summary = write_part(&reader, spec, part_file, cancel, progress)?;
    let length = part_file
        .get()
        .map_err(io::Error::from)
        .and_then(File::metadata)
        .map_err(unusable)?
        .len();
    Ok(GatherOutcome::Written { length, summary })
}

fn write_part(
    reader: &PoolReader<OwnFile>,
    spec: &ProfileSpec,
    part_file: &OwnFile,
    cancel: CancelFlag,
    progress: &ProgressCell,
) -> Result<ProcessSummary, String> {
    let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
    let header = &snapshot.header;
    let role = ProcessRole {
        pid: header.pid,
        name: header.name.clone(),
        is_root: false,
    };
    let latch = FailureLatch::new(cancel);
    let part = ProcessPart {
        reader,
        snapshot: &snapshot,
        clock: header.clock,
        spec,
        role: &role,
        ended: None,
        late: None,
        latch: &latch,
    };
    let mut out = JsonWriter::new(LatchedWriter::new(Checked(part_file), latch.clone()));
    let summary = part
        .write(&mut out, progress.logger())
        .map_err(|failure| failure.to_string())?;
    out.finish().map_err(|error| error.to_string())?;
    Ok(summary)
}

fn rewind(part_file: &OwnFile) -> io::Result<()> {
    part_file.get()?.set_len(0)?;
    let mut part_file = part_file.get()?;
    part_file.seek(SeekFrom::Start(0)).map(|_| ())
}

/// Writes only while the descriptor number still refers to the part file.
struct Checked<'a>(&'a OwnFile);

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failed(mut message: String) -> GatherOutcome {
    limits::clip(&mut message, limits::MAX_FAILURE_BYTES);
    GatherOutcome::Failed(message)
}
