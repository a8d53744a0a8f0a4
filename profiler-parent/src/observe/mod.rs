//! Observed timelines: what all processes record, as it happens.
//!
//! [`Session::observe`](crate::Session::observe) gives an [`Observer`], from which batches are taken. Processes know
//! nothing of it: one thread of this process reads what was committed to their pools ([`profiler_core::internal::reader::Follower`]),
//! for all observers at once, and exists only while there is an observer. What a slow observer does not take is
//! counted in its batches ([`Batch::dropped`]), what was evicted before it could be read too ([`Batch::missed`]).
//!
//! ```text
//! pools ──Follower──▶ reader thread ──▶ spans of each process ──▶ filter of each observer ──▶ its bounded queue ──▶ host
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
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded, unbounded};
use profiler_core::internal::sys::spawn_quiet;

#[doc(hidden)]
pub use decode::{DecodedMarker, MarkerDecoder};
pub use event::{
    Batch, BatchClock, Detail, Field, Flow, ObservedMarker, Origin, Shape, SharedText, SpanNumber, Value,
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

/// How long a callback's thread waits before it checks whether it must end.
const LOOK: Duration = Duration::from_millis(100);

/// Why nothing is observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The system gives no thread.
    #[error("cannot start a thread for observers: {0}")]
    Thread(#[from] io::Error),
}

/// All observers of a session, with the reader thread, which exists only while there is an observer.
#[derive(Clone, Debug)]
pub(crate) struct ObserverRegistry {
    pools: ObservedPools,
    state: Arc<Mutex<ReaderThreads>>,
}

#[derive(Debug, Default)]
struct ReaderThreads {
    running: Option<Running>,
    /// Reader threads that are ending.
    ending: Vec<JoinHandle<()>>,
    quiet: Quiet,
    started: u64,
    is_over: bool,
}

/// A reader thread.
#[derive(Debug)]
struct Running {
    commands: Sender<Command>,
    thread: JoinHandle<()>,
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

    /// Serves another observer.
    pub(crate) fn observe(&self, filter: Filter, options: ObserverOptions) -> Result<Observer, ObserveError> {
        let queue = Arc::new(BatchQueue::new(options.queue_bytes));
        let clock = clock_now(self.pools.time);
        let subscriber = Box::new(Subscriber::new(filter, options, Arc::downgrade(&queue), clock));
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
        Ok(Observer { queue, state: Arc::clone(&self.state), number, quiet })
    }

    /// The session ends: sends what was recorded until now, then nothing more. Waits for the reader thread, which
    /// does not wait.
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
    /// Gives an observer to the reader thread, which is started if there is none; says which one it is.
    fn attach(&mut self, pools: &ObservedPools, attach: Command) -> io::Result<u64> {
        let mut command = attach;
        if let Some(running) = &mut self.running {
            match running.commands.send(command) {
                Ok(()) => {
                    running.observers += 1;
                    return Ok(running.number);
                }
                Err(refused) => command = refused.0, // it has panicked
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
        let (commands, told) = unbounded();
        let (pools, quiet) = (pools.clone(), Arc::clone(&self.quiet));
        let thread = spawn_quiet("profiler-observe", move || {
            // After a panic observers get no more batches.
            let _ = catch_unwind(AssertUnwindSafe(|| reader::run(pools, &told, &quiet)));
        })?;
        self.started += 1;
        Ok(Running { commands, thread, observers: 1, number: self.started })
    }

    /// An observer of this reader thread is gone. The last one's end is the thread's.
    fn leave(&mut self, number: u64) {
        let Some(running) = self.running.as_mut().filter(|running| running.number == number) else { return };
        running.observers -= 1;
        if running.observers == 0 {
            self.end();
        } else {
            let _ = running.commands.send(Command::Left);
        }
    }

    fn end(&mut self) {
        self.ending.retain(|thread| !thread.is_finished());
        self.ending.extend(self.running.take().map(|running| running.thread));
    }
}

/// Gets what all processes record, in batches. Dropping it ends that, and frees what waits.
#[derive(Debug)]
pub struct Observer {
    queue: Arc<BatchQueue>,
    state: Arc<Mutex<ReaderThreads>>,
    number: u64,
    quiet: Quiet,
}

impl Observer {
    /// The next batch; waits for it for at most `patience`. Takes no processor time meanwhile.
    ///
    /// # Errors
    /// [`NoBatch`]: nothing happened, or the session is over.
    pub fn next(&self, patience: Duration) -> Result<Batch, NoBatch> {
        self.queue.take(patience)
    }

    /// Calls `each` with every batch, on a thread of its own, until this or the session ends. What that thread
    /// records is not reported to observers.
    ///
    /// # Errors
    /// [`ObserveError`]; nothing is forwarded then.
    pub fn forward(self, each: impl FnMut(Batch) + Send + 'static) -> Result<Forwarding, ObserveError> {
        let (stop, stopped) = unbounded::<()>();
        let thread = spawn_quiet("profiler-forward", move || {
            let quiet = Arc::clone(&self.quiet);
            let _hushed = Hushed::new(&quiet);
            let _ = catch_unwind(AssertUnwindSafe(|| forward(&self, &stopped, each)));
        })?;
        Ok(Forwarding { stop: Some(stop), thread: Some(thread) })
    }
}

fn forward(observer: &Observer, stopped: &crossbeam_channel::Receiver<()>, mut each: impl FnMut(Batch)) {
    let goes_on = || stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Empty);
    while goes_on() {
        match observer.next(LOOK) {
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

/// Batches on their way to a callback. Dropping it ends that, and waits for a call that runs.
#[derive(Debug)]
pub struct Forwarding {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.stop = None;
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }
}
