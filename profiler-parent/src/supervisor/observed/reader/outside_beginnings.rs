//! The beginning and the end of the observation of a process from outside.
//!
//! Part of the [`ObservedReader`]. The application has found a process below its program that has
//! made no file, and knows why. The process is not observed from outside if it has made a file in
//! the meantime, records itself or is already listed. If its file or its own recorder appears
//! later, the observation from outside ends at that moment.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::observed::{ObservedClock, ObservedPlace};
use profiler_core::internal::pool;
use profiler_core::time::Timestamp;
use profiler_observed::file::{ObservedFile, ObservedHeader};
use profiler_observed::layout::Ending;
use rustix::time::{ClockId, clock_gettime};

use super::super::SHORTEST_INTERVAL_NS;
use super::super::arrivals::{Arrival, descriptor_of};
use super::super::mapped_files::mapped_files;
use super::super::outside::OutsideProcess;
use super::super::program_file::ProgramFile;
use super::super::reading::Reading;
use super::beginnings::Unplaced;
use super::{LOOKS, ObservedReader};
use crate::process_table::UnprofiledProcess;
use crate::sys::{ProcessFacts, ProgramImage, facts_of, now};

/// The time between two steps of the clock that tells when a process began.
const STEP_NS: u64 = 1_000_000_000 / 100;

/// How long the beginning is tried while an earlier program of the process may be known.
const TRIED_FOR: Duration = Duration::from_millis(500);
/// The maximum number of processes whose beginning is tried at once. The others follow soon.
const MAX_AT_ONCE: usize = 32;
/// The time until the second try. It doubles with each try: a process that has just executed its
/// program is known as the earlier program for some milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A process to be observed from outside.
#[derive(Debug)]
pub(super) struct OutsideNewcomer {
    process: UnprofiledProcess,
    /// With `image`, the program that was reported. A program that the process executes later is
    /// reported again.
    start: Option<ProcessStart>,
    image: Option<ProgramImage>,
    /// The time up to which it is tried while the session knows a program of the process.
    until: Instant,
    next: Instant,
    pause: Duration,
    /// Whether there was no memory for its pool at the last try.
    lacks_memory: bool,
}

impl OutsideNewcomer {
    fn new(process: UnprofiledProcess) -> Self {
        let facts = facts_of(process.pid);
        let now = now();
        Self {
            start: facts.map(|facts| facts.start),
            image: facts.and_then(|facts| facts.image),
            process,
            until: now + TRIED_FOR,
            next: now,
            pause: FIRST_PAUSE,
            lacks_memory: false,
        }
    }

    /// Whether these are the facts of another process, which has got the number of this one.
    fn is_reused(&self, facts: &ProcessFacts) -> bool {
        self.start.is_some_and(|start| start != facts.start)
    }

    /// Whether the process executes another program than the one that was reported.
    fn has_executed(&self, facts: &ProcessFacts) -> bool {
        let images = self.image.zip(facts.image);
        images.is_some_and(|(reported, present)| reported != present)
    }

    /// The process as one that has ended before it could be observed.
    fn unprofiled(self) -> UnprofiledProcess {
        let mut process = self.process;
        if self.lacks_memory {
            process.why += ", and there was no memory for its pool";
        }
        process
    }

    /// The same process, to be tried again.
    fn again(mut self) -> Self {
        self.next = now() + self.pause;
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
        self
    }
}

/// Whether this process can open another descriptor at present.
fn has_descriptors() -> bool {
    std::fs::File::open("/dev/null").is_ok()
}

impl ObservedReader {
    /// Notes a process for which the application has asked. An earlier program of the process is
    /// not tried any more.
    pub(super) fn add_newcomer(&mut self, process: UnprofiledProcess) {
        self.newcomers.retain(|one| one.process.pid != process.pid);
        self.newcomers.push(OutsideNewcomer::new(process));
    }

    /// Observes the processes for which the application has asked: all of them if a capture waits
    /// for that. Not within a pass.
    pub(super) fn observe_newcomers(&mut self) {
        let most = if self.meetings.is_empty() {
            MAX_AT_ONCE
        } else {
            usize::MAX
        };
        let now = now();
        let mut due = Vec::new();
        let mut rest = Vec::new();
        for newcomer in std::mem::take(&mut self.newcomers) {
            if newcomer.next <= now && due.len() < most {
                due.push(newcomer);
            } else {
                rest.push(newcomer);
            }
        }
        self.newcomers = rest;
        for newcomer in due {
            if let Some(newcomer) = self.observe_outside(newcomer) {
                self.newcomers.push(newcomer.again());
            }
        }
    }

    /// The time up to which the reader waits for a command: the next pass, the next looks between
    /// two passes, or the next try.
    pub(super) fn wait_deadline(&self) -> Instant {
        let next = self.newcomers.iter().map(|newcomer| newcomer.next).min();
        let looks = self.frequent.deadline();
        next.into_iter()
            .chain(looks)
            .fold(self.next_pass, Instant::min)
    }

    /// Observes a process from outside. Lists it with the reason if that is not possible. Returns
    /// it if it is to be tried again.
    fn observe_outside(&mut self, mut newcomer: OutsideNewcomer) -> Option<OutsideNewcomer> {
        let pid = newcomer.process.pid;
        let facts = facts_of(pid).filter(|facts| !newcomer.is_reused(facts));
        let Some(facts) = facts else {
            if !has_descriptors() {
                return Some(newcomer);
            }
            // Its file may be among the unread ones.
            self.looks_left = LOOKS;
            self.look_for_files();
            // A file that cannot be read for lack of descriptors is read later.
            if !self.has_unread_file(pid) {
                self.list_unprofiled(newcomer.unprofiled(), None);
            }
            return None;
        };
        let records_itself = self.context.processes.records_itself(pid);
        if newcomer.has_executed(&facts) || records_itself {
            return None;
        }
        if self.has_unread_file(pid) {
            // The file may be that of the process before it executed this program. Reading it ends
            // that row.
            self.meet_young();
        }
        self.read_outside(pid);
        self.end_earlier_program(pid);
        let processes = &self.context.processes;
        let is_known = self.is_observed(pid)
            || processes.is_settled(pid, facts.start)
            || self.has_unread_file(pid);
        if is_known {
            // That may be an earlier program of the process, whose end is not noted everywhere yet.
            return (now() < newcomer.until).then_some(newcomer);
        }
        match self.begin_outside(&newcomer.process, facts) {
            Ok(()) => None,
            Err(Unplaced::Later) => {
                newcomer.lacks_memory = true;
                Some(newcomer)
            }
            Err(Unplaced::Never(why)) => {
                let mut process = newcomer.process;
                process.why = format!("{}, and {why}", process.why);
                self.list_unprofiled(process, Some(facts));
                None
            }
        }
    }

    /// Reads the program that is observed from outside in this process, if there is one: the
    /// reading finds out whether the process has executed another program.
    fn read_outside(&mut self, pid: ProcessId) {
        let mut programs = self.programs.iter();
        let found = programs.find(|(_, reading)| {
            let program = &reading.program;
            program.pid == pid && program.is_outside()
        });
        if let Some(key) = found.map(|(key, _)| *key) {
            self.read(key, true);
        }
    }

    /// Whether the directory has an unread file that may be that of the process.
    fn has_unread_file(&self, pid: ProcessId) -> bool {
        let begins = format!("{:016x}.", pid.get());
        let Ok(names) = self.directory.names() else {
            return !has_descriptors();
        };
        let is_its_own = |name: &OsString| name.as_encoded_bytes().starts_with(begins.as_bytes());
        let mut own = names.iter().filter(|name| is_its_own(name));
        // An unfinished file may be one that is kept in reserve for a child. A file that cannot be
        // opened for lack of descriptors is read later.
        let is_finished = |name: &OsString| {
            let opened = ObservedFile::open(&self.directory.path().join(name));
            opened.is_ok() || !has_descriptors()
        };
        own.any(|name| self.is_new(name) && is_finished(name))
    }

    fn is_observed(&self, pid: ProcessId) -> bool {
        let mut programs = self.programs.values();
        programs.any(|reading| reading.program.pid == pid)
    }

    /// Begins to observe a process from outside, if it gets a pool.
    fn begin_outside(
        &mut self,
        process: &UnprofiledProcess,
        facts: ProcessFacts,
    ) -> Result<(), Unplaced> {
        let pid = process.pid;
        let Ok(Some(descriptor)) = descriptor_of(pid) else {
            return Err(Unplaced::Never("it has ended".to_owned()));
        };
        let arrival = Arrival {
            pid,
            start: facts.start,
            parent: process.parent.or(Some(facts.parent)),
            name: process.name.clone(),
            process: Some(descriptor),
            is_hidden: false,
        };
        let (base_ns, began) = self.start_of(pid, facts);
        let place = ObservedPlace {
            pid,
            start: Some(facts.start),
            base_ns,
            began,
            is_outside: true,
        };
        let mut clock = ObservedClock::new(&place);
        clock.has_run();
        let cpu_ns = clock.cpu_ns().unwrap_or(base_ns);
        let header = ObservedHeader {
            pid: pid.get(),
            began: began.raw(),
            // Not 0, which stands for a forked process that soon executes another program. This
            // process has run for some time.
            began_cpu_ns: base_ns.max(1),
            ..ObservedHeader::default()
        };
        let placed = self.place(&arrival, &header);
        let placed = placed.inspect_err(|_| {
            // For the next try.
            self.replaced
                .insert(pid, Some(base_ns).filter(|base| *base > 0));
        })?;
        let interval_ns = self.context.params.interval_ns.max(SHORTEST_INTERVAL_NS);
        let converter = self.context.time.converter();
        let outside = OutsideProcess::begin(
            pid,
            &self.system_samples,
            (converter, interval_ns),
            (header, cpu_ns),
        );
        let notice = format!("it is observed from outside: {}", process.why);
        placed.add_notice(notice);
        if let Some(refusal) = outside.refusal() {
            placed.add_notice(refusal);
        }
        let loaded = mapped_files(pid);
        let file = ProgramFile::Outside(Box::new(outside));
        self.observe((file, loaded), (&header, base_ns), arrival, placed);
        Ok(())
    }

    /// The processor time of a process when its present program began, and when that was.
    fn start_of(&mut self, pid: ProcessId, facts: ProcessFacts) -> (u64, Timestamp) {
        let boot = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(boot.tv_nsec).unwrap_or(0);
        let since_boot = seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        let started = facts.start.get().saturating_mul(STEP_NS);
        let age = since_boot.saturating_sub(started);
        let age = self.context.time.converter().ticks_in(age);
        let began = Timestamp::from_raw(Timestamp::now().raw().saturating_sub(age));
        let replaced = self.replaced.begin_late(pid, began);
        replaced.unwrap_or((0, began))
    }

    /// Lists a process as one that is not profiled.
    fn list_unprofiled(&self, process: UnprofiledProcess, facts: Option<ProcessFacts>) {
        let Ok(key) = pool::new_id() else { return };
        let start = facts.map_or(ProcessStart::new(0), |facts| facts.start);
        let processes = &self.context.processes;
        if processes.list_unprofiled(key, process, start) {
            processes.note_empty(key); // lists the latest such processes, and counts the others
        }
    }

    /// Ends the observation of a process from outside, if there is one, because its file or its own
    /// recorder has appeared. Returns the processor time of the process up to which it is recorded.
    pub(super) fn end_outside(&mut self, pid: ProcessId, ending: Ending) -> Option<u64> {
        let is_it = |reading: &Reading| reading.program.pid == pid && reading.program.is_outside();
        let mut programs = self.programs.iter_mut();
        let (key, reading) = programs.find(|(_, reading)| is_it(reading))?;
        let key = *key;
        reading.clock.has_run();
        reading.program.end_outside(ending, reading.clock.cpu_ns());
        let ended = reading.program.ended_cpu_ns();
        self.end(key);
        ended
    }

    /// Ends the observation from outside of processes that record themselves.
    pub(super) fn end_recorders(&mut self) {
        let processes = &self.context.processes;
        let records = |reading: &&Reading| {
            reading.program.is_outside() && processes.records_itself(reading.program.pid)
        };
        let recorders = self.programs.values().filter(records);
        let recorders: Vec<ProcessId> = recorders.map(|reading| reading.program.pid).collect();
        for pid in recorders {
            self.end_outside(pid, Ending::Recorder);
        }
    }
}
