//! Observed programs: programs that do not call the profiler, and into which the library of
//! `profiler-observed` is loaded. Linux, x86-64 and aarch64.
//!
//! Started by [`super::Supervisor`] when programs are to be observed. Each program makes a file in
//! the session's directory, into which its signal handler copies registers and stacks. One thread
//! reads all files, unwinds, and writes the samples of each program into a pool. For everything
//! else in the session, an observed program is a process like any other.
//!
//! ```text
//! program: handler ──▶ file ──▶ reader's thread ──▶ pool ──▶ captures, live page, recovery, …
//!                                    │  ▲
//!                          updates   ▼  │  allowance, destroy, ended
//!                                  supervisor ◀── exit watcher (pidfd)
//! ```
//!
//! If the application asks for it, a process without a file is observed from outside (`outside`):
//! the system takes its samples, and the same thread reads them.
//!
//! Invariants: a program costs the session no message and no thread; the reader trusts nothing in a
//! file; the pool of a program obeys its allowance like every other; only the reader writes a pool,
//! until it has told the supervisor that the program has ended.

mod arrivals;
mod crash;
mod directory;
mod frequent_looks;
mod mapped_files;
mod module_places;
mod outside;
mod pools;
mod program;
mod program_file;
mod reader;
mod reader_commands;
mod reading;
mod remarks;
mod replaced;
mod turns;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, bounded};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::time::ClockKind;
use profiler_observed::{Observation, VARIABLE};
use profiler_sys::spawn_quiet;

use super::{SupervisorContext, SupervisorEvent, SupervisorHandle};
use crate::process_table::{ArrivalSource, ProcessTable, UnprofiledProcess};
use directory::ObservedDirectory;
pub(super) use pools::ObservedPools;
use reader::ObservedReader;
pub(crate) use reader_commands::CommandSender;
use reader_commands::ReaderCommand;

/// The signal of the timers, a real-time signal: `SIGRTMAX - 3`.
const SIGNAL: u8 = 61;
/// The shortest interval that programs are asked for.
const SHORTEST_INTERVAL_NS: u64 = 100_000;

/// An event of observed programs, for the supervisor.
#[derive(Debug)]
pub(crate) enum ObservedEvent {
    /// Programs are observed from now on: the reader takes commands.
    Began {
        /// The channel to the reader.
        commands: CommandSender,
        /// What it has done.
        progress: Arc<ReaderProgress>,
    },
    /// A process has a recorder of its own, for another session.
    RecordsItself {
        /// The process.
        pid: ProcessId,
    },
    /// A program is observed: its pool is written by the reader.
    Started {
        /// The program's pool.
        key: PoolId,
    },
    /// The chunks of a program have changed.
    Updated {
        /// The program's pool.
        key: PoolId,
        /// The changes.
        update: ManagerUpdate,
    },
    /// The observation of a program has ended, and its pool is complete. Also the answer to
    /// [`ReaderCommand::Ended`] about a process that has made no file.
    Ended {
        /// The program's pool.
        key: PoolId,
        /// Whether the process goes on: with another program, or with a recorder of its own.
        goes_on: bool,
    },
}

/// The directory of observed programs, and the thread that reads it.
#[derive(Debug)]
pub(super) struct ObservedService {
    directory: Arc<ObservedDirectory>,
    value: std::ffi::OsString,
    commands: CommandSender,
    thread: Option<profiler_sys::QuietThread<()>>,
    processes: Arc<ProcessTable>,
}

/// The time for which a capture waits for a reader that makes no progress.
const MEETING_PATIENCE: Duration = Duration::from_secs(2);
/// The maximum number of times that a capture waits for [`MEETING_PATIENCE`] if the reader makes
/// progress. Thousands of programs may have ended whose files the reader has not opened yet.
const MAX_MEETING_PATIENCES: u32 = 15;

/// How far the reader is, for threads that wait for it.
#[derive(Debug, Default)]
pub(crate) struct ReaderProgress {
    /// Counts what it has done.
    steps: AtomicU64,
}

/// Waits, for a limited time, until the reader has met all programs that have begun until now.
/// Returns the number of programs that it has not met.
fn meet(reader: &CommandSender, progress: &ReaderProgress, processes: &Weak<ProcessTable>) -> u64 {
    let (sender, met) = bounded(1);
    if reader.send(ReaderCommand::Meet(sender)).is_err() {
        return 0;
    }
    for _ in 0..MAX_MEETING_PATIENCES {
        let before = progress.steps.load(Ordering::Relaxed);
        match met.recv_timeout(MEETING_PATIENCE) {
            Ok(unmet) => return unmet,
            Err(RecvTimeoutError::Timeout) if progress.steps.load(Ordering::Relaxed) != before => {}
            Err(_) => break,
        }
    }
    let processes = processes.upgrade();
    processes.map_or(0, |processes| processes.unread_files())
}

impl ObservedService {
    /// Makes the directory and starts the thread.
    ///
    /// # Errors
    /// If the system refuses the directory or the thread.
    pub(super) fn start(
        context: Arc<SupervisorContext>,
        supervisor: SupervisorHandle,
    ) -> io::Result<Self> {
        let directory = Arc::new(ObservedDirectory::new()?);
        let asked = Observation {
            directory: directory.path(),
            signal: SIGNAL,
            interval_ns: context.params.interval_ns.max(SHORTEST_INTERVAL_NS),
            uses_cycle_counter: context.time.clock().kind == ClockKind::CycleCounter,
            records_crashes: context.observes_crashes,
        };
        let value = asked
            .value()
            .ok_or_else(|| io::Error::other("the path of the directory is too long"))?;
        let (commands, orders) = reader_commands::channel();
        let processes = Arc::clone(&context.processes);
        let progress = Arc::<ReaderProgress>::default();
        let started = commands.clone();
        supervisor.send(SupervisorEvent::Observed(ObservedEvent::Began {
            commands: started,
            progress: Arc::clone(&progress),
        }));
        let reader = ObservedReader::new(
            context,
            supervisor,
            Arc::clone(&directory),
            (commands.clone(), orders),
            Arc::clone(&progress),
        );
        let thread = spawn_quiet("profiler-observed", move || reader.run())?;
        let to_reader = commands.clone();
        let table = Arc::downgrade(&processes);
        processes.set_arrivals(ArrivalSource::Observed, move || {
            meet(&to_reader, &progress, &table)
        });
        Ok(Self {
            directory,
            value,
            commands,
            thread: Some(thread),
            processes,
        })
    }

    /// Observes a process without a file from outside, or lists it as not profiled. False if the
    /// reader has ended.
    pub(super) fn observe_outside(&self, process: UnprofiledProcess) -> bool {
        let command = ReaderCommand::ObserveOutside(process);
        self.commands.send(command).is_ok()
    }

    /// The variable that makes programs observed, with the library in `LD_PRELOAD`.
    pub(super) fn variable(&self) -> (&'static str, &std::ffi::OsStr) {
        (VARIABLE, &self.value)
    }
}

impl Drop for ObservedService {
    fn drop(&mut self) {
        self.processes.clear_arrivals(ArrivalSource::Observed);
        let _ = self.commands.send(ReaderCommand::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.directory.remove();
    }
}
