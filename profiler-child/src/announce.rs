//! A start in two steps, for a program that may end at once: the session learns that the process
//! exists, and the process asks for memory later.
//!
//! Used by the agent, which is in every program of a tree, and most programs of a shell script end
//! within milliseconds. The first step costs a thread, a connection and one packet. While it waits
//! for them, the host's thread reads the environment and registers handlers of forks and exits,
//! which must not happen at the same time as a fork or a change of the environment. So the second
//! step may run while the program does. Invariant: the second step reads no environment, and
//! registers no handler of an exit or a fork.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use ipc_protocol::transport::joining::{self, JoinError};
use profiler_core::session;

use crate::connect::{InitError, Status, candidate, on_io_thread, record_if_handed, record_joined};
use crate::join::Candidate;
use crate::{io_thread, shutdown};

/// How long [`Announced`] waits for the I/O thread when it is dropped on another one.
const WAIT_OF_DROP: Duration = Duration::from_secs(1);

/// The outcome of [`announce`].
#[derive(Debug)]
pub enum Announcement {
    /// Whether this process records is decided, as after [`init`](crate::init).
    Decided(Status),
    /// The session knows this process.
    Made(Announced),
}

/// A process that its session knows, and that has not asked for memory. When it is dropped, the
/// session learns that the process does not join.
#[derive(Debug)]
pub struct Announced {
    /// `None` after the second step.
    candidacy: Option<Candidacy>,
    /// The process that has announced itself, of which a forked child is no part.
    owner: u32,
}

/// What the second step needs. Its connection is in the table of the I/O thread.
#[derive(Debug)]
struct Candidacy {
    candidate: Candidate,
    /// The connection; `None` if too many processes connected at once.
    connection: Option<joining::Announced>,
}

/// The first step of [`init`](crate::init). A process whose parent has handed memory to it records
/// now. Any other process announces itself to the session whose address it has inherited, and
/// records after [`Announced::join`]. If it ends before, the profile contains its name and for how
/// long it ran.
///
/// Waits for no answer, and for at most `patience` if too many processes connect to the session at
/// once. Call it while the process has one thread. Never panics or prints.
pub fn announce(patience: Duration) -> Announcement {
    let refused = match record_if_handed() {
        ControlFlow::Break(status) => return Announcement::Decided(status),
        ControlFlow::Continue(refused) => refused,
    };
    match announced(patience) {
        Ok(Some(announced)) => Announcement::Made(announced),
        Ok(None) => Announcement::Decided(refused.map_or(Status::NoParent, Status::Off)),
        Err(error) => Announcement::Decided(Status::Off(error)),
    }
}

fn announced(patience: Duration) -> Result<Option<Announced>, InitError> {
    let Some(candidate) = candidate(patience)? else {
        return Ok(None);
    };
    let candidacy = on_io_thread(&[], patience, move || {
        Candidacy::announced(candidate, patience)
    })?;
    session::prepare();
    shutdown::register();
    Ok(Some(Announced {
        candidacy: Some(candidacy),
        owner: std::process::id(),
    }))
}

/// Runs `body` on the thread of the profiler that [`announce`] has started. The second step waits
/// for nothing there.
///
/// # Errors
/// If the thread has ended.
pub fn begin_after_announcement(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    io_thread::begin(body)
}

impl Announced {
    /// The second step: asks for memory and begins to record. Any thread of the same process may
    /// call it; a forked child must not. Waits for the session's answer for at most `patience`, and
    /// for the thread of the profiler as [`init`](crate::init) does.
    pub fn join(mut self, patience: Duration) -> Status {
        let Some(candidacy) = self.candidacy.take() else {
            return Status::NoParent; // never: only a drop takes it, too
        };
        match on_io_thread(&[], patience, move || candidacy.record(patience)) {
            Ok(()) => Status::Recording,
            Err(error) => Status::Off(error),
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let Some(candidacy) = self.candidacy.take() else {
            return;
        };
        if self.owner == std::process::id() {
            io_thread::run_where_possible(WAIT_OF_DROP, move || drop(candidacy));
            io_thread::end();
        } else {
            std::mem::forget(candidacy); // the connection is the parent's
        }
    }
}

impl Candidacy {
    /// Announces the candidate.
    fn announced(candidate: Candidate, patience: Duration) -> Result<Self, InitError> {
        let connection = match candidate.announce(patience) {
            Ok(connection) => Some(connection),
            Err(error @ (JoinError::NoSession(_) | JoinError::OtherUser(_))) => {
                return Err(error.into());
            }
            Err(_) => None,
        };
        Ok(Self {
            candidate,
            connection,
        })
    }

    /// Asks for memory and begins to record.
    fn record(self, patience: Duration) -> Result<(), InitError> {
        let joined = match self.connection {
            Some(connection) => self.candidate.ask_over(connection, patience),
            None => self.candidate.ask(patience),
        };
        record_joined(joined?)
    }
}
