//! Code that the tests of this crate share: the session of a test, the contents of its pool, and a
//! thread that runs jobs.
//!
//! A session is global to its process, so a test that starts one runs in a separate process.

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

    /// Starts a session whose pool holds at most `bytes`.
    pub(crate) fn with_limit(bytes: u64) -> Self {
        Self::start(SessionParams {
            limit: ByteLimit::new(bytes),
            ..SessionParams::default()
        })
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Opens the pool of this process.
pub(crate) fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The present contents of this process's pool.
pub(crate) fn snapshot() -> Snapshot {
    pool().snapshot().unwrap()
}

/// The specification of a new pool for a session with these parameters, as a parent creates it for
/// a child.
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

/// A thread that runs the jobs that are sent to it, and reports the end of each job.
pub(crate) struct Worker {
    jobs: mpsc::Sender<fn()>,
    done: mpsc::Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Worker {
    pub(crate) fn new(name: &str) -> Self {
        let (jobs, received_jobs) = mpsc::channel::<fn()>();
        let (done_sender, done) = mpsc::channel();
        let body = move || {
            for job in received_jobs {
                job();
                done_sender.send(()).unwrap();
            }
        };
        Self {
            jobs,
            done,
            thread: std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(body)
                .unwrap(),
        }
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
