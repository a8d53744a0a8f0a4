//! Code that the tests of this crate share: the session of a test, the contents of its pool, and a
//! thread that runs jobs.
//!
//! A session is global to its process, so a test that starts one runs in a separate process.

mod entries;
mod own_session;

use std::sync::mpsc;

use profiler_core::internal::pool::PoolSpec;
use profiler_core::session::SessionParams;

pub(crate) use entries::{for_each_entry, for_each_sample};
pub(crate) use own_session::{RunningSession, pool, snapshot};

/// The specification of a new pool for a session with these parameters, as a parent creates it for
/// a child.
pub(crate) fn pool_spec(params: &SessionParams) -> PoolSpec {
    PoolSpec::starting_now(params.clone()).unwrap()
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
