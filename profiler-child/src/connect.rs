//! The start of the profiler in a child: environment, pool, connection.
//!
//! Called by the host through [`init`]. The host's thread reads the environment, takes the pool and
//! starts recording. The control thread connects, sends `Hello` and serves the parent. A pool is
//! handed over by a parent that has started this process, or obtained from the session whose
//! address the process has inherited ([`crate::join`]); from then on the two are the same. A forked
//! child of a process that has begun can begin anew (`fork`).
//! Invariant: an error at any step leaves the profiler off, or on without a parent, and reaches the
//! host only through the return value.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ipc_protocol::environment::{
    self, AddressError, ChildEnvironment, EnvironmentError, InheritedHandle, Token,
};
use ipc_protocol::limits;
use ipc_protocol::message::{Hello, PROTOCOL_VERSION};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::joining::JoinError;
use ipc_protocol::transport::listener::Endpoint;
use profiler_core::ids::ProcessKey;
use profiler_core::internal::pool::AttachError;
use profiler_core::internal::reader::read_header;
use profiler_core::internal::sys::{OwnFile, spawn_quiet};
use profiler_core::session::{self, AfterForkError, StartError, StartOptions};

use crate::control::Control;
use crate::gather::Files;
use crate::join::{AskError, ask};
use crate::shutdown;

/// How long [`init`] waits for a session that this process joins by itself.
pub const JOIN_WAIT: Duration = Duration::from_millis(20);

/// The outcome of [`init`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Status {
    /// This process records for its parent, or for the session that it has joined.
    Recording,
    /// The environment names neither a parent nor a session.
    NoParent,
    /// [`init`] was called before in this process, or [`after_fork`](crate::after_fork).
    AlreadyDone,
    /// The profiler is off, for this reason.
    Off(InitError),
}

/// Why the profiler stays off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The environment variable is damaged or of another version.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The environment variable with the address of a session is damaged or of another version.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The session did not let this process join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// This process records for a session of its own.
    #[error("this process records for a session of its own")]
    OwnSession,
    /// The pool cannot be taken, or recording cannot start. In a forked child of a process in which
    /// the profiler was started, call [`after_fork`](crate::after_fork).
    #[error(transparent)]
    Start(#[from] StartError),
    /// [`after_fork`](crate::after_fork) cannot be used in this process, or now.
    #[error(transparent)]
    AfterFork(#[from] AfterForkError),
    /// This build does not support the pool's header.
    #[error("what the parent handed over is not a pool: {0}")]
    NotAPool(String),
    /// The system refused a thread for the profiler.
    #[error("cannot start the control thread: {0}")]
    Thread(#[from] io::Error),
}

impl From<AskError> for InitError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Address(error) => Self::Address(error),
            AskError::Join(error) => Self::Join(error),
        }
    }
}

impl InitError {
    /// Whether the parent's resources were handed to another process, which a wrapper such as a
    /// shell has started before this one, or were lost on the way. This process may join by itself.
    fn is_of_another_process(&self) -> bool {
        match self {
            Self::Environment(EnvironmentError::NotHanded(error)) => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::EBADF)
            }
            Self::Start(StartError::Attach(AttachError::Taken(_))) => true,
            _ => false,
        }
    }
}

/// The process that has begun: it has called [`init`] or `after_fork`; 0 before. In a forked child,
/// the process from which it was forked.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Begins to record, if the environment names a parent or a session.
///
/// A process that a session has started with `spawn` was handed its memory. Any other process of
/// the tree joins by itself: it inherits the address of the session
/// (`MULTIPROCESS_PROFILER_SESSION`) from the process that started it, whoever that is, and asks
/// the session for memory. If the session is over, full, of another version or of another user, or
/// if it does not answer, the process runs on without a profiler, and the returned [`Status`] says
/// why.
///
/// A process whose memory was handed over spends well under a millisecond of the host's thread
/// here (`figures -- gather` prints `child.init_ms`). A process that joins waits for the session's
/// answer: usually for about a millisecond, at most for [`JOIN_WAIT`], and not at all if nobody
/// listens (`figures -- join` prints `join.ms` and `join.host_wait_ms.no_parent`). A thread of the
/// profiler does everything else. Never panics or prints.
pub fn init() -> Status {
    init_within(JOIN_WAIT)
}

/// Like [`init`], with another limit on the wait for a session that this process joins by itself.
pub fn init_within(patience: Duration) -> Status {
    if session::is_forked() {
        return Status::Off(StartError::Forked.into());
    }
    if !begin() {
        return Status::AlreadyDone;
    }
    let refused = match environment::take() {
        Ok(None) => None,
        Ok(Some(parent)) => match record_for(parent) {
            Ok(()) => return Status::Recording,
            Err(error) if error.is_of_another_process() => Some(error),
            Err(error) => return Status::Off(error),
        },
        Err(error) => return Status::Off(error.into()),
    };
    match join(patience) {
        Status::NoParent => refused.map_or(Status::NoParent, Status::Off),
        status => status,
    }
}

/// Notes that this process begins. False if it has begun before. A forked child may begin if the
/// process from which it was forked has begun without effect.
pub(crate) fn begin() -> bool {
    let before = BEGUN.load(Ordering::Acquire);
    let own = std::process::id();
    // In the child of a `vfork`, the profiler is set up, and is that of another process.
    let may_begin = before == 0 || (before != own && !session::is_set_up());
    may_begin
        && BEGUN
            .compare_exchange(before, own, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
}

/// Notes that this process, which is a forked child, begins anew.
pub(crate) fn begin_anew() {
    BEGUN.store(std::process::id(), Ordering::Release);
}

/// Whether a process from which this one was forked has begun, and this one has not.
pub(crate) fn parent_has_begun() -> bool {
    let begun = BEGUN.load(Ordering::Acquire);
    begun != 0 && begun != std::process::id()
}

/// Records for the session that the environment names.
pub(crate) fn join(patience: Duration) -> Status {
    match join_session(patience) {
        Ok(true) => Status::Recording,
        Ok(false) => Status::NoParent,
        Err(error) => Status::Off(error),
    }
}

/// Records for the parent that has handed its resources to this process.
fn record_for(parent: ChildEnvironment) -> Result<(), InitError> {
    let pool = parent.pool.open()?;
    let part_file = parent
        .part_file
        .as_ref()
        .map(InheritedHandle::open)
        .transpose()?;
    let line = Endpoint::open(&parent.server)?;
    let ChildEnvironment {
        pool: pool_number,
        part_file: part_file_number,
        token,
        server,
    } = parent;
    // This process has its own descriptors now. The inherited ones are released, so processes that
    // the host starts do not inherit them. If the pool belongs to another process, they are of no
    // use here, either.
    let release = || {
        let _ = (
            pool_number.release(),
            part_file_number.map(InheritedHandle::release),
            server.release(),
        );
    };
    record(pool, part_file, line, token, release)
}

/// Records for the session that the environment names. `false` if it names none.
fn join_session(patience: Duration) -> Result<bool, InitError> {
    if session::is_active() {
        // Its data would be lost.
        return match environment::session_address()? {
            Some(_) => Err(InitError::OwnSession),
            None => Ok(false),
        };
    }
    let Some(joined) = ask(program_name(), patience)? else {
        return Ok(false);
    };
    let line = Endpoint::Inherited(joined.channel);
    record(joined.pool, None, line, joined.token, || {})?;
    Ok(true)
}

/// Takes the pool, begins to record and starts the control thread. Calls `release` when it is known
/// to which process the pool belongs.
fn record(
    pool: File,
    part_file: Option<File>,
    line: Endpoint,
    token: Token,
    release: impl FnOnce(),
) -> Result<(), InitError> {
    read_header(&pool).map_err(|error| InitError::NotAPool(error.to_string()))?;
    let (key, params) = match session::attach(pool) {
        Err(error @ StartError::Attach(AttachError::Taken(_))) => {
            release();
            return Err(error.into());
        }
        attached => attached?,
    };
    release();
    if let Some(params) = params {
        session::start(params, StartOptions::default())?;
    }
    // Opened now, because a sandbox may later forbid the process to open files.
    let own_pool = part_file.as_ref().and_then(|_| session::pool_file().ok());
    let files = Files {
        pool: own_pool.map(OwnFile::from),
        part_file: part_file.map(OwnFile::from),
    };
    let name = program_name();
    shutdown::register();
    spawn_quiet("profiler-control", move || {
        // If the parent is already gone, recording into the pool continues.
        let _ = serve(line, hello(token, key, name), files);
    })?;
    Ok(())
}

/// The file name of this program; empty if the system does not tell it.
fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn hello(token: Token, key: ProcessKey, mut name: String) -> Hello {
    limits::clip(&mut name, limits::MAX_NAME_BYTES);
    Hello {
        version: PROTOCOL_VERSION,
        token,
        pid: key.pid,
        start: key.start,
        name,
    }
}

fn serve(line: Endpoint, hello: Hello, files: Files) -> Result<(), TransportError> {
    let ends = line.connect(hello)?;
    Control::new(ends.sender, files).run(ends.receiver)
}
