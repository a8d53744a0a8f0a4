//! The threads that compute slow answers while the server's thread answers other requests.
//!
//! Used by [`super::server`]. A thread starts when there is work for it, and ends when it has been
//! idle for [`IDLE_TIME`]. Invariants: at most [`WORKERS`] threads run, and at most
//! [`MAX_WAITING`] jobs wait; further jobs are refused. A job whose client has disconnected is not
//! started. A panic of a job ends neither its thread nor the server.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::{Response, StatusCode};
use profiler_sys::spawn_quiet;
use tokio::sync::oneshot;

use super::answer::{Answer, status};
use super::service::Work;

/// Limit on the threads of a server that compute answers.
pub(super) const WORKERS: usize = 4;
/// Limit on the pieces of work that wait for a thread.
pub(super) const MAX_WAITING: usize = 16;
/// How long a thread without work stays.
const IDLE_TIME: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// The work that waits, and the number of threads.
#[derive(Default)]
struct WorkState {
    waiting: VecDeque<Job>,
    threads: usize,
    /// Threads that wait for work.
    idle: usize,
    is_over: bool,
}

#[derive(Default)]
struct WorkQueue {
    state: Mutex<WorkState>,
    /// Wakes a thread that waits for work.
    changed: Condvar,
}

impl WorkQueue {
    fn lock(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The body of a thread.
    fn serve(&self) {
        let mut state = self.lock();
        while !state.is_over {
            if let Some(job) = state.waiting.pop_front() {
                drop(state);
                // The client of work that panics gets an answer without content.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, IDLE_TIME);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

/// The threads of one server. They end when this is dropped.
pub(super) struct Workers {
    thread_name: &'static str,
    queue: Arc<WorkQueue>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// No threads yet.
    pub(super) fn new(thread_name: &'static str) -> Self {
        Self {
            thread_name,
            queue: Arc::default(),
        }
    }

    /// Computes an answer on a thread.
    pub(crate) async fn answer(&self, work: Work) -> Response<Answer> {
        let (sender, answer) = oneshot::channel();
        let job = move || {
            if !sender.is_closed() {
                let _ = sender.send(work());
            }
        };
        if !self.submit(Box::new(job)) {
            return status(StatusCode::SERVICE_UNAVAILABLE);
        }
        let answer = answer.await;
        answer.unwrap_or_else(|_| status(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// Passes work to a thread; returns whether there was room for it.
    fn submit(&self, job: Job) -> bool {
        let mut state = self.queue.lock();
        if state.waiting.len() >= MAX_WAITING {
            return false;
        }
        state.waiting.push_back(job);
        if state.waiting.len() > state.idle && state.threads < WORKERS && self.start().is_ok() {
            state.threads += 1;
        }
        if state.threads == 0 {
            state.waiting.clear();
            return false; // the system has no thread left
        }
        drop(state);
        self.queue.changed.notify_one();
        true
    }

    fn start(&self) -> io::Result<()> {
        let queue = Arc::clone(&self.queue);
        spawn_quiet(self.thread_name, move || queue.serve()).map(drop)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.is_over = true;
        state.waiting.clear();
        drop(state);
        self.queue.changed.notify_all();
    }
}
