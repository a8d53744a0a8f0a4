//! The start of the profiler in a child: environment, pool, connection.
//!
//! Called by the host through [`init`](crate::init). The host's thread reads the environment, and waits while
//! the I/O thread ([`crate::io_thread`]) takes the pool and starts recording. The control thread
//! connects, sends `Hello` and serves the parent. A pool is handed over by a parent that has
//! started this process, or obtained from the session whose address the process has inherited
//! ([`crate::join`]); from then on the two are the same. A forked child of a process that has begun
//! can begin anew (`fork`).
//! Invariant: an error at any step leaves the profiler off, or on without a parent, and reaches the
//! host only through the return value.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ipc_protocol::environment::{
    AddressError, ChildEnvironment, EnvironmentError, InheritedHandle, SessionAddress, Token,
};
use ipc_protocol::limits;
use ipc_protocol::message::{Hello, PROTOCOL_VERSION};
use ipc_protocol::transport::joining::JoinError;
use ipc_protocol::transport::listener::Endpoint;
use ipc_protocol::transport::{ChildEnds, TransportError, inherited};
use profiler_core::ids::ProcessKey;
use profiler_core::internal::pool::AttachError;
use profiler_core::internal::reader::read_header;
use profiler_core::session::{self, AfterForkError, StartError, StartOptions};
use profiler_sys::{DescriptorTable, OwnFile, occupy_low_numbers, spawn_quiet};

use crate::control::Control;
use crate::gather::Files;
use crate::join::Candidate;
use crate::{io_thread, own_threads, shutdown};

/// Whether the parent has ended the channel.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// The outcome of [`init`](crate::init).
#[derive(Debug)]
#[non_exhaustive]
pub enum Status {
    /// This process records for its parent, or for the session that it has joined.
    Recording,
    /// The session has not answered in time. A thread of the profiler goes on waiting for up to a
    /// minute, and this process records from when the answer comes
    /// ([`session::is_active`]). [`shutdown`](crate::shutdown) ends the wait. If the session refuses
    /// the process, the profile lists it with the reason.
    Joining,
    /// This process records for a session of its own, which `MULTIPROCESS_PROFILER` has asked for.
    /// Only in programs that are built with `profiler-startup`.
    Started,
    /// The environment names neither a parent nor a session.
    NoParent,
    /// [`init`](crate::init) was called before in this process, or [`after_fork`](crate::after_fork).
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
    /// This process records for a session of its own, which it started before.
    #[error("this process records for a session of its own")]
    OwnSession,
    /// `MULTIPROCESS_PROFILER` asks for a session of this process's own, which could not start.
    /// Only in programs that are built with `profiler-startup`.
    #[error("MULTIPROCESS_PROFILER asks for a session, which cannot start: {0}")]
    Startup(#[source] Box<dyn std::error::Error + Send + Sync>),
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
    /// The system refused a thread for the profiler, or did not let it run in time.
    #[error("no thread of the profiler runs: {0}")]
    Thread(#[from] io::Error),
}

impl InitError {
    /// Whether the parent's resources were handed to another process, which a wrapper such as a
    /// shell has started before this one, or were lost on the way. This process may join by itself.
    pub(crate) fn is_of_another_process(&self) -> bool {
        match self {
            Self::Environment(EnvironmentError::NotHanded(error)) => {
                error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::EBADF)
            }
            Self::Start(StartError::Attach(AttachError::Taken(_))) => true,
            _ => false,
        }
    }
}

/// The process that has begun: it has called [`init`](crate::init) or `after_fork`; 0 before. In a forked child,
/// the process from which it was forked.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// Whether the session that this process has recorded for is over. False if it is not known,
/// because the program has closed the channel. Reads an atomic only.
pub fn session_is_over() -> bool {
    IS_OVER.load(Ordering::Acquire)
}

/// Notes that this process begins. Returns the outcome if it must not: it has begun before, or it
/// is a forked child that must begin anew.
pub(crate) fn status_if_begun() -> Option<Status> {
    if session::is_forked() {
        return Some(Status::Off(StartError::Forked.into()));
    }
    (!begin()).then_some(Status::AlreadyDone)
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

/// Records for the parent that has handed its resources to this process.
pub(crate) fn record_for(parent: ChildEnvironment) -> Result<(), InitError> {
    // Before a thread is started: most processes that inherit the variable by accident end here.
    parent.check()?;
    let is_left_open = Arc::new(AtomicBool::new(false));
    let handed = (parent.clone(), Arc::clone(&is_left_open));
    session::expect_switches_by_profiler();
    let recorded = io_thread::run(&parent.descriptors(), Duration::ZERO, move || {
        let (parent, is_left_open) = handed;
        record_handed(parent, &is_left_open)
    });
    let recorded = end_if_failed(recorded.map_err(InitError::from).flatten());
    if is_left_open.load(Ordering::Acquire) {
        parent.release();
    }
    recorded
}

/// On the I/O thread: takes what the parent has handed over, and records. Sets `is_left_open` when
/// it has released the inherited descriptors, if those in the program's table are still open.
fn record_handed(parent: ChildEnvironment, is_left_open: &AtomicBool) -> Result<(), InitError> {
    let pool = parent.pool.open()?;
    let part_file = parent
        .part_file
        .as_ref()
        .map(InheritedHandle::open)
        .transpose()?;
    let line = Line::from(Endpoint::open(&parent.server)?);
    let token = parent.token.clone();
    // The profiler has its own descriptors now. The inherited ones are released, so processes that
    // the host starts do not inherit them. If the pool belongs to another process, they are of no
    // use here, either.
    let release = || {
        parent.release();
        occupy_low_numbers();
        let has_own_table = DescriptorTable::current() == DescriptorTable::Profiler;
        is_left_open.store(has_own_table, Ordering::Release);
    };
    record(
        pool.into(),
        part_file.map(OwnFile::from),
        line,
        token,
        release,
    )
}

/// Asks the session at this address for memory, and records for it. Waits for at most `patience`;
/// if the session has not answered then, the I/O thread goes on waiting, and records later.
pub(crate) fn record_for_session(
    address: SessionAddress,
    patience: Duration,
) -> Result<Status, InitError> {
    session::expect_switches_by_profiler();
    let candidate = Candidate::of(address, program_name());
    let join = move || {
        let joined = candidate.ask(patience)?;
        // The program may have started a session of its own meanwhile.
        if session::is_active() {
            return Err(InitError::OwnSession);
        }
        let line = Line::Socket(joined.channel);
        record(joined.pool, None, line, joined.token, || {})
    };
    let late = |joined: Result<(), InitError>| {
        if joined.is_err() {
            io_thread::end();
        }
    };
    match io_thread::run_for(&[], patience, join, late) {
        Ok(None) => Ok(Status::Joining),
        Ok(Some(joined)) => end_if_failed(joined).map(|()| Status::Recording),
        Err(error) => end_if_failed(Err(error.into())),
    }
}

/// Ends the I/O thread if a step of the beginning has failed on it.
fn end_if_failed<T>(done: Result<T, InitError>) -> Result<T, InitError> {
    match &done {
        Ok(_) => {}
        Err(InitError::Thread(error)) if error.kind() == io::ErrorKind::TimedOut => {
            // The thread does not run, and must not begin to record later.
            shutdown::has_left().store(true, Ordering::SeqCst);
            io_thread::end();
        }
        Err(_) => io_thread::end_and_wait(),
    }
    done
}

/// Takes the pool, begins to record and starts the control thread. Calls `release` when it is known
/// to which process the pool belongs.
fn record(
    pool: OwnFile,
    part_file: Option<OwnFile>,
    line: Line,
    token: Token,
    release: impl FnOnce(),
) -> Result<(), InitError> {
    if shutdown::has_ended() {
        return Err(StartError::Closed.into());
    }
    let file = pool.get().map_err(io::Error::from);
    read_header(file.map_err(StartError::from)?)
        .map_err(|error| InitError::NotAPool(error.to_string()))?;
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
        part_file,
    };
    let name = program_name();
    shutdown::register();
    let control = spawn_quiet("profiler-control", move || {
        // If the parent is already gone, recording into the pool continues.
        let served = serve(line, hello(token, key, name), files);
        let is_lost = matches!(served, Err(TransportError::DescriptorLost(_)));
        IS_OVER.store(!is_lost, Ordering::Release);
    })?;
    own_threads::set_control(control);
    // Another thread may have ended the profiler meanwhile, before there was anything to end.
    if shutdown::has_ended() {
        shutdown::shutdown();
    }
    Ok(())
}

/// The file name of this program; empty if the system does not tell it.
pub(crate) fn program_name() -> String {
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

/// The way to the parent.
enum Line {
    /// A name to connect to.
    Named(Endpoint),
    /// A connected socket, which the program may close at any time.
    Socket(OwnFile),
}

impl From<Endpoint> for Line {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Inherited(socket) => Self::Socket(socket.into()),
            named @ Endpoint::Named(_) => Self::Named(named),
        }
    }
}

impl Line {
    fn connect(self, hello: Hello) -> Result<ChildEnds, TransportError> {
        match self {
            Self::Named(endpoint) => endpoint.connect(hello),
            Self::Socket(socket) => inherited::connect(socket, hello),
        }
    }
}

fn serve(line: Line, hello: Hello, files: Files) -> Result<(), TransportError> {
    let ends = line.connect(hello)?;
    Control::new(ends.sender, files).run(ends.receiver)
}
