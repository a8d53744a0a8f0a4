//! Finds the processes below the recorded program that do not record. The session observes them
//! from outside or names them in the profile.
//!
//! The preloaded library is in no process that is statically linked, uses another C library, is
//! made for another processor, has other rights, or lost its environment. Nothing tells the command
//! about such a process, so a thread looks at the tree of processes in `/proc` from time to time. A
//! look costs some microseconds per thread of the tree. The looking thread waits [`COST_FACTOR`]
//! times the processor time of the last look, but at most [`LONGEST_PAUSE`], so it uses a hundredth
//! of a processor as long as a look takes less than 100 ms. A process that no look has seen is
//! missing, and so is one that only one look has seen, unless its file tells the reason. The
//! program itself never is: its file is examined, whether it still runs or not.

mod elf;
mod proc;
mod reason;
mod sightings;
mod used_times;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{ProfiledChild, Session, UnprofiledProcess};
use rustix::fs::Access;
use rustix::time::{ClockId, clock_gettime};

use elf::ProgramKind;
use proc::Stat;
use reason::Reason;
use sightings::{Finding, Program, Sightings};
use used_times::UsedTimes;

const SESSION_VARIABLE: &str = "MULTIPROCESS_PROFILER_SESSION";
const PRELOAD: &str = "LD_PRELOAD";
/// The bits of a file's mode that give the program the rights of the file's user or group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// The shortest pause between two looks.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How many times longer a pause is than the processor time of the last look.
const COST_FACTOR: u32 = 100;
/// The most processes of which the session is told. The further ones are one row.
const MAX_LISTED: usize = 16_384;

/// Runs `body`, which waits for the program, and looks for processes that do not record meanwhile.
/// Afterwards the session knows them. Also returns the processor time that was seen of them.
pub(super) fn watch<T>(
    session: &Session,
    child: u32,
    program: &Path,
    body: impl FnOnce() -> T,
) -> (T, Duration) {
    let mut watcher = Watcher {
        session,
        start: now(),
        sightings: Sightings::default(),
        last: BTreeMap::new(),
        used: UsedTimes::default(),
        listed: 0,
        unlisted: 0,
    };
    watcher.see_program(child, program);
    let looks = &mut watcher;
    let result = scope(|scope| {
        let (end, ended) = channel::<()>();
        let thread = Builder::new().name("processes".to_owned());
        // If no thread can be started, only the program itself is examined.
        let _ = thread.spawn_scoped(scope, move || looks.run(&ended));
        let result = body();
        drop(end);
        result
    });
    watcher.end();
    let reports = session.present_processes();
    let recorded = reports.iter().filter(|report| report.unprofiled.is_none());
    let recorded: BTreeSet<u32> = recorded.map(|report| report.pid.get()).collect();
    let used = watcher.used.of_listed(|pid| recorded.contains(&pid));
    (result, used)
}

/// Why the program that was recorded does not record, if that is known. For the message if there is
/// no profile.
pub(super) fn reason_of(session: &Session, child: &ProfiledChild) -> Option<String> {
    let reports = session.processes();
    let mut own = reports.into_iter().filter(|one| one.pid == child.id());
    own.find_map(|report| report.unprofiled)
}

/// Whether a process exists and has not ended.
pub(super) fn runs(process: ProcessId) -> bool {
    Stat::of(process.get()).is_some()
}

struct Watcher<'a> {
    session: &'a Session,
    start: Instant,
    sightings: Sightings,
    /// The processes that the last look has found, with the times when they began.
    last: BTreeMap<u32, u64>,
    used: UsedTimes,
    listed: usize,
    unlisted: usize,
}

impl Watcher<'_> {
    fn run(&mut self, ended: &Receiver<()>) {
        let mut pause = SHORTEST_PAUSE;
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let before = used_by_this_thread();
            self.look();
            let cost = used_by_this_thread().saturating_sub(before);
            pause = (cost * COST_FACTOR).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// Reports what is left when the program has ended.
    fn end(&mut self) {
        for finding in self.sightings.rest() {
            self.list(finding);
        }
        self.list_the_others();
    }

    /// Looks at all processes below this one, and at those of the last look: a process whose parent
    /// process has ended is no longer below this one.
    fn look(&mut self) {
        let time = self.start.elapsed();
        let mut found: BTreeMap<u32, Stat> = BTreeMap::new();
        for (pid, began) in &self.last {
            // Its number may be that of another process now.
            if let Some(stat) = Stat::of(*pid).filter(|stat| stat.began == *began) {
                found.insert(*pid, stat);
            }
        }
        let roots: Vec<u32> = found.keys().copied().chain([std::process::id()]).collect();
        for pid in proc::processes_below(roots).into_keys() {
            if let Some(stat) = Stat::of(pid) {
                found.insert(pid, stat);
            }
        }
        found.retain(|pid, _| !proc::is_witness(*pid));
        self.used.note(&found);
        self.last = found.iter().map(|(pid, stat)| (*pid, stat.began)).collect();
        for (pid, stat) in found {
            self.see(pid, stat, time);
        }
        let last = &self.last;
        let runs = |program: &Program| last.get(&program.pid) == Some(&program.began);
        for finding in self.sightings.end_look(runs) {
            self.list(finding);
        }
    }

    fn see(&mut self, pid: u32, stat: Stat, time: Duration) {
        let path = proc::program_of(pid);
        let program = Program {
            pid,
            began: stat.began,
            path: path.clone(),
            image: stat.image,
        };
        let session = self.session;
        let is_listed = || session.lists(ProcessId::new(pid));
        let examine = || Finding {
            pid,
            parent: stat.parent,
            name: proc::name_of(pid, path.as_deref()),
            reason: proc::reason(pid, path.as_deref(), stat.parent),
        };
        if let Some(finding) = self.sightings.see(program, time, is_listed, examine) {
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
        let stat = Stat::of(pid);
        let program = Program {
            pid,
            began: stat.map_or(0, |stat| stat.began),
            path: Some(path),
            image: stat.map_or((0, 0), |stat| stat.image),
        };
        self.sightings
            .see(program, Duration::ZERO, || false, examine);
    }

    fn list(&mut self, finding: Finding) {
        let Finding {
            pid,
            parent,
            name,
            reason,
        } = finding;
        let pid = ProcessId::new(pid);
        if self.listed >= MAX_LISTED {
            self.unlisted += usize::from(!self.session.lists(pid));
            return;
        }
        self.session.observe_from_outside(UnprofiledProcess {
            name,
            pid,
            parent: Some(ProcessId::new(parent)),
            why: reason.to_string(),
        });
        self.listed += 1;
        self.used.list(pid.get());
    }

    /// One row for the processes beyond the maxima.
    fn list_the_others(&self) {
        let (unlisted, left_out) = (self.unlisted, self.sightings.most_left_out());
        if unlisted + left_out > 0 {
            self.session.list_unprofiled(UnprofiledProcess {
                name: "further processes".to_owned(),
                pid: ProcessId::new(0),
                parent: None,
                why: format!(
                    "{unlisted} did not join, and up to {left_out} at a time were not examined"
                ),
            });
        }
    }
}

/// The processor time of the calling thread. It does not grow while the machine is busy, so looks
/// do not become rare.
fn used_by_this_thread() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

fn now() -> Instant {
    #[allow(clippy::disallowed_methods)] // compared with itself only
    Instant::now()
}

/// Why a program does not record, if its file says so.
fn reason_in_file(path: &Path) -> Option<Reason> {
    let about = std::fs::metadata(path).ok()?;
    let changes_user =
        about.mode() & SET_USER != 0 && about.uid() != rustix::process::geteuid().as_raw();
    let changes_group =
        about.mode() & SET_GROUP != 0 && about.gid() != rustix::process::getegid().as_raw();
    if changes_user || changes_group {
        return Some(Reason::OtherRights);
    }
    let file = std::fs::File::open(path).ok()?;
    match elf::kind_of(&file) {
        ProgramKind::Static => Some(Reason::Static),
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
    let candidates = std::env::split_paths(&path).map(|directory| directory.join(program));
    let mut candidates = candidates.filter(|candidate| candidate.is_file());
    candidates.find(|candidate| rustix::fs::access(candidate, Access::EXEC_OK).is_ok())
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
