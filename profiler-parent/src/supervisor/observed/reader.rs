//! The thread that reads the files of all observed programs.
//!
//! A pass looks for new files, empties the rings, and carries out what the supervisor has asked
//! for. Programs that have used no processor time lately are looked at less often.

mod beginnings;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::observed::ObservedFiles;
use profiler_observed::file::{ObservedFile, ObservedFileError};

use super::ReaderCommand;
use super::directory::{DirectoryState, ObservedDirectory};
use super::program::ObservedProgram;
use crate::supervisor::{SupervisorContext, SupervisorEvent, SupervisorHandle};
use beginnings::Met;

/// The time between two passes while programs run.
const PAUSE: Duration = Duration::from_millis(20);
/// The number of passes from one reading of an idle program to the next.
const IDLE_PASSES: u32 = 8;
/// The passes without samples after which a program counts as idle.
const IDLE_AFTER: u32 = 25;

/// In how many passes the names are read after a change of the directory: the system notes the time
/// of a change in steps of some milliseconds.
const LOOKS: u32 = 3;

/// A program that is read.
#[derive(Debug)]
struct Reading {
    program: ObservedProgram,
    /// How often it has had no samples, in a row.
    quiet_passes: u32,
    /// Its process is not found, so only its file tells that it has ended.
    is_hidden: bool,
}

/// Reads the files of observed programs.
#[derive(Debug)]
pub(super) struct ObservedReader {
    context: Arc<SupervisorContext>,
    supervisor: SupervisorHandle,
    directory: Arc<ObservedDirectory>,
    commands: Sender<ReaderCommand>,
    orders: Receiver<ReaderCommand>,
    files: ObservedFiles,
    programs: BTreeMap<PoolId, Reading>,
    seen: DirectoryState,
    /// In how many further passes the names are read.
    looks_left: u32,
    /// Whether there are files that are not finished: a program is about to begin, or may never.
    has_unfinished: bool,
    /// The names of all files that are read or were refused.
    known: HashSet<OsString>,
    /// The processor time of processes at the end of the program that they have replaced.
    replaced: HashMap<ProcessId, u64>,
    is_paused: bool,
    /// In how many passes each new file has been looked at.
    young: HashMap<OsString, u32>,
    /// Whether also programs are met that have just begun.
    is_urgent: bool,
    /// Processes that have ended and were not met.
    unmet: Vec<PoolId>,
    /// Captures that wait for a pass.
    meetings: Vec<Sender<()>>,
    passes: u32,
}

impl ObservedReader {
    pub(super) fn new(
        context: Arc<SupervisorContext>,
        supervisor: SupervisorHandle,
        directory: Arc<ObservedDirectory>,
        (commands, orders): (Sender<ReaderCommand>, Receiver<ReaderCommand>),
    ) -> Self {
        Self {
            context,
            supervisor,
            directory,
            commands,
            orders,
            files: ObservedFiles::new(),
            programs: BTreeMap::new(),
            seen: DirectoryState::default(),
            looks_left: LOOKS,
            has_unfinished: false,
            known: HashSet::new(),
            replaced: HashMap::new(),
            is_paused: false,
            young: HashMap::new(),
            is_urgent: false,
            unmet: Vec::new(),
            meetings: Vec::new(),
            passes: 0,
        }
    }

    /// Runs until the session ends.
    pub(super) fn run(mut self) {
        loop {
            match self.orders.recv_timeout(PAUSE) {
                Ok(ReaderCommand::End) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(order) => self.carry_out(order),
                Err(RecvTimeoutError::Timeout) => self.pass(),
            }
            if !self.carry_out_all() {
                return;
            }
            self.meet_all();
            self.send_updates();
        }
    }

    /// Meets all programs, if a capture waits for that, or a process that has ended has not been
    /// met. Not within a pass, in which such commands may arrive, too.
    fn meet_all(&mut self) {
        let meetings = std::mem::take(&mut self.meetings);
        let unmet = std::mem::take(&mut self.unmet);
        if meetings.is_empty() && unmet.is_empty() {
            return;
        }
        self.is_urgent = true;
        self.looks_left = LOOKS;
        self.pass();
        self.is_urgent = false;
        for key in unmet {
            if self.programs.contains_key(&key) {
                self.end(key);
            } else {
                let goes_on = false;
                self.supervisor
                    .send(SupervisorEvent::ObservedEnded { key, goes_on });
            }
        }
        drop(meetings);
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
                }
            }
            ReaderCommand::Destroy { key, at_or_before } => {
                if let Some(pool) = pool(&key) {
                    pool.destroy_released_chunks_at_or_before(at_or_before);
                }
            }
            ReaderCommand::Ended { key } if self.programs.contains_key(&key) => self.end(key),
            ReaderCommand::Ended { key } => self.unmet.push(key),
            ReaderCommand::RecordsItself { pid } => self.end_earlier_program(pid),
            ReaderCommand::Pause(is_paused) => self.is_paused = is_paused,
            ReaderCommand::Meet(met) => self.meetings.push(met),
            ReaderCommand::End => {}
        }
    }

    fn pass(&mut self) {
        self.passes = self.passes.wrapping_add(1);
        self.look_for_files();
        let reads_idle = self.passes.is_multiple_of(IDLE_PASSES);
        if reads_idle {
            self.end_hidden();
        }
        for (key, reading) in &mut self.programs {
            let is_idle = reading.quiet_passes > IDLE_AFTER;
            if is_idle && !reads_idle {
                continue;
            }
            let granted = reading.program.ring_bytes();
            let read = reading.program.pass(&mut self.files, self.is_paused);
            if reading.program.ring_bytes() != granted {
                let bytes = reading.program.ring_bytes();
                self.context.processes.set_ring_bytes(*key, bytes);
            }
            let has_samples = read.is_ok_and(|samples| samples > 0);
            reading.quiet_passes = if has_samples {
                0
            } else {
                reading.quiet_passes.saturating_add(1)
            };
        }
    }

    /// Ends the programs of hidden processes that have stored their end.
    fn end_hidden(&mut self) {
        let has_ended =
            |reading: &Reading| reading.is_hidden && reading.program.ended_cpu_ns().is_some();
        let ended: Vec<PoolId> = self
            .programs
            .iter()
            .filter(|(_, reading)| has_ended(reading))
            .map(|(key, _)| *key)
            .collect();
        ended.into_iter().for_each(|key| self.end(key));
    }

    /// Passes the updates of all chunk managers to the supervisor.
    fn send_updates(&self) {
        for (key, reading) in &self.programs {
            let update = reading.program.take_updates();
            if update.is_some() {
                self.supervisor
                    .send(SupervisorEvent::ObservedUpdate { key: *key, update });
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
        let looks_again = self.has_unfinished && self.passes.is_multiple_of(IDLE_PASSES);
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
        let mut are_complete = true;
        let mut arrived = Vec::new();
        for name in names {
            if self.known.contains(&name) {
                continue;
            }
            let path = self.directory.path().join(&name);
            match ObservedFile::open(&path) {
                Ok(file) => arrived.push((name, path, file)),
                Err(ObservedFileError::Unfinished) => are_complete = false,
                Err(_) => drop(self.known.insert(name)),
            }
        }
        // The name contains the time at which the file was made.
        arrived.sort_by_cached_key(|(name, ..)| time_in(name));
        for (name, path, file) in arrived {
            // The memory of a program that has ended may be needed for the next one.
            if !self.carry_out_all() {
                return;
            }
            match self.meet(&name, path, file) {
                Met::Done => drop(self.known.insert(name)),
                Met::Later => are_complete = false,
                Met::Young => self.looks_left = self.looks_left.max(1),
            }
        }
        self.has_unfinished = !are_complete;
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
        let Some(Reading { program, .. }) = self.programs.remove(&key) else {
            return;
        };
        let goes_on = program.goes_on();
        if let Some(used) = program.ended_cpu_ns().filter(|_| goes_on) {
            self.replaced.insert(program.pid, used);
        }
        if program.has_recorder() {
            self.context.processes.note_recorder(key);
        }
        program.end(&mut self.files, self.is_paused);
        self.context.processes.set_ring_bytes(key, 0);
        self.supervisor
            .send(SupervisorEvent::ObservedEnded { key, goes_on });
    }
}

/// The part of a file's name that tells when it was made.
fn time_in(name: &OsString) -> Vec<u8> {
    let name = name.as_encoded_bytes();
    let point = name.iter().position(|byte| *byte == b'.').unwrap_or(0);
    name.get(point..).unwrap_or_default().to_vec()
}
