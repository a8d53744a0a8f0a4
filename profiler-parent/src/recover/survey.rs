//! Who is there: every pool of a session, whose it is, what it holds, whether its process runs.
//!
//! Costs names and books, not entries (but the last chunk of each thread of a dead process). Files
//! are opened one at a time, so a session of any number of processes can be surveyed.

use std::fs::File;
use std::path::{Path, PathBuf};

use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::pool::header::Header;
use profiler_core::internal::pool::layout;
use profiler_core::internal::profile::CategoryRow;
use profiler_core::internal::profile::gecko::merge_categories;
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::sys;
use profiler_core::time::{SessionClock, Timestamp};

use super::find::{self, FindError};
use super::{PassedOver, shown, times};
use crate::gather::verdict::{Verdict, Why};
use crate::pools::PARENT;

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Life {
    /// Its pool was made, but it never took it.
    NeverBegan,
    /// It runs and records.
    Running,
    /// It said that it records no more; its pool holds everything.
    Finished,
    /// It has ended without saying so.
    Dead,
}

/// One process of a session, as its pool tells.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SurveyedProcess {
    /// Shown name.
    pub name: String,
    /// System number; 0 if no process took the pool.
    pub pid: ProcessId,
    /// Whether it is the session's own process.
    pub is_parent: bool,
    /// How far it has come.
    pub life: Life,
    /// Threads that live or left entries.
    pub threads: u32,
    /// Its books, as if all of it were delivered.
    pub counts: EntryCounts,
    /// What its pool occupies, in bytes.
    pub held_bytes: u64,
    /// From when to when it is known to have recorded, in nanoseconds since the session began.
    pub recorded_ns: (i64, i64),
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) last_seen: Timestamp,
}

/// A session's pool directory at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Survey {
    /// The session's directory.
    pub directory: PathBuf,
    /// What all processes together may hold.
    pub limit: ByteLimit,
    /// Its processes, the parent first, then as they began.
    pub processes: Vec<SurveyedProcess>,
    /// What is no pool of the session.
    pub passed_over: Vec<PassedOver>,
    pub(super) clock: SessionClock,
    pub(super) categories: Vec<CategoryRow>,
}

impl SurveyedProcess {
    /// What a profile made now says about it.
    pub fn verdict(&self) -> Verdict {
        match self.life {
            Life::NeverBegan => Verdict::Missing { why: Why::NeverConnected },
            Life::Running => Verdict::Recovered { why: Why::Running },
            Life::Finished => Verdict::Complete,
            Life::Dead => Verdict::Recovered { why: Why::Gone },
        }
    }

    /// When it ended, as far as its pool tells; `None` if it runs.
    pub(super) fn died(&self) -> Option<Timestamp> {
        (self.life != Life::Running).then_some(self.last_seen)
    }

    fn read(path: PathBuf, categories: &mut Vec<CategoryRow>) -> Result<Self, String> {
        let file = find::open(&path).map_err(|error| error.to_string())?;
        let held_bytes = sys::allocated_bytes(&file).unwrap_or(0);
        let reader = PoolReader::open(file).map_err(|error| error.to_string())?;
        let snapshot = reader.snapshot().map_err(|error| error.to_string())?;
        merge_categories(categories, &snapshot.definitions);
        let header = snapshot.header.clone();
        let life = life(&header);
        let last_seen = match life {
            Life::Running => PoolReader::<File>::last_seen(&snapshot),
            _ => times::last_entry(&reader, &snapshot),
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
        })
    }
}

fn life(header: &Header) -> Life {
    let same_boot = header.boot.get() == 0 || header.boot == sys::boot_id();
    match header.life {
        layout::Life::Created => Life::NeverBegan,
        layout::Life::Closed => Life::Finished,
        layout::Life::Attached if same_boot && sys::is_alive(&header.key()) => Life::Running,
        layout::Life::Attached => Life::Dead,
    }
}

/// Looks at the pools of one session: `directory` is its directory, or holds only that one.
///
/// # Errors
/// [`FindError`].
pub fn survey(directory: &Path) -> Result<Survey, FindError> {
    let directory = find::session_directory(directory)?;
    let (mut processes, mut passed_over) = (Vec::new(), Vec::new());
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
    processes.sort_by_key(|process| (!process.is_parent, process.header.recording_start, process.pid));
    let Some(first) = processes.first() else {
        let why = passed_over.into_iter().map(|over| format!("{}: {}", over.name, over.why)).collect();
        return Err(FindError::NoPools { path: directory, why });
    };
    let (clock, limit) = (first.header.clock, first.header.params.clone().unwrap_or_default().limit);
    pass_over_foreign(&clock, &mut processes, &mut passed_over);
    times::place(&clock, &mut processes);
    categories.truncate(ipc_protocol::limits::MAX_CATEGORIES);
    Ok(Survey { directory, limit, processes, passed_over, clock, categories })
}

/// Pools that somebody has put here from another session: their times mean something else.
fn pass_over_foreign(
    clock: &SessionClock,
    processes: &mut Vec<SurveyedProcess>,
    passed_over: &mut Vec<PassedOver>,
) {
    let foreign = processes.extract_if(.., |process| process.header.clock != *clock);
    let why = "a pool of another session".to_owned();
    passed_over.extend(foreign.map(|process| PassedOver { name: shown(&process.path), why: why.clone() }));
}
