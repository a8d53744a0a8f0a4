//! The thread that reads the files of all observed programs.
//!
//! A pass looks for new files, empties the rings, looks at threads, and carries out what the
//! supervisor has asked for. A program is read only if the clock of its process shows that a thread
//! has run; that of an idle program is read less often, of some of them in each pass. The looks at
//! threads come after all rings are emptied, and a pass makes a limited number of them.

mod beginnings;
mod outside_beginnings;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::internal::observed::{LookBudget, ObservedFiles, ObservedThreads};
use profiler_observed::layout::Ending;

use super::directory::{DirectoryState, ObservedDirectory};
use super::frequent_looks::FrequentLooks;
use super::outside::SystemSamples;
use super::reader_commands::{CommandReceiver, CommandSender, ReaderCommand};
use super::reading::Reading;
use super::replaced::ReplacedPrograms;
use super::turns::Turns;
use super::{ObservedEvent, ReaderProgress};
use crate::process_table::ObservedTime;
use crate::supervisor::waits::{SharedWaitNames, check_deadlocks, lock};
use crate::supervisor::{SupervisorContext, SupervisorEvent, SupervisorHandle};
use crate::sys::{facts_of, now};
use beginnings::Met;
use outside_beginnings::OutsideNewcomer;

/// The time between two passes while programs run. While all are idle, it is longer, see `turns`.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of passes between two checks whether hidden processes have ended, and whether files
/// that were not finished are.
const IDLE_PASSES: u64 = 8;
/// What the looks of one pass may do.
const LOOKS_PER_PASS: LookBudget = LookBudget {
    threads: 256,
    stacks: 64,
};
/// What the looks before a capture may do.
const LOOKS_FOR_CAPTURE: LookBudget = LookBudget {
    threads: 16_384,
    stacks: 2048,
};
/// The number of passes between two checks whether entries of waits of an active program are due.
const WAIT_PASSES: u64 = 64;

/// In how many passes the names are read after a change of the directory: the system notes the time
/// of a change in steps of some milliseconds.
const LOOKS: u32 = 3;

/// A program that has used less processor time than this before its own recorder begins, or a
/// forked child that has before it executes another program, is no process of its own in the
/// profile.
const SHORT_NS: u64 = 20_000_000;
/// How often the process table gets the times of all programs, for the live page.
const TIMES_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the files of observed programs.
#[derive(Debug)]
pub(super) struct ObservedReader {
    context: Arc<SupervisorContext>,
    supervisor: SupervisorHandle,
    directory: Arc<ObservedDirectory>,
    commands: CommandSender,
    orders: CommandReceiver,
    files: ObservedFiles,
    programs: HashMap<PoolId, Reading>,
    /// The programs whose processes are not watched, each with its process if that is found. If it
    /// is not found, only the file shows that the program has ended.
    hidden: BTreeMap<PoolId, Option<(ProcessId, ProcessStart)>>,
    seen: DirectoryState,
    /// In how many further passes the names are read.
    looks_left: u32,
    /// Whether there are files that are not finished: a program is about to begin, or may never.
    has_unfinished: bool,
    /// The names of all files that are read or were refused.
    known: HashSet<OsString>,
    replaced: ReplacedPrograms,
    /// The samples of the processes without a file.
    system_samples: SystemSamples,
    /// Processes without a file, to be observed from outside after the present pass.
    newcomers: Vec<OutsideNewcomer>,
    is_paused: bool,
    /// The processor time of the programs that have ended.
    time_of_ended: ObservedTime,
    /// In how many passes each new file has been looked at.
    young: HashMap<OsString, u32>,
    /// Whether also programs are met that have just begun.
    is_urgent: bool,
    /// Processes that have ended and were not met.
    unmet: Vec<PoolId>,
    /// The last program whose threads were looked at.
    looked_last: Option<PoolId>,
    /// The programs whose chunks may have changed since the last updates.
    touched: BTreeSet<PoolId>,
    /// Captures that wait for a pass.
    meetings: Vec<Sender<u64>>,
    names: SharedWaitNames,
    /// The number of deadlocks that the profile has remarks for.
    noted_deadlocks: usize,
    /// What it has done, for threads that wait for it.
    progress: Arc<ReaderProgress>,
    turns: Turns,
    frequent: FrequentLooks,
    /// When the next pass is made.
    next_pass: Instant,
    /// When the process table last got the times of all programs.
    times_published: Instant,
}

impl ObservedReader {
    pub(super) fn new(
        context: Arc<SupervisorContext>,
        supervisor: SupervisorHandle,
        directory: Arc<ObservedDirectory>,
        (commands, orders): (CommandSender, CommandReceiver),
        progress: Arc<ReaderProgress>,
    ) -> Self {
        Self {
            files: ObservedFiles::new(),
            names: Arc::clone(&supervisor.wait_names),
            noted_deadlocks: 0,
            context,
            supervisor,
            directory,
            commands,
            orders,
            programs: HashMap::new(),
            hidden: BTreeMap::new(),
            seen: DirectoryState::default(),
            looks_left: LOOKS,
            has_unfinished: false,
            known: HashSet::new(),
            replaced: ReplacedPrograms::default(),
            system_samples: SystemSamples::default(),
            newcomers: Vec::new(),
            is_paused: false,
            time_of_ended: ObservedTime::default(),
            young: HashMap::new(),
            is_urgent: false,
            unmet: Vec::new(),
            looked_last: None,
            touched: BTreeSet::new(),
            meetings: Vec::new(),
            progress,
            turns: Turns::default(),
            frequent: FrequentLooks::new(),
            next_pass: now() + PAUSE,
            times_published: now(),
        }
    }

    /// Runs until the session ends.
    pub(super) fn run(mut self) {
        // If looks came together with timers of the programs, they would find too few of the waits
        // that these timers end.
        profiler_sys::wake_precisely();
        loop {
            match self.orders.recv_deadline(self.wait_deadline()) {
                Ok(ReaderCommand::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(order) => self.carry_out(order),
                Err(RecvTimeoutError::Timeout) if now() < self.next_pass => self.look_between(),
                Err(RecvTimeoutError::Timeout) => {
                    self.pass(false);
                    self.frequent.have_looked(None);
                    let passes = u32::try_from(self.turns.to_next_pass()).unwrap_or(1);
                    // The jitter prevents looks from synchronizing with periodic work of a program.
                    let part = 0.75 + fastrand::f64() / 2.0;
                    self.next_pass = now() + (PAUSE * passes).mul_f64(part);
                }
            }
            if !self.carry_out_all() {
                return;
            }
            self.observe_newcomers();
            self.meet_all();
            self.send_updates();
            self.note_deadlocks();
            if self.times_published.elapsed() >= TIMES_INTERVAL {
                self.publish_times(false);
            }
        }
    }

    /// Looks at the programs whose threads run and wait in turn, if that is due.
    fn look_between(&mut self) {
        let mut due = self.frequent.take_due();
        if due.is_empty() {
            return;
        }
        if self.is_paused {
            return self.frequent.clear();
        }
        let began = ObservedThreads::reader_time();
        due.retain(|key| {
            let needs = |reading: &&mut Reading| reading.program.needs_frequent_looks();
            let reading = self.programs.get_mut(key).filter(needs);
            self.frequent.set(*key, reading.is_some());
            let Some(reading) = reading else { return false };
            if reading.clock.has_run() {
                reading.read(&mut self.files, false);
                self.touched.insert(*key);
            }
            true
        });
        self.look(due, false);
        let cost = ObservedThreads::reader_time().saturating_sub(began);
        self.frequent.have_looked(Some(cost));
    }

    /// Adds a notice about each new deadlock to the pools of the observed programs.
    fn note_deadlocks(&mut self) {
        check_deadlocks(&self.names);
        let deadlocks = self.context.processes.deadlocks_from(self.noted_deadlocks);
        self.noted_deadlocks += deadlocks.len();
        for deadlock in deadlocks {
            for (key, reading) in &self.programs {
                if let Some(notice) = deadlock.notice(reading.program.pid) {
                    reading.program.process().pool().add_notice(notice);
                    self.touched.insert(*key);
                }
            }
        }
    }

    /// Meets all programs, if a capture waits for that, or a process that has ended has not been
    /// met. Not within a pass, in which such commands may arrive, too.
    fn meet_all(&mut self) {
        let meetings = std::mem::take(&mut self.meetings);
        if !meetings.is_empty() {
            self.meet_young();
            let unmet = self.context.processes.unread_files();
            self.pass(true);
            self.record_waits();
            self.tell_time();
            self.publish_times(true);
            for met in meetings {
                let _ = met.try_send(unmet);
            }
        }
        let unmet = std::mem::take(&mut self.unmet);
        if !unmet.is_empty() {
            self.meet_young();
            unmet.into_iter().for_each(|key| self.end_unmet(key));
        }
    }

    /// Notes in the process table how much of the processor time of all programs is in samples.
    fn tell_time(&self) {
        let running = self.programs.values().map(Reading::time);
        let all = running.fold(self.time_of_ended, ObservedTime::plus);
        self.context.processes.set_observed_time(all);
    }

    /// Writes the processor time of programs, and how much of it is in samples, to the process
    /// table: of all programs if `of_all`, otherwise of the active ones.
    fn publish_times(&mut self, of_all: bool) {
        let told = |reading: &&Reading| of_all || reading.turn.is_not_idle();
        let told = self.programs.iter().filter(|(_, reading)| told(reading));
        let times = told.map(|(key, reading)| (*key, reading.time()));
        let times: Vec<_> = times.collect();
        self.context.processes.set_times(times.into_iter());
        self.times_published = now();
    }

    /// Begins to read all new files, also those of programs that have just begun.
    fn meet_young(&mut self) {
        self.is_urgent = true;
        self.looks_left = LOOKS;
        self.look_for_files();
        self.is_urgent = false;
    }

    /// Ends a process whose end was told before it was met.
    fn end_unmet(&mut self, key: PoolId) {
        if self.programs.contains_key(&key) {
            return self.end(key);
        }
        let goes_on = false;
        self.supervisor
            .send(SupervisorEvent::Observed(ObservedEvent::Ended {
                key,
                goes_on,
            }));
    }

    /// Carries out all commands that wait. False if the session is over.
    fn carry_out_all(&mut self) -> bool {
        while let Ok(order) = self.orders.try_recv() {
            if matches!(order, ReaderCommand::End) {
                // Within a pass, for the loop of the thread.
                let _ = self.commands.send(ReaderCommand::End);
                return false;
            }
            self.carry_out(order);
        }
        true
    }

    fn carry_out(&mut self, order: ReaderCommand) {
        let pool = |key: &PoolId| Some(self.programs.get(key)?.program.process().pool());
        match order {
            ReaderCommand::SetAllowance { key, allowance } => {
                if let Some(pool) = pool(&key) {
                    pool.set_allowance(allowance);
                    self.touched.insert(key);
                }
            }
            ReaderCommand::Destroy { key, at_or_before } => {
                if let Some(pool) = pool(&key) {
                    pool.destroy_released_chunks_at_or_before(at_or_before);
                    self.touched.insert(key);
                }
            }
            ReaderCommand::Ended { key } if self.programs.contains_key(&key) => self.end(key),
            ReaderCommand::Ended { key } => self.unmet.push(key),
            ReaderCommand::RecordsItself { pid } => {
                self.end_outside(pid, Ending::Recorder);
                self.end_earlier_program(pid);
            }
            ReaderCommand::ObserveOutside(process) => self.add_newcomer(process),
            ReaderCommand::Pause(is_paused) => self.pause(is_paused),
            ReaderCommand::Meet(met) => self.meetings.push(met),
            ReaderCommand::End => {}
        }
    }

    /// Pauses, or goes on. Nothing that threads do in a pause is recorded.
    fn pause(&mut self, is_paused: bool) {
        if std::mem::replace(&mut self.is_paused, is_paused) == is_paused {
            return;
        }
        for (key, reading) in &mut self.programs {
            reading.program.note_clock(&reading.clock);
            reading.program.suspend();
            self.touched.insert(*key);
        }
    }

    /// Reads all programs that are due, or all programs if `is_asked`.
    fn pass(&mut self, is_asked: bool) {
        self.turns.begin_pass();
        self.look_for_files();
        if self.looks_left > 0 || self.turns.is_without_program() {
            self.turns.hurry();
        }
        if self.turns.pass().is_multiple_of(IDLE_PASSES) {
            self.end_hidden();
            self.end_recorders();
            if self.directory.is_full() {
                self.context.processes.note_full_directory();
            }
        }
        let due = self.turns.take_due();
        let keys = if is_asked {
            self.programs.keys().copied().collect()
        } else {
            due
        };
        for key in &keys {
            self.read(*key, is_asked);
        }
        if !self.is_paused {
            self.look(keys, is_asked);
        }
    }

    /// Reads a program if it is due or `is_asked`.
    fn read(&mut self, key: PoolId, is_asked: bool) {
        let Some(reading) = self.programs.get_mut(&key) else {
            return;
        };
        if !is_asked && !self.turns.is_due(&reading.turn) {
            return;
        }
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        if reading.is_due() {
            let granted = reading.program.ring_bytes();
            reading.read(&mut self.files, self.is_paused);
            let bytes = reading.program.ring_bytes();
            if bytes != granted {
                self.context.processes.set_ring_bytes(key, bytes);
            }
            self.touched.insert(key);
            let is_turn = reading.turn.quiet > 0 || self.turns.pass().is_multiple_of(WAIT_PASSES);
            if is_turn && !self.is_paused {
                reading.record_waits(false);
            }
        }
        self.turns.set_next(key, &mut reading.turn);
        if reading.program.has_left() {
            self.end(key);
        }
    }

    /// Looks at the threads of these programs, from the program after the last.
    fn look(&mut self, mut keys: Vec<PoolId>, is_asked: bool) {
        let mut budget = if is_asked {
            LOOKS_FOR_CAPTURE
        } else {
            LOOKS_PER_PASS
        };
        keys.sort_unstable();
        let first = keys.partition_point(|key| self.looked_last.is_some_and(|last| *key <= last));
        keys.rotate_left(first);
        for key in keys {
            let Some(reading) = self.programs.get_mut(&key) else {
                continue;
            };
            if !reading.turn.is_active || !reading.program.is_look_due() {
                continue;
            }
            if budget.is_spent() {
                return;
            }
            reading.look(&mut self.files, &mut lock(&self.names), &mut budget);
            self.frequent
                .set(key, reading.program.needs_frequent_looks());
            self.progress.steps.fetch_add(1, Ordering::Relaxed);
            self.touched.insert(key);
            self.looked_last = Some(key);
        }
    }

    /// Records the waits of all programs up to now.
    fn record_waits(&mut self) {
        if self.is_paused {
            return;
        }
        for (key, reading) in &mut self.programs {
            self.progress.steps.fetch_add(1, Ordering::Relaxed);
            if reading.record_waits(true) {
                self.touched.insert(*key);
            }
        }
    }

    /// Ends each program whose process is not watched if the program has stored its end, or if the
    /// system does not show the process.
    fn end_hidden(&mut self) {
        let is_gone = |(pid, start)| facts_of(pid).is_none_or(|facts| facts.start != start);
        let has_ended = |(key, process): &(&PoolId, &Option<(ProcessId, ProcessStart)>)| {
            let reading = self.programs.get(*key);
            reading.is_none_or(|reading| reading.program.ended_cpu_ns().is_some())
                || process.is_some_and(is_gone)
        };
        let ended = self.hidden.iter().filter(has_ended);
        let ended: Vec<PoolId> = ended.map(|(key, _)| *key).collect();
        ended.into_iter().for_each(|key| self.end(key));
    }

    /// Passes the updates of the chunk managers to the supervisor.
    fn send_updates(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            let reading = self.programs.get(&key);
            let update = reading.map(|reading| reading.program.take_updates());
            if let Some(update) = update.filter(ManagerUpdate::is_some) {
                self.supervisor
                    .send(SupervisorEvent::Observed(ObservedEvent::Updated {
                        key,
                        update,
                    }));
            }
        }
    }

    /// Begins to read the files that are new in the directory.
    fn look_for_files(&mut self) {
        let Ok(state) = self.directory.state() else {
            return;
        };
        if state != self.seen {
            self.seen = state;
            self.looks_left = LOOKS;
        }
        let looks_again = self.has_unfinished && self.turns.pass().is_multiple_of(IDLE_PASSES);
        if self.looks_left == 0 && !looks_again {
            return;
        }
        self.looks_left = self.looks_left.saturating_sub(1);
        let Ok(names) = self.directory.names() else {
            return;
        };
        let present: HashSet<&OsString> = names.iter().collect();
        self.known.retain(|name| present.contains(name));
        self.young.retain(|name, _| present.contains(name));
        let mut new: Vec<OsString> = names.into_iter().filter(|name| self.is_new(name)).collect();
        // The name contains the time at which the file was made.
        new.sort_by_cached_key(time_in);
        let mut are_complete = true;
        let mut unread = new.len() as u64;
        for name in new {
            // The memory of a program that has ended may be needed for the next one.
            if !self.carry_out_all() {
                return;
            }
            self.note_progress(unread);
            match self.meet(&name) {
                Met::Done => drop(self.known.insert(name)),
                Met::Later => {
                    are_complete = false;
                    continue; // it is not read yet
                }
                Met::Unfinished => are_complete = false,
                Met::Young => self.looks_left = self.looks_left.max(1),
            }
            unread = unread.saturating_sub(1);
        }
        self.note_progress(unread);
        self.has_unfinished = !are_complete;
    }

    /// Counts a step for threads that wait for the reader, and notes the number of files that are
    /// left.
    fn note_progress(&self, unread_files: u64) {
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        self.context.processes.set_unread_files(unread_files);
    }

    pub(super) fn is_new(&self, name: &OsString) -> bool {
        !self.known.contains(name)
    }

    /// Ends the program that a process had before it executed another one.
    fn end_earlier_program(&mut self, pid: ProcessId) {
        let earlier = self
            .programs
            .iter()
            .find(|(_, reading)| reading.program.pid == pid && reading.program.goes_on());
        if let Some(key) = earlier.map(|(key, _)| *key) {
            self.end(key);
        }
    }

    /// Reads the rest of a program, and tells the supervisor that it has ended.
    fn end(&mut self, key: PoolId) {
        self.hidden.remove(&key);
        let Some(Reading {
            mut program, clock, ..
        }) = self.programs.remove(&key)
        else {
            return;
        };
        program.note_clock(&clock);
        if !program.has_recorder() {
            lock(&self.names).forget(program.pid);
        }
        let goes_on = program.goes_on();
        let ending = if goes_on { Ending::Exec } else { Ending::Exit };
        program.end_outside(ending, clock.cpu_ns());
        let is_short = goes_on && program.used_ns() < SHORT_NS;
        let is_left_out = is_short && (program.has_recorder() || program.is_fork());
        if program.has_recorder() {
            self.context.processes.note_recorder(key, is_left_out);
        } else if is_left_out {
            self.context.processes.leave_out(key);
            self.replaced.remove(program.pid);
        } else if goes_on {
            let ended_cpu_ns = program.ended_cpu_ns().or(clock.cpu_ns());
            self.replaced.insert(program.pid, ended_cpu_ns);
        } else {
            self.replaced.remove(program.pid);
        }
        let time = program.end(&mut self.files, self.is_paused, clock.cpu_ns());
        if !is_left_out {
            self.time_of_ended = self.time_of_ended.plus(time);
        }
        self.tell_time();
        let own = std::iter::once((key, time));
        self.context.processes.set_times(own);
        self.context.processes.set_ring_bytes(key, 0);
        self.supervisor
            .send(SupervisorEvent::Observed(ObservedEvent::Ended {
                key,
                goes_on,
            }));
    }
}

/// The part of a file's name that tells when it was made.
fn time_in(name: &OsString) -> Vec<u8> {
    let name = name.as_encoded_bytes();
    let point = name.iter().position(|byte| *byte == b'.').unwrap_or(0);
    name.get(point..).unwrap_or_default().to_vec()
}
