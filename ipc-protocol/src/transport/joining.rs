//! How a process joins a session by itself, or reports why another process does not: both sides of
//! the first exchange.
//!
//! The parent's session creates a [`SessionListener`] and publishes its [`SessionAddress`]. A
//! process that finds the address in its environment calls [`join`]. The session takes the
//! process's number and user from the kernel, and answers with the descriptor of a pool or with a
//! refusal. The socket is then the process's control channel, exactly like the socket of an
//! untrusted child ([`super::inherited`]), beginning with its `Hello`. Linux only; elsewhere
//! [`SessionListener::new`] and [`join`] return errors.
//!
//! ```text
//! process                                         session
//!   connect ──────────────────────────────────▶    accept; SO_PEERCRED, SO_PEERPIDFD
//!   SO_PEERCRED: the same user?
//!   JoinRequest { token, name, start, … } ─────▶    the same user, the token, room in the limit?
//!   ◀── JoinAnswer::Welcome { token }, pool ────    SCM_RIGHTS
//!   Hello { token, … } ────────────────────────▶    as from any child
//! ```
//!
//! The program runs while its process asks, and may close all descriptors. The asking side checks
//! before each call that a number is still that of its own file, never takes the numbers of the
//! standard streams. This matters where the profiler has no descriptor table of its own (before Linux 5.9).
//!
//! A hostile process of the same user can only lose its own connection: nothing here waits for it,
//! its packets are received as those of an untrusted child, and descriptors in them are never
//! received. Processes of other users are refused by both sides, and cannot enter the directory of
//! the socket.

mod listener;

use std::io;
use std::path::Path;
use std::time::Duration;

use profiler_core::ids::UserId;
use profiler_sys::OwnFile;

use super::TransportError;
use crate::codec;
use crate::environment::{SessionAddress, Token};
use crate::limits::MAX_JOIN_FRAME_BYTES;
use crate::message::{
    JoinAnswer, JoinRefusal, JoinRequest, Opening, PROTOCOL_VERSION, RecordedElsewhere,
};
use crate::sys::joining::{Asker, Deadline, own_user};

pub use listener::{Joiner, SessionListener, refusal_for};

/// The time between two questions whether a process still wants to join.
const LOOK: Duration = Duration::from_millis(50);

/// Why a process could not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No session listens at the address: it is over.
    #[error("no session listens at this address")]
    NoSession(#[source] io::Error),
    /// Another user's process listens at the address.
    #[error("the process at the session's address belongs to user {0}")]
    OtherUser(UserId),
    /// The session did not answer in time; it may be stopped or busy.
    #[error("the session did not answer within {} ms", .0.as_millis())]
    NoAnswer(Duration),
    /// The session refuses this process.
    #[error("the session refuses this process: {0}")]
    Refused(#[from] JoinRefusal),
    /// The session's answer cannot be used.
    #[error("the session's answer is of no use: {0}")]
    BadAnswer(&'static str),
    /// The connection failed.
    #[error(transparent)]
    Channel(#[from] TransportError),
}

/// A session's answer to a process that may record.
#[derive(Debug)]
pub struct Joined {
    /// The memory to record into.
    pub pool: OwnFile,
    /// The control channel, for [`super::inherited::connect`].
    pub channel: OwnFile,
    /// The token for the `Hello`.
    pub token: Token,
}

/// In a process that joins: asks the session at `address` for a pool. Waits at most `patience`,
/// and not at all if no session listens. Sends the token only to a process of the same user.
///
/// # Errors
/// [`JoinError`]; no descriptor is left open then.
pub fn join(
    address: &SessionAddress,
    request: &JoinRequest,
    patience: Duration,
) -> Result<Joined, JoinError> {
    join_while(address, request, patience, &|| true)
}

/// Like [`join`]. Asks `goes_on` every [`LOOK`] whether the caller still wants to join, and returns
/// [`JoinError::NoAnswer`] if it does not.
///
/// # Errors
/// As [`join`].
pub fn join_while(
    address: &SessionAddress,
    request: &JoinRequest,
    patience: Duration,
    goes_on: &dyn Fn() -> bool,
) -> Result<Joined, JoinError> {
    let wait = JoinWait {
        deadline: Deadline::after(patience),
        patience,
        goes_on,
    };
    let asker = wait.connect(address.path())?;
    let (pool, token) = wait
        .exchange(&asker, request)
        .inspect_err(|_| asker.hang_up())?;
    let channel = asker.into_channel().map_err(TransportError::from)?;
    Ok(Joined {
        pool,
        channel,
        token,
    })
}

fn send(asker: &Asker, request: &JoinRequest) -> Result<(), JoinError> {
    let opening = Opening::Join(request.clone());
    let frame = codec::encode(&opening).map_err(TransportError::from)?;
    Ok(asker.send(&frame).map_err(TransportError::from)?)
}

/// The wait of a process for a session: how long, and whether it goes on.
struct JoinWait<'a> {
    deadline: Deadline,
    patience: Duration,
    goes_on: &'a dyn Fn() -> bool,
}

impl JoinWait<'_> {
    /// The deadline of the next step. `None` if the wait is over.
    fn step(&self) -> Option<Deadline> {
        let left = self.deadline.left().filter(|_| (self.goes_on)())?;
        Some(Deadline::after(left.min(LOOK)))
    }

    const fn over(&self) -> JoinError {
        JoinError::NoAnswer(self.patience)
    }

    /// Connects. Waits only if too many processes wait to be accepted.
    fn connect(&self, path: &Path) -> Result<Asker, JoinError> {
        loop {
            let step = self.step().ok_or_else(|| self.over())?;
            match connect(path, &step, self.patience) {
                Err(JoinError::NoAnswer(_)) => {}
                connected => return connected,
            }
        }
    }

    /// Asks for a pool, and waits for the answer.
    fn exchange(
        &self,
        asker: &Asker,
        request: &JoinRequest,
    ) -> Result<(OwnFile, Token), JoinError> {
        send(asker, request)?;
        let mut room = [0; MAX_JOIN_FRAME_BYTES];
        let (length, pool) = self.receive(asker, &mut room)?;
        if length == 0 {
            return Err(TransportError::Disconnected.into());
        }
        let frame = room.get(..length).unwrap_or_default();
        let token = match codec::decode(frame).map_err(TransportError::from)? {
            JoinAnswer::Welcome { token } => token,
            JoinAnswer::Refused(why) => return Err(why.into()),
        };
        let pool = pool.ok_or(JoinError::BadAnswer("it contains no memory"))?;
        Ok((pool, token))
    }

    fn receive(
        &self,
        asker: &Asker,
        room: &mut [u8],
    ) -> Result<(usize, Option<OwnFile>), JoinError> {
        loop {
            let step = self.step().ok_or_else(|| self.over())?;
            let received = asker.receive(room, &step).map_err(TransportError::from)?;
            if let Some(received) = received {
                return Ok(received);
            }
        }
    }
}

/// In a process of another version than the session: tells the session so, so that it can list the
/// process as not profiled. Waits for at most `patience`, and for no answer.
///
/// # Errors
/// [`JoinError`], if the session does not learn it.
pub fn report_version(path: &Path, patience: Duration) -> Result<(), JoinError> {
    let asker = connect(path, &Deadline::after(patience), patience)?;
    let version = u16::try_from(PROTOCOL_VERSION).unwrap_or(u16::MAX);
    Ok(asker
        .send(&version.to_le_bytes())
        .map_err(TransportError::from)?)
}

/// In a process that has a session of its own: tells the session at `address` which process the own
/// session records. Waits for at most `patience`, and for no answer. Sends the token only to a
/// process of the same user.
///
/// # Errors
/// [`JoinError`], if the session does not learn it.
pub fn report_recorded(
    address: &SessionAddress,
    process: RecordedElsewhere,
    patience: Duration,
) -> Result<(), JoinError> {
    let asker = connect(address.path(), &Deadline::after(patience), patience)?;
    let opening = Opening::RecordedElsewhere(process);
    let frame = codec::encode(&opening).map_err(TransportError::from)?;
    Ok(asker.send(&frame).map_err(TransportError::from)?)
}

fn connect(path: &Path, deadline: &Deadline, patience: Duration) -> Result<Asker, JoinError> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, TimedOut};
    let asker = Asker::connect(path, deadline).map_err(|error| match error.kind() {
        NotFound | NotADirectory | ConnectionRefused => JoinError::NoSession(error),
        TimedOut => JoinError::NoAnswer(patience),
        _ => TransportError::Io(error).into(),
    })?;
    let user = asker.peer().map_err(TransportError::from)?.user;
    if user == own_user() {
        Ok(asker)
    } else {
        Err(JoinError::OtherUser(user))
    }
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests;
