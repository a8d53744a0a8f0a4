//! The start of the profiler in a child: environment, pool, connection.
//!
//! Called by the host through [`init`]. The host's thread reads the environment, takes the pool and
//! starts recording. The control thread connects, sends `Hello` and serves the parent. Invariant:
//! an error at any step leaves the profiler off, or on without a parent, and reaches the host only
//! through the return value.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use ipc_protocol::environment::{self, ChildEnvironment, EnvironmentError, InheritedHandle};
use ipc_protocol::limits;
use ipc_protocol::message::{Hello, PROTOCOL_VERSION};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::listener::Endpoint;
use profiler_core::ids::ProcessKey;
use profiler_core::internal::reader::read_header;
use profiler_core::internal::sys::{OwnFile, spawn_quiet};
use profiler_core::session::{self, StartError, StartOptions};

use crate::control::Control;
use crate::gather::Files;
use crate::shutdown;

/// The outcome of [`init`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Status {
    /// This process records for its parent.
    Recording,
    /// The environment names no parent.
    NoParent,
    /// [`init`] was called before.
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
    /// The pool cannot be taken, or recording cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// This build does not support the pool's header.
    #[error("what the parent handed over is not a pool: {0}")]
    NotAPool(String),
    /// The system refused a thread for the profiler.
    #[error("cannot start the control thread: {0}")]
    Thread(#[from] io::Error),
}

static DONE: AtomicBool = AtomicBool::new(false);

/// Begins to record for the parent that the environment names, if it names one.
///
/// Takes well under a millisecond of the host's thread (`figures -- gather` prints
/// `child.init_ms`); a thread of the profiler makes the connection. Never panics or prints: the
/// returned [`Status`] reports errors.
pub fn init() -> Status {
    if DONE.swap(true, Ordering::AcqRel) {
        return Status::AlreadyDone;
    }
    match environment::take() {
        Ok(None) => Status::NoParent,
        Ok(Some(parent)) => record_for(parent).map_or_else(Status::Off, |()| Status::Recording),
        Err(error) => Status::Off(error.into()),
    }
}

fn record_for(parent: ChildEnvironment) -> Result<(), InitError> {
    let pool = parent.pool.open()?;
    let part_file = parent
        .part_file
        .as_ref()
        .map(InheritedHandle::open)
        .transpose()?;
    let line = Endpoint::open(&parent.server)?;
    read_header(&pool).map_err(|error| InitError::NotAPool(error.to_string()))?;
    let (key, params) = session::attach(pool)?;
    let ChildEnvironment {
        pool,
        part_file: part_file_number,
        token,
        server,
    } = parent;
    // This process has its own descriptors now. The inherited ones are released, so processes that
    // the host starts do not inherit them.
    let _ = (
        pool.release(),
        part_file_number.map(InheritedHandle::release),
        server.release(),
    );
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

fn hello(token: environment::Token, key: ProcessKey, mut name: String) -> Hello {
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
