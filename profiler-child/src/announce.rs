//! A start in two steps, for a program that may end at once: the session learns that the process
//! exists, and the process asks for memory later.
//!
//! Used by the agent, which is in every program of a tree, and most programs of a shell script end
//! within milliseconds. The first step costs a connection and one packet. It also does, on the
//! host's thread, everything that must not happen at the same time as a fork or a change of the
//! environment, so that the second step may run on another thread. Invariant: the second step reads
//! no environment, and registers no handler of an exit or a fork.

use std::ops::ControlFlow;
use std::time::Duration;

use ipc_protocol::transport::joining::{self, JoinError};
use profiler_core::session;

use crate::connect::{InitError, Status, candidate, record_if_handed, record_joined};
use crate::join::Candidate;
use crate::shutdown;

/// The outcome of [`announce`].
#[derive(Debug)]
pub enum Announcement {
    /// Whether this process records is decided, as after [`init`](crate::init).
    Decided(Status),
    /// The session knows this process.
    Made(Announced),
}

/// A process that its session knows, and that has not asked for memory.
#[derive(Debug)]
pub struct Announced {
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
    let connection = match candidate.announce(patience) {
        Ok(connection) => Some(connection),
        Err(error @ (JoinError::NoSession(_) | JoinError::OtherUser(_))) => {
            return Err(error.into());
        }
        Err(_) => None,
    };
    session::prepare();
    shutdown::register();
    Ok(Some(Announced {
        candidate,
        connection,
    }))
}

impl Announced {
    /// The second step: asks for memory and begins to record. Any thread of the same process may
    /// call it; a forked child must not. Waits for the session's answer for at most `patience`.
    pub fn join(self, patience: Duration) -> Status {
        match self.record(patience) {
            Ok(()) => Status::Recording,
            Err(error) => Status::Off(error),
        }
    }

    fn record(self, patience: Duration) -> Result<(), InitError> {
        let joined = match self.connection {
            Some(connection) => self.candidate.ask_over(connection, patience),
            None => self.candidate.ask(patience),
        };
        record_joined(joined?)
    }
}
