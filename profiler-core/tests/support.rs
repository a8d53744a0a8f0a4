//! What the tests of this crate share: the session of a test, and what its pool holds.
//!
//! A session is global to its process, so a test that starts one runs in a process of its own.

use std::fs::File;
use std::sync::mpsc;

use profiler_core::ids::ByteLimit;
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::{PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::SessionClock;

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    pub(crate) fn start(params: SessionParams) -> Self {
        session::start(params, StartOptions::default()).unwrap();
        Self
    }

    /// Whose pool holds at most `bytes`.
    pub(crate) fn with_limit(bytes: u64) -> Self {
        Self::start(SessionParams { limit: ByteLimit::new(bytes), ..SessionParams::default() })
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// The pool of this process.
pub(crate) fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// What the pool of this process holds now.
pub(crate) fn snapshot() -> Snapshot {
    pool().snapshot().unwrap()
}

/// A new pool for a session with these parameters, as a parent makes it for a child.
pub(crate) fn pool_spec(params: &SessionParams) -> PoolSpec {
    PoolSpec {
        id: pool::new_id().unwrap(),
        limit: params.limit,
        allowance: params.limit,
        clock: SessionClock::start_now(),
        params: params.clone(),
        name: String::new(),
    }
}

/// A thread that does what it is sent, and says when it is done.
pub(crate) struct Worker {
    jobs: mpsc::Sender<fn()>,
    done: mpsc::Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Worker {
    pub(crate) fn new(name: &str) -> Self {
        let (jobs, todo) = mpsc::channel::<fn()>();
        let (say, done) = mpsc::channel();
        let body = move || {
            for job in todo {
                job();
                say.send(()).unwrap();
            }
        };
        Self { jobs, done, thread: std::thread::Builder::new().name(name.to_owned()).spawn(body).unwrap() }
    }

    pub(crate) fn run(&self, job: fn()) {
        self.jobs.send(job).unwrap();
        self.done.recv().unwrap();
    }

    pub(crate) fn end(self) {
        drop(self.jobs);
        self.thread.join().unwrap();
    }
}
