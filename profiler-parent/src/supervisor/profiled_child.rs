//! The application's handle to a child of the session: its end, its name, and signals to it.
//!
//! Created by `spawn`. Invariant: a signal never reaches a later process with the same process id.

use std::future::poll_fn;
use std::io;
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Arc;
use std::task::{Context, Poll};

use profiler_core::ids::{PoolId, ProcessId};

use super::SupervisorHandle;
use crate::awaited::Awaited;
use crate::process_table::ProcessTable;

/// A child of the session. Dropping it leaves the child running, and watched.
#[derive(Debug)]
pub struct ProfiledChild {
    processes: Arc<ProcessTable>,
    supervisor: SupervisorHandle,
    key: PoolId,
    pid: ProcessId,
    is_profiled: bool,
    /// The child's standard input, if the command asked for a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if the command asked for a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if the command asked for a pipe.
    pub stderr: Option<ChildStderr>,
    /// The thread that waits for the end; `None` until a task awaits the child.
    ending: Option<Awaited<Option<ExitStatus>>>,
    /// The session remembers how the child ended while this exists.
    _alive: Arc<()>,
}

impl ProfiledChild {
    pub(super) fn new(
        supervisor: &SupervisorHandle,
        key: PoolId,
        pid: ProcessId,
        is_profiled: bool,
        alive: Arc<()>,
    ) -> Self {
        Self {
            processes: Arc::clone(&supervisor.processes),
            supervisor: supervisor.clone(),
            key,
            pid,
            is_profiled,
            stdin: None,
            stdout: None,
            stderr: None,
            ending: None,
            _alive: alive,
        }
    }

    /// The child's process id in the system.
    pub const fn id(&self) -> ProcessId {
        self.pid
    }

    /// Whether the child has a pool. A child without a pool runs, but is not profiled.
    pub const fn is_profiled(&self) -> bool {
        self.is_profiled
    }

    /// The child's name in profiles.
    pub fn name(&self) -> String {
        self.processes.name_of(self.key).unwrap_or_default()
    }

    /// Names the child after the program that records. If the started program is a wrapper, such as
    /// a shell, this is another program. The child reports the name of its program when it
    /// connects. If the child ends before that, its name does not change.
    pub fn name_by_program(&self) {
        self.processes.name_by_program(self.key);
    }

    /// Returns a handle that sends signals to the child. Any thread can use it, also while another
    /// one waits for the child.
    pub fn signals(&self) -> ChildSignals {
        ChildSignals {
            supervisor: self.supervisor.clone(),
            key: self.key,
        }
    }

    /// Whether the child's program has taken over its recording resources: it called
    /// `profiler_child::init()`, or recorded something.
    pub fn has_begun(&self) -> bool {
        self.processes.has_begun(self.key)
    }

    /// Waits for the child to end and returns its exit status. Closes the child's standard input
    /// first, as `std::process::Child` does.
    ///
    /// # Errors
    /// If other code in this process took the exit status, and neither the system nor
    /// [`Self::tell_end`] has reported it. Also if the session ends before a child of
    /// [`Session::spawn_by`](crate::Session::spawn_by) does.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.processes
            .wait_for_end(self.key)
            .ok_or_else(status_is_gone)
    }

    /// Waits for the child like [`Self::wait`], in asynchronous code on any executor. A thread of
    /// the profiler waits for the end and wakes the task. Each awaited child has one such thread
    /// until it ends. The future may be dropped and created again, as `select!` does.
    ///
    /// ```no_run
    /// # use profiler_parent::Session;
    /// # async fn run(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut worker = session.spawn("worker", std::process::Command::new("./worker"))?;
    /// let status = worker.wait_async().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Self::wait`], or if the system cannot start a thread.
    pub async fn wait_async(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        if self.has_ended() {
            return self.wait();
        }
        poll_fn(|context| self.poll_end(context)).await
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<ExitStatus>> {
        let ending = match self.ending.take() {
            Some(ending) => ending,
            None => {
                let (processes, key) = (Arc::clone(&self.processes), self.key);
                Awaited::start("profiler-wait", move || processes.wait_for_end(key))?
            }
        };
        let status = match ending.poll(context.waker()) {
            Poll::Ready(ended) => ended.ok().flatten(),
            Poll::Pending => {
                self.ending = Some(ending);
                return Poll::Pending;
            }
        };
        Poll::Ready(status.ok_or_else(status_is_gone))
    }

    /// Reports the exit status of the child to the session. Call this for a child of
    /// [`Session::spawn_by`](crate::Session::spawn_by), whose exit status another library takes.
    /// Profiles then show how the child ended, even if the system does not report it.
    pub fn tell_end(&self, status: ExitStatus) {
        self.processes.tell_status(self.key, status);
    }

    /// Returns the exit status of the child if it has ended. Does not wait.
    ///
    /// # Errors
    /// If other code in this process took the exit status, and neither the system nor
    /// [`Self::tell_end`] has reported it.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if !self.has_ended() {
            return Ok(None);
        }
        self.processes
            .wait_for_end(self.key)
            .ok_or_else(status_is_gone)
            .map(Some)
    }

    /// Whether the child has ended. If so, [`wait`](Self::wait) returns at once.
    pub fn has_ended(&self) -> bool {
        self.processes.has_ended(self.key)
    }

    /// Kills the child. Does nothing if it has ended.
    ///
    /// # Errors
    /// The system's error.
    pub fn kill(&mut self) -> io::Result<()> {
        // The watcher is asked first, because the end of a session moves the child from the watcher
        // to the process table.
        if self.supervisor.watcher().kill(&self.key)? {
            return Ok(());
        }
        self.processes.kill_released(self.key).unwrap_or(Ok(()))
    }
}

/// The system's error for a wait for a process that is no child or has been waited for.
fn status_is_gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ECHILD)
}

/// Sends signals to one child of the session, and never to a later process with the same process
/// id.
#[derive(Clone, Debug)]
pub struct ChildSignals {
    supervisor: SupervisorHandle,
    key: PoolId,
}

impl ChildSignals {
    /// Sends a signal. Returns `false` if the child or the session has ended.
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, signal: i32) -> io::Result<bool> {
        self.supervisor.watcher().signal(&self.key, signal)
    }
}
