//! Finds the processes below the recorded program that do not record. The session observes them
//! from outside or names them in the profile.
//!
//! The preloaded library is in no process that is statically linked, uses another C library, is
//! made for another processor, has other rights, or lost its environment. Nothing tells the command
//! about such a process, so a thread looks for it in `/proc`.
//!
//! ```text
//! look at new processes   the processes with new numbers ([`new_numbers`]), and the young ones,
//!                         which may execute another program. Every 10 to 20 ms
//! look at told processes  those of which the system's events say that they begin
//!                         ([`event_looks`])
//! look at all             the tree of processes below this one, and all processes that were found
//!                         before. Costs some microseconds per thread of the tree
//! ```
//!
//! The pauses grow with the processor time that looks cost, so looks at new processes use at most a
//! fiftieth of a processor, and looks at all processes use a hundredth if each takes less than
//! 100 ms. A process that no look has seen is missing, and so is one that has ended before its
//! reason was certain. The recorded program is never missing: its file is examined even if the
//! program has ended.

mod connector_event;
mod elf;
mod event_looks;
mod new_numbers;
#[cfg(not(target_os = "linux"))]
mod no_process_connector;
mod proc;
#[cfg(target_os = "linux")]
mod process_connector;
mod reason;
mod sightings;
mod used_times;

use std::collections::{BTreeMap, BTreeSet};
use std::io::PipeReader;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use profiler_parent::core::ids::ProcessId;
use profiler_parent::{ProfiledChild, Session, UnprofiledProcess};
use rustix::fs::Access;
use rustix::time::{ClockId, clock_gettime};

use elf::ProgramKind;
use event_looks::{EventLooks, Woken};
use new_numbers::NewNumbers;
use proc::Stat;
use reason::Reason;
use sightings::{Finding, Program, Sightings};
use used_times::UsedTimes;

const SESSION_VARIABLE: &str = "MULTIPROCESS_PROFILER_SESSION";
const PRELOAD: &str = "LD_PRELOAD";
/// The bits of a file's mode that give the program the rights of the file's user or group.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;

/// The shortest pause between two looks at new processes while a process is young, and otherwise.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const USUAL_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two looks of a kind.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How many times longer the pause is than the processor time of the last look at new processes.
const NEW_COST_FACTOR: u32 = 50;
/// The same for looks at all processes.
const COST_FACTOR: u32 = 100;
/// How long a program counts as young.
const YOUNG_FOR: Duration = Duration::from_millis(300);
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
        known: BTreeMap::new(),
        numbers: NewNumbers::begin(),
        next_look_at_all: Duration::ZERO,
        used: UsedTimes::default(),
        listed: 0,
        unlisted: 0,
        program: None,
    };
    watcher.see_program(child, program);
    let looks = &mut watcher;
    let result = scope(|scope| {
        // If there is no pipe or no thread, only the program itself is examined.
        let end = std::io::pipe().ok().map(|(ended, end)| {
            let thread = Builder::new().name("processes".to_owned());
            let _ = thread.spawn_scoped(scope, move || looks.run(&ended));
            end
        });
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

/// A process that was found.
#[derive(Clone, Copy, Debug)]
struct KnownProcess {
    began: u64,
    /// See [`Stat::image`].
    image: (u64, u64),
    /// When its present program was seen first.
    since: Duration,
    /// Whether nothing more is to be found out about it.
    is_settled: bool,
}

struct Watcher<'a> {
    session: &'a Session,
    start: Instant,
    sightings: Sightings,
    /// The processes that were found below this one and have not ended, as far as that is known.
    known: BTreeMap<u32, KnownProcess>,
    numbers: Option<NewNumbers>,
    /// The time of the next look at all processes, since the start.
    next_look_at_all: Duration,
    used: UsedTimes,
    listed: usize,
    unlisted: usize,
    /// What the file of the recorded program says, until a look has seen its process.
    program: Option<Finding>,
}

impl Watcher<'_> {
    fn run(&mut self, ended: &PipeReader) {
        let mut events = EventLooks::begin();
        let mut next = SHORTEST_PAUSE;
        loop {
            let woken = events.wait(ended, self.start.elapsed(), next);
            let now = self.start.elapsed();
            let before = used_by_this_thread();
            match woken {
                Woken::Ended => return,
                Woken::ByEvent => {
                    self.look_at_told(&events.take(now), now);
                    events.count_cost(used_by_this_thread().saturating_sub(before));
                }
                Woken::InTime => {
                    next = self.start.elapsed() + self.look_in_time(now, before);
                }
            }
        }
    }

    /// A look that is not due to an event. Returns the pause until the next one.
    fn look_in_time(&mut self, now: Duration, used_before: Duration) -> Duration {
        let is_of_all = now >= self.next_look_at_all;
        if is_of_all {
            self.look_at_all(now);
        } else {
            self.look_at_new(now);
        }
        let cost = used_by_this_thread().saturating_sub(used_before);
        if is_of_all {
            let until_next = (cost * COST_FACTOR).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            self.next_look_at_all = self.start.elapsed() + until_next;
            self.shortest_pause(now)
        } else {
            (cost * NEW_COST_FACTOR).clamp(self.shortest_pause(now), LONGEST_PAUSE)
        }
    }

    /// The pause if looks cost little.
    fn shortest_pause(&self, now: Duration) -> Duration {
        let mut all = self.known.values();
        if all.any(|process| process.is_young(now)) {
            SHORTEST_PAUSE
        } else {
            USUAL_PAUSE
        }
    }

    /// Looks at all processes below this one, and at those that were found before: a process whose
    /// parent process has ended is no longer below this one.
    fn look_at_all(&mut self, now: Duration) {
        if let Some(numbers) = &mut self.numbers {
            let _ = numbers.take();
        }
        self.sightings.begin_look();
        self.look_at_known(now, |_| true);
        let roots: Vec<u32> = self
            .known
            .keys()
            .copied()
            .chain([std::process::id()])
            .collect();
        let below = proc::processes_below(roots).into_keys();
        let new: Vec<u32> = below.filter(|pid| !self.known.contains_key(pid)).collect();
        for pid in new {
            if let Some(stat) = Stat::of(pid) {
                self.meet(pid, stat, now);
            }
        }
        self.used.limit(|pid| self.known.contains_key(&pid));
    }

    /// Looks at the processes that have begun since the last look, and at the young ones.
    fn look_at_new(&mut self, now: Duration) {
        self.sightings.begin_look();
        self.look_at_known(now, |process| process.is_young(now));
        // If there are too many, the next look at all processes finds them.
        let Some(new) = self.numbers.as_mut().and_then(NewNumbers::take) else {
            return;
        };
        self.meet_those_below(new, now);
    }

    /// Looks at processes of which events say that they begin or execute a program.
    fn look_at_told(&mut self, told: &[u32], now: Duration) {
        self.sightings.begin_look();
        let mut new = Vec::new();
        for &pid in told {
            let known = self.known.get(&pid).copied();
            if !known.is_some_and(|process| self.look_again(pid, process, now)) {
                new.push(pid);
            }
        }
        self.meet_those_below(new, now);
    }

    /// Looks at those of these processes that are below this one.
    fn meet_those_below(&mut self, new: impl IntoIterator<Item = u32>, now: Duration) {
        let with_stat = |pid| Some((pid, Stat::of(pid)?));
        let mut new: Vec<(u32, Stat)> = new.into_iter().filter_map(with_stat).collect();
        let own = std::process::id();
        loop {
            let is_below = |stat: &Stat| {
                let parent = self.known.get(&stat.parent);
                // Its number may be that of an earlier process.
                stat.parent == own || parent.is_some_and(|parent| parent.began <= stat.began)
            };
            let (below, others): (Vec<_>, Vec<_>) =
                new.into_iter().partition(|(_, stat)| is_below(stat));
            if below.is_empty() {
                return;
            }
            for (pid, stat) in below {
                self.meet(pid, stat, now);
            }
            new = others;
        }
    }

    /// Looks at known processes again. Forgets those that have ended.
    fn look_at_known(&mut self, now: Duration, which: impl Fn(&KnownProcess) -> bool) {
        let those = self.known.iter().filter(|(_, process)| which(process));
        let those: Vec<(u32, KnownProcess)> = those.map(|(pid, one)| (*pid, *one)).collect();
        for (pid, process) in those {
            self.look_again(pid, process, now);
        }
    }

    /// Looks at a known process again. Forgets it and returns false if it has ended: its number may
    /// be that of another process now.
    fn look_again(&mut self, pid: u32, process: KnownProcess, now: Duration) -> bool {
        let stat = Stat::of(pid).filter(|stat| stat.began == process.began);
        match stat {
            Some(stat) => self.meet(pid, stat, now),
            None => self.forget(pid),
        }
        stat.is_some()
    }

    /// Forgets a process that has ended.
    fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
        if let Some(finding) = self.sightings.forget(pid) {
            self.list(finding);
        }
    }

    /// Notes a process that a look has found.
    fn meet(&mut self, pid: u32, stat: Stat, now: Duration) {
        if self
            .known
            .get(&pid)
            .is_some_and(|one| one.began != stat.began)
        {
            self.forget(pid); // another process had its number
        }
        self.used.note(pid, &stat);
        match self.known.get(&pid) {
            Some(known) if known.image == stat.image && known.is_settled => return,
            Some(known) if known.image != stat.image => {
                let _ = self.sightings.forget(pid); // it has executed another program
                self.known.remove(&pid);
            }
            _ => {}
        }
        let new = KnownProcess {
            began: stat.began,
            image: stat.image,
            since: now,
            is_settled: false,
        };
        self.known.entry(pid).or_insert(new);
        let is_settled = self.see(pid, stat, now) && stat.shows_image();
        if let Some(known) = self.known.get_mut(&pid) {
            known.is_settled = is_settled;
        }
    }

    /// Sees a process. Returns whether nothing more is to be found out about its program.
    fn see(&mut self, pid: u32, stat: Stat, time: Duration) -> bool {
        if proc::is_witness(pid) {
            return true;
        }
        let path = proc::program_of(pid);
        let program = Program {
            pid,
            began: stat.began,
            path: path.clone(),
            image: stat.image,
        };
        let session = self.session;
        let is_listed = || session.lists(ProcessId::new(pid));
        let known = &self.known;
        let examine = || {
            let is_fork = is_fork(pid, &stat, known);
            Finding {
                pid,
                parent: stat.parent,
                name: proc::name_of(pid, path.as_deref()),
                reason: proc::reason(pid, is_fork),
                is_fork,
            }
        };
        let finding = self.sightings.see(&program, time, is_listed, examine);
        let is_settled = self.sightings.is_settled(&program);
        if self.program.as_ref().is_some_and(|own| own.pid == pid) {
            self.program = None;
        }
        if let Some(finding) = finding {
            self.list(finding);
        }
        is_settled
    }

    /// Reports what is left when the program has ended.
    fn end(&mut self) {
        let rest = self.sightings.rest().into_iter();
        for finding in rest.chain(self.program.take()) {
            self.list(finding);
        }
        self.list_the_others();
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
        let certain = Finding {
            pid,
            parent,
            name: proc::name_of(pid, Some(&path)),
            reason,
            is_fork: false,
        };
        self.program = Some(certain).filter(|one| one.reason.is_certain());
    }

    fn list(&mut self, finding: Finding) {
        let Finding {
            pid,
            parent,
            name,
            reason,
            ..
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

/// Whether a process that is seen for the first time may be about to execute another program. It
/// may if it executes the program of its parent process, or of another known process, which may
/// have been its parent.
fn is_fork(pid: u32, stat: &Stat, known: &BTreeMap<u32, KnownProcess>) -> bool {
    let mut others = known.iter().filter(|(other, _)| **other != pid);
    stat.is_fork() || stat.shows_image() && others.any(|(_, one)| one.image == stat.image)
}

impl KnownProcess {
    fn is_young(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) < YOUNG_FOR
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
