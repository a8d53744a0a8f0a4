//! Finds the processes below the recorded program that do not record, and names them in the
//! profile.
//!
//! The agent is in no process that is statically linked, uses another C library, is made for
//! another processor, has other rights, or lost its environment. Nothing tells the command about
//! such a process, so a thread looks at the tree of processes in `/proc` from time to time. A look
//! costs some microseconds per thread of the tree; the thread waits [`COST_FACTOR`] times as long
//! as the last look took, so it uses at most a two-hundredth of a processor. A process that lives
//! for a shorter time than that may be missing; the program itself never is, because its file is
//! examined before it starts.

mod elf;
mod proc;
mod sightings;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{ProfiledChild, Session, UnprofiledProcess};

use elf::ProgramKind;
use sightings::{Finding, Reason, Sightings};

const SESSION_VARIABLE: &str = "MULTIPROCESS_PROFILER_SESSION";
const PRELOAD: &str = "LD_PRELOAD";

/// The shortest pause between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How many times longer than the last look a pause is.
const COST_FACTOR: u32 = 200;
/// The most processes of which the session is told. The further ones are one row.
const MOST_LISTED: usize = 256;

/// Runs `body`, which waits for the program, and looks for processes that do not record meanwhile.
/// Afterwards the session knows them.
pub(super) fn watch<T>(
    session: &Session,
    child: u32,
    program: &Path,
    body: impl FnOnce() -> T,
) -> T {
    let mut watcher = Watcher {
        session,
        start: now(),
        sightings: Sightings::default(),
        last: Vec::new(),
        listed: 0,
        unlisted: 0,
    };
    watcher.see_program(child, program);
    scope(|scope| {
        let (end, ended) = channel::<()>();
        let thread = Builder::new().name("processes".to_owned());
        // If no thread can be started, only the program itself is examined.
        let thread = thread.spawn_scoped(scope, move || watcher.run(&ended));
        let result = body();
        drop(end);
        if let Ok(thread) = thread {
            let _ = thread.join();
        }
        result
    })
}

/// Why the program that was recorded does not record, if that is known. For the message if there is
/// no profile.
pub(super) fn reason_of(session: &Session, child: &ProfiledChild) -> Option<String> {
    let reports = session.processes();
    let own = reports.into_iter().find(|report| report.pid == child.id());
    own.and_then(|report| report.unprofiled)
}

struct Watcher<'a> {
    session: &'a Session,
    start: Instant,
    sightings: Sightings,
    /// The processes that the last look has found.
    last: Vec<u32>,
    listed: usize,
    unlisted: usize,
}

impl Watcher<'_> {
    fn run(mut self, ended: &Receiver<()>) {
        let mut pause = SHORTEST_PAUSE;
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let began = now();
            self.look();
            pause = (began.elapsed() * COST_FACTOR).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
        for finding in self.sightings.rest() {
            self.list(finding);
        }
        self.list_the_others();
    }

    /// Looks at all processes below this one, and at those of the last look: a process whose parent
    /// process has ended is no longer below this one.
    fn look(&mut self) {
        let time = self.start.elapsed();
        let roots = self.last.iter().copied().chain([std::process::id()]);
        let mut found = proc::processes_below(roots);
        for pid in &self.last {
            found
                .entry(*pid)
                .or_insert_with(|| proc::parent_of(*pid).unwrap_or(1));
        }
        found.retain(|pid, _| proc::is_running(*pid));
        self.last = found.keys().copied().collect();
        for (pid, parent) in found {
            self.see(pid, parent, time);
        }
    }

    fn see(&mut self, pid: u32, parent: u32, time: Duration) {
        let program = proc::program_of(pid);
        let path = program.clone();
        let examine = || Finding {
            pid,
            parent,
            name: proc::name_of(pid, path.as_deref()),
            reason: proc::reason(pid, path.as_deref(), parent),
        };
        if let Some(finding) = self.sightings.see(pid, program, time, examine) {
            self.list(finding);
        }
    }

    /// Examines the file of the program that was started. It may have ended already.
    fn see_program(&mut self, pid: u32, program: &Path) {
        let Some(path) = find_program(program) else {
            return;
        };
        let Some(reason) = reason_in_file(&path) else {
            return;
        };
        let parent = std::process::id();
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let name = proc::name_of(pid, Some(&path));
        let examine = || Finding {
            pid,
            parent,
            name,
            reason,
        };
        self.sightings.see(pid, Some(path), Duration::ZERO, examine);
    }

    fn list(&mut self, finding: Finding) {
        if self.listed >= MOST_LISTED {
            self.unlisted += 1;
            return;
        }
        let Finding {
            pid,
            parent,
            name,
            reason,
        } = finding;
        let is_listed = self.session.list_unprofiled(UnprofiledProcess {
            name,
            pid: ProcessId::new(pid),
            parent: Some(ProcessId::new(parent)),
            why: reason.to_string(),
        });
        self.listed += usize::from(is_listed);
    }

    /// One row for the processes beyond the maximum. Some of them may have recorded.
    fn list_the_others(&self) {
        if self.unlisted > 0 {
            self.session.list_unprofiled(UnprofiledProcess {
                name: format!("up to {} further processes", self.unlisted),
                pid: ProcessId::new(0),
                parent: None,
                why: "they cannot load the agent".to_owned(),
            });
        }
    }
}

/// Why a program does not record, if its file says so.
fn reason_in_file(path: &Path) -> Option<Reason> {
    let about = std::fs::metadata(path).ok()?;
    let changes_user =
        about.mode() & libc::S_ISUID != 0 && about.uid() != rustix::process::geteuid().as_raw();
    let changes_group =
        about.mode() & libc::S_ISGID != 0 && about.gid() != rustix::process::getegid().as_raw();
    if changes_user || changes_group {
        return Some(Reason::OtherRights);
    }
    let file = std::fs::File::open(path).ok()?;
    match elf::kind_of(&file) {
        ProgramKind::Static => Some(Reason::Static),
        ProgramKind::Musl => Some(Reason::Musl),
        ProgramKind::Foreign => Some(Reason::Foreign),
        ProgramKind::Dynamic | ProgramKind::Unknown => None,
    }
}

/// The file of a program, as the system finds it.
fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(program));
    candidates.find(|candidate| candidate.is_file())
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_path() {
        let shell = find_program(Path::new("sh")).unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        let named = Path::new("./sh");
        assert_eq!(find_program(named).as_deref(), Some(named));
        assert_eq!(find_program(Path::new("no such program")), None);
    }
}
