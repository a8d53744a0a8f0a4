//! Observed timelines: the records of all processes, as they happen.
//!
//! [`Session::observe`](crate::Session::observe) returns an [`Observer`], from which batches are
//! taken. The processes are not involved: one thread of this process reads the entries committed to
//! their pools ([`profiler_core::internal::reader::Follower`]) for all observers at once. The
//! thread exists only while there is an observer. Batches count the markers that a slow observer
//! did not receive ([`Batch::dropped`]), and the entries that were evicted before they were read
//! ([`Batch::missed`]).
//!
//! ```text
//! pools ──Follower──▶ reader thread ──▶ spans of each process ──┐
//!   ┌───────────────────────────────────────────────────────────┘
//!   └─▶ filter of each observer ──▶ its bounded queue ──▶ host
//! ```

mod decode;
mod event;
mod filter;
mod process;
mod queue;
mod reader;
mod schedule;
mod spans;
mod subscriber;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use profiler_sys::{QuietThread, spawn_quiet};

#[doc(hidden)]
pub use decode::{DecodedMarker, MarkerDecoder};
pub use event::{
    Batch, BatchClock, Detail, Field, Flow, ObservedMarker, Origin, Shape, SharedText, SpanNumber,
    Value,
};
pub use filter::{ALL_GROUPS, Filter};
pub use queue::NoBatch;
pub use subscriber::ObserverOptions;

use crate::process_table::ProcessTable;
pub use crate::session_time::SessionNs;
use crate::session_time::SessionTime;
use queue::BatchQueue;
use reader::{Command, Hushed, ObservedPools, Quiet, clock_now};
use subscriber::Subscriber;

/// How long the thread of a callback waits between checks for its end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The reason why observing failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The system cannot start a thread.
    #[error("cannot start a thread for observers: {0}")]
    Thread(#[from] io::Error),
}

/// All observers of a session and their reader thread, which exists only while there is an
/// observer.
#[derive(Clone, Debug)]
pub(crate) struct ObserverRegistry {
    pools: ObservedPools,
    state: Arc<Mutex<ReaderThreads>>,
}

#[derive(Debug, Default)]
struct ReaderThreads {
    running: Option<Running>,
    /// Reader threads that are ending.
    ending: Vec<QuietThread<()>>,
    quiet: Quiet,
    started: u64,
    is_over: bool,
}

/// A reader thread.
#[derive(Debug)]
struct Running {
    commands: Sender<Command>,
    thread: QuietThread<()>,
    observers: usize,
    number: u64,
}

impl ObserverRegistry {
    pub(crate) fn new(processes: Arc<ProcessTable>, time: SessionTime) -> Self {
        Self {
            pools: ObservedPools { processes, time },
            state: Arc::new(Mutex::new(ReaderThreads::default())),
        }
    }

    /// Adds an observer.
    pub(crate) fn observe(
        &self,
        filter: Filter,
        options: ObserverOptions,
    ) -> Result<Observer, ObserveError> {
        let queue = Arc::new(BatchQueue::new(options.queue_bytes));
        let clock = clock_now(self.pools.time);
        let subscriber = Box::new(Subscriber::new(
            filter,
            options,
            Arc::downgrade(&queue),
            clock,
        ));
        let mut state = lock(&self.state);
        let quiet = Arc::clone(&state.quiet);
        let mut number = 0;
        if state.is_over {
            queue.close();
        } else {
            let (attach, attached) = bounded(0);
            number = state.attach(&self.pools, Command::Attach(subscriber, attach))?;
            drop(state);
            let _ = attached.recv();
        }
        Ok(Observer {
            queue,
            state: Arc::clone(&self.state),
            number,
            quiet,
        })
    }

    /// Ends observing with the session: sends the data recorded so far, then closes the queues.
    /// Waits for the reader thread, which itself never waits for observers.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.end();
        let threads = std::mem::take(&mut state.ending);
        drop(state);
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn lock(state: &Mutex<ReaderThreads>) -> MutexGuard<'_, ReaderThreads> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReaderThreads {
    /// Passes an observer to the reader thread, starting the thread if there is none. Returns the
    /// number of the thread.
    fn attach(&mut self, pools: &ObservedPools, attach: Command) -> io::Result<u64> {
        let mut command = attach;
        if let Some(running) = &mut self.running {
            match running.commands.send(command) {
                Ok(()) => {
                    running.observers += 1;
                    return Ok(running.number);
                }
                Err(refused) => command = refused.0, // the thread has panicked
            }
        }
        self.end();
        let running = self.start(pools)?;
        let number = running.number;
        let _ = running.commands.send(command);
        self.running = Some(running);
        Ok(number)
    }

    fn start(&mut self, pools: &ObservedPools) -> io::Result<Running> {
        let (commands, received) = unbounded();
        let pools = pools.clone();
        let quiet = Arc::clone(&self.quiet);
        let thread = spawn_quiet("profiler-observe", move || {
            // After a panic, observers get no more batches.
            let _ = catch_unwind(AssertUnwindSafe(|| reader::run(pools, &received, &quiet)));
        })?;
        self.started += 1;
        Ok(Running {
            commands,
            thread,
            observers: 1,
            number: self.started,
        })
    }

    /// Removes an observer of this reader thread. The thread ends with its last observer.
    fn leave(&mut self, number: u64) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|running| running.number == number)
        else {
            return;
        };
        running.observers -= 1;
        if running.observers == 0 {
            self.end();
        } else {
            let _ = running.commands.send(Command::Left);
        }
    }

    fn end(&mut self) {
        self.ending.retain(|thread| !thread.is_finished());
        self.ending
            .extend(self.running.take().map(|running| running.thread));
    }
}

/// Receives the records of all processes, in batches. Dropping it ends observing and frees the
/// queued batches.
#[derive(Debug)]
pub struct Observer {
    queue: Arc<BatchQueue>,
    state: Arc<Mutex<ReaderThreads>>,
    number: u64,
    quiet: Quiet,
}

impl Observer {
    /// Returns the next batch, waiting for at most `patience`. Waiting takes no processor time.
    ///
    /// # Errors
    /// [`NoBatch`]: nothing happened, or the session is over.
    pub fn next(&self, patience: Duration) -> Result<Batch, NoBatch> {
        self.queue.take(patience)
    }

    /// Calls `each` with every batch on a separate thread, until the returned value is dropped or
    /// the session ends. Records of that thread are not reported to observers.
    ///
    /// # Errors
    /// [`ObserveError`]; nothing is forwarded then.
    pub fn forward(
        self,
        each: impl FnMut(Batch) + Send + 'static,
    ) -> Result<Forwarding, ObserveError> {
        let (stop, stopped) = unbounded::<()>();
        let thread = spawn_quiet("profiler-forward", move || {
            let quiet = Arc::clone(&self.quiet);
            let _hushed = Hushed::new(&quiet);
            let _ = catch_unwind(AssertUnwindSafe(|| forward(&self, &stopped, each)));
        })?;
        Ok(Forwarding {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn forward(
    observer: &Observer,
    stopped: &crossbeam_channel::Receiver<()>,
    mut each: impl FnMut(Batch),
) {
    let goes_on = || stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Empty);
    while goes_on() {
        match observer.next(STOP_CHECK_INTERVAL) {
            Ok(batch) => each(batch),
            Err(NoBatch::Timeout) => {}
            Err(_) => return,
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        lock(&self.state).leave(self.number);
    }
}

/// Forwards batches to a callback. Dropping it stops forwarding and waits for a running call.
#[derive(Debug)]
pub struct Forwarding {
    stop: Option<Sender<()>>,
    thread: Option<QuietThread<()>>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop = None;
        let is_own = |thread: &QuietThread<()>| thread.is_current();
        if let Some(thread) = self.thread.take().filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }
}
