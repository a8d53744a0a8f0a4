//! For whom the threads of the session's processes wait. Linux, x86-64 and aarch64.
//!
//! A process that records itself asks for its waiting threads (`profiler_core`'s `own_waits`); the
//! reader of observed programs asks in each of its looks. Both use the same names, so each object
//! is looked up once.
//!
//! ```text
//! child ──AskedWaits──▶ supervisor ──WaitQuestion──▶ service's thread ──▶ WaitNames
//! own process's sampler ─────▲  ▲────────── WaitsNamed ─────┘                ▲
//!                                            reader of observed programs ────┘
//! ```
//!
//! Invariants: the supervisor never waits for a look-up. The thread exists from the first question
//! on. A child that was spawned as an untrusted one learns no names.

mod deadlocks;
mod names;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_core::session;
use profiler_sys::{QuietThread, spawn_quiet};

use super::events::SupervisorEvent;
use crate::process_table::ProcessTable;
pub(super) use names::WaitNames;

/// The number of questions that wait for the thread. Each process has one at most.
const QUEUE: usize = 1024;
/// The time between two checks for deadlocks.
const CHECK: Duration = Duration::from_secs(1);

/// The names of waits, for all threads that look them up.
pub(super) type SharedWaitNames = Arc<Mutex<WaitNames>>;

/// Names of a session that has looked up nothing yet.
pub(super) fn shared_names(processes: Arc<ProcessTable>) -> SharedWaitNames {
    Arc::new(Mutex::new(WaitNames::new(processes)))
}

/// The names, for the calling thread alone.
pub(super) fn lock(names: &SharedWaitNames) -> MutexGuard<'_, WaitNames> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process that asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum AskingProcess {
    /// This process.
    Own,
    /// A child, with its number.
    Child(PoolId, ProcessId),
}

/// A question of a process.
#[derive(Debug)]
struct WaitQuestion {
    process: AskingProcess,
    waits: Vec<AskedWait>,
}

/// Answers the questions of processes.
#[derive(Debug)]
pub(super) struct WaitService {
    names: SharedWaitNames,
    events: Sender<SupervisorEvent>,
    thread: Option<(Sender<WaitQuestion>, QuietThread<()>)>,
}

impl WaitService {
    /// A service that sends its answers as events.
    pub(super) const fn new(names: SharedWaitNames, events: Sender<SupervisorEvent>) -> Self {
        Self {
            names,
            events,
            thread: None,
        }
    }

    /// Passes on a question. Without a thread or without room, the process gets no answer, and asks
    /// again later.
    pub(super) fn ask(&mut self, process: AskingProcess, waits: Vec<AskedWait>) {
        if self.thread.is_none() {
            self.thread = self.start().ok();
        }
        if let Some((questions, _)) = &self.thread {
            let _ = questions.try_send(WaitQuestion { process, waits });
        }
    }

    fn start(&self) -> io::Result<(Sender<WaitQuestion>, QuietThread<()>)> {
        let (questions, queue) = bounded(QUEUE);
        let names = Arc::clone(&self.names);
        let events = self.events.clone();
        let run = move || answer_all(&names, &queue, &events);
        Ok((questions, spawn_quiet("profiler-waits", run)?))
    }
}

impl Drop for WaitService {
    fn drop(&mut self) {
        if let Some((questions, thread)) = self.thread.take() {
            drop(questions); // it ends after the present question
            let _ = thread.join();
        }
    }
}

/// Answers questions until the service ends.
fn answer_all(
    names: &SharedWaitNames,
    questions: &Receiver<WaitQuestion>,
    events: &Sender<SupervisorEvent>,
) {
    loop {
        match questions.recv_timeout(CHECK) {
            Ok(question) => answer(names, question, events),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        lock(names).check_deadlocks();
    }
}

fn answer(names: &SharedWaitNames, question: WaitQuestion, events: &Sender<SupervisorEvent>) {
    let pid = match question.process {
        AskingProcess::Own => ProcessId::new(std::process::id()),
        AskingProcess::Child(_, pid) => pid,
    };
    let waits = question.waits.iter();
    let waits: Vec<NamedWait> = waits
        .filter_map(|wait| lock(names).answer(pid, wait))
        .collect();
    match question.process {
        AskingProcess::Own => session::name_waits(waits),
        // The queue may be full, and the supervisor may wait for this thread at its end: the
        // process does without an answer then.
        AskingProcess::Child(key, _) => {
            let _ = events.try_send(SupervisorEvent::WaitsNamed { key, waits });
        }
    }
}
