//! For whom the threads of the session's processes wait. Linux, x86-64 and aarch64.
//!
//! A process that records itself asks for its waiting threads (`profiler_core`'s `own_waits`); the
//! reader of observed programs asks in each of its looks. Both use one [`WaitNames`], so its caches
//! and its limit of look-ups hold for all processes.
//!
//! ```text
//! child ──AskedWaits──▶ supervisor ──WaitQuestion──▶ service's thread ──▶ WaitNames
//! own process's sampler ─────▲  ▲────────── WaitsNamed ─────┘                ▲
//!                                            reader of observed programs ────┘
//! ```
//!
//! Invariants: the supervisor never waits for a look-up. Every question is answered. The thread
//! exists from the first question on. A child that was spawned as an untrusted one learns no names.

mod deadlocks;
mod names;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::waits::{AskedWait, NamedWait};
use profiler_core::session;
use profiler_sys::{QuietThread, spawn_quiet};

use super::events::SupervisorEvent;
use crate::process_table::ProcessTable;
use crate::sys::now;
pub(super) use names::{WaitNames, check_deadlocks};

/// The number of questions that wait for the thread. Each process has one at most.
const QUEUE: usize = 1024;
/// The time between two checks for deadlocks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of look-ups a second for one process.
const MAX_LOOK_UPS_OF_ONE: u32 = 200;
/// How long the end of a session waits for the thread, and the time between two checks.
const END_PATIENCE: Duration = Duration::from_secs(1);
const END_PAUSE: Duration = Duration::from_millis(1);

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
    thread: Option<AnsweringThread>,
}

/// The thread that looks up waits.
#[derive(Debug)]
struct AnsweringThread {
    questions: Sender<WaitQuestion>,
    is_over: Arc<AtomicBool>,
    thread: QuietThread<()>,
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

    /// Passes on a question. False without a thread or without room: then the caller answers that
    /// nothing could be looked up, because a process asks nothing more before it is answered.
    pub(super) fn ask(&mut self, process: AskingProcess, waits: Vec<AskedWait>) -> bool {
        if self
            .thread
            .as_ref()
            .is_none_or(|thread| thread.thread.is_finished())
        {
            self.thread = self.start().ok();
        }
        self.thread.as_ref().is_some_and(|thread| {
            let question = WaitQuestion { process, waits };
            thread.questions.try_send(question).is_ok()
        })
    }

    fn start(&self) -> io::Result<AnsweringThread> {
        let (questions, queue) = bounded(QUEUE);
        let is_over = Arc::new(AtomicBool::new(false));
        let answering = Answering {
            names: Arc::clone(&self.names),
            events: self.events.clone(),
            is_over: Arc::clone(&is_over),
            second: now(),
            spent: HashMap::new(),
        };
        let thread = spawn_quiet("profiler-waits", move || answering.run(&queue))?;
        Ok(AnsweringThread {
            questions,
            is_over,
            thread,
        })
    }
}

impl Drop for WaitService {
    /// Ends the thread. A thread that does not end soon, because the system does not answer, is
    /// left alone: it ends after its look-up.
    fn drop(&mut self) {
        let Some(AnsweringThread {
            questions,
            is_over,
            thread,
        }) = self.thread.take()
        else {
            return;
        };
        is_over.store(true, Ordering::Release);
        drop(questions);
        let deadline = now() + END_PATIENCE;
        while !thread.is_finished() && now() < deadline {
            std::thread::sleep(END_PAUSE);
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Answering {
    names: SharedWaitNames,
    events: Sender<SupervisorEvent>,
    is_over: Arc<AtomicBool>,
    second: Instant,
    /// The look-ups for each process in the present second.
    spent: HashMap<ProcessId, u32>,
}

impl Answering {
    /// Answers questions until the service ends.
    fn run(mut self, questions: &Receiver<WaitQuestion>) {
        loop {
            match questions.recv_timeout(CHECK_INTERVAL) {
                Ok(question) => self.answer(question),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.is_over() {
                return;
            }
            check_deadlocks(&self.names);
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn answer(&mut self, question: WaitQuestion) {
        let pid = match question.process {
            AskingProcess::Own => ProcessId::new(std::process::id()),
            AskingProcess::Child(_, pid) => pid,
        };
        let mut named = Vec::new();
        for wait in &question.waits {
            if self.is_over() || !self.may_look_up(pid) {
                break;
            }
            named.extend(lock(&self.names).answer(pid, wait));
        }
        match question.process {
            AskingProcess::Own => session::name_waits(named),
            AskingProcess::Child(key, _) => self.send(key, named),
        }
    }

    /// Whether a process has look-ups left in this second, so that one process does not use up
    /// those of all others.
    fn may_look_up(&mut self, pid: ProcessId) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            self.second = now();
            self.spent.clear();
        }
        let spent = self.spent.entry(pid).or_default();
        *spent = spent.saturating_add(1);
        *spent <= MAX_LOOK_UPS_OF_ONE
    }

    /// Sends an answer, as soon as the supervisor has room for it.
    fn send(&self, key: PoolId, waits: Vec<NamedWait>) {
        let mut event = SupervisorEvent::WaitsNamed { key, waits };
        while let Err(SendTimeoutError::Timeout(rest)) =
            self.events.send_timeout(event, CHECK_INTERVAL)
        {
            if self.is_over() {
                return;
            }
            event = rest;
        }
    }
}
