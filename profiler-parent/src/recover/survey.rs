//! Lists the pools of a session: the process of each pool, its content, and whether the process
//! runs.
//!
//! Reads names and counts. Reads no entries, except the last chunk of each thread of a dead
//! process. Files are opened one at a time, so a session may have any number of processes.

use std::path::{Path, PathBuf};

use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::pool::header::Header;
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::EntryCounts;
use profiler_core::time::{SessionClock, Timestamp};
use profiler_gecko::CategoryRow;
use profiler_gecko::gecko::merge_categories;

use super::find::{self, FindError};
use super::{PassedOver, shown, times};
use crate::gather::panic_evidence::PanicEvidence;
use crate::gather::verdict::{Verdict, Why};
use crate::pools::PARENT;

/// The state of a process, according to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Life {
    /// Its pool was created, but the process never attached it.
    NeverBegan,
    /// It runs and records.
    Running,
    /// It has declared the end of its recording; its pool contains all its data.
    Finished,
    /// It has ended without declaring the end of its recording.
    Dead,
}

/// One process of a session, according to its pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SurveyedProcess {
    /// Display name.
    pub name: String,
    /// Process id in the system; 0 if no process attached the pool.
    pub pid: ProcessId,
    /// Whether it is the session's own process.
    pub is_parent: bool,
    /// State of the process.
    pub life: Life,
    /// Number of threads that run or left entries.
    pub threads: u32,
    /// Its entry counts; all entries in the pool count as delivered.
    pub counts: EntryCounts,
    /// Bytes that its pool occupies.
    pub held_bytes: u64,
    /// Start and end of its recording, as far as known, in nanoseconds since the session's start.
    pub recorded_ns: (i64, i64),
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) last_seen: Timestamp,
    /// What its pool says about its panics; nothing if it runs.
    panics: PanicEvidence,
}

/// The content of a session's pool directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Survey {
    /// The session's directory.
    pub directory: PathBuf,
    /// Limit on the bytes of all processes together.
    pub limit: ByteLimit,
    /// Its processes: the parent, then the others in the order of their starts.
    pub processes: Vec<SurveyedProcess>,
    /// The files that are not pools of the session.
    pub passed_over: Vec<PassedOver>,
    pub(super) clock: SessionClock,
    pub(super) categories: Vec<CategoryRow>,
}

impl SurveyedProcess {
    /// The verdict that a profile made now would contain.
    pub fn verdict(&self) -> Verdict {
        match self.life {
            Life::NeverBegan => Verdict::Missing {
                why: Why::NeverConnected,
            },
            Life::Running => Verdict::Recovered { why: Why::Running },
            Life::Finished => match self.panics.explain(Why::ExitedUnseen) {
                why if why.is_orderly() => Verdict::Complete,
                why => Verdict::Recovered { why },
            },
            Life::Dead => Verdict::Recovered {
                why: self.panics.explain(Why::Gone),
            },
        }
    }

    /// The time of its end, according to its pool; `None` if it runs.
    pub(super) fn died(&self) -> Option<Timestamp> {
        (self.life != Life::Running).then_some(self.last_seen)
    }

    fn read(path: PathBuf, categories: &mut Vec<CategoryRow>) -> Result<Self, String> {
        let file = find::open(&path).map_err(|error| error.to_string())?;
        let held_bytes = profiler_sys::allocated_bytes(&file).unwrap_or(0);
        let reader = PoolReader::open(file).map_err(|error| error.to_string())?;
        let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
        merge_categories(categories, &snapshot.definitions);
        let header = snapshot.header.clone();
        let life = life(&header);
        let last_seen = match life {
            Life::Running => snapshot.last_seen(),
            _ => reader.last_entry(&snapshot),
        };
        let panics = match life {
            Life::Running | Life::NeverBegan => PanicEvidence::default(),
            Life::Finished | Life::Dead => PanicEvidence::read(&reader),
        };
        Ok(Self {
            name: header.name.clone(),
            pid: header.pid,
            is_parent: shown(&path) == PARENT,
            life,
            threads: u32::try_from(snapshot.threads.len()).unwrap_or(u32::MAX),
            counts: snapshot.counts(),
            held_bytes,
            recorded_ns: (0, 0),
            path,
            header,
            last_seen,
            panics,
        })
    }
}

fn life(header: &Header) -> Life {
    if header.owner().is_none() {
        Life::NeverBegan
    } else if header.is_closed() {
        Life::Finished
    } else if header.has_running_owner() {
        Life::Running
    } else {
        Life::Dead
    }
}

/// Lists the pools of one session. `directory` is the session's directory, or contains it as the
/// only session directory.
///
/// # Errors
/// [`FindError`].
pub fn survey(directory: &Path) -> Result<Survey, FindError> {
    let directory = find::session_directory(directory)?;
    let mut processes = Vec::new();
    let mut passed_over = Vec::new();
    let mut categories = Vec::new();
    for path in find::entries(&directory)? {
        let name = shown(&path);
        let read = match find::is_pool_name(&path) {
            true => SurveyedProcess::read(path, &mut categories),
            false => Err("not a pool by its name".to_owned()),
        };
        match read {
            Ok(process) => processes.push(process),
            Err(why) => passed_over.push(PassedOver { name, why }),
        }
    }
    processes.sort_by_key(|process| {
        (
            !process.is_parent,
            process.header.recording_start,
            process.pid,
        )
    });
    let Some(first) = processes.first() else {
        let why = passed_over
            .into_iter()
            .map(|over| format!("{}: {}", over.name, over.why))
            .collect();
        return Err(FindError::NoPools {
            path: directory,
            why,
        });
    };
    let clock = first.header.clock;
    let limit = first.header.params.clone().unwrap_or_default().limit;
    pass_over_foreign(&clock, &mut processes, &mut passed_over);
    times::place(&clock, &mut processes);
    categories.truncate(ipc_protocol::limits::MAX_CATEGORIES);
    Ok(Survey {
        directory,
        limit,
        processes,
        passed_over,
        clock,
        categories,
    })
}

/// Skips pools that were copied from another session, because their times are on another clock.
fn pass_over_foreign(
    clock: &SessionClock,
    processes: &mut Vec<SurveyedProcess>,
    passed_over: &mut Vec<PassedOver>,
) {
    let foreign = processes.extract_if(.., |process| process.header.clock != *clock);
    let why = "a pool of another session".to_owned();
    passed_over.extend(foreign.map(|process| PassedOver {
        name: shown(&process.path),
        why: why.clone(),
    }));
}
