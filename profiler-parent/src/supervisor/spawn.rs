//! Starts a child of the session, and adds it to the listener.
//!
//! Called by the session. The child joins the controller before it exists, so its pool is inside
//! the limit from its first byte. `listen` receives its messages. When the child ends, the exit
//! watcher's event makes the supervisor hang up its channel.

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use ipc_protocol::environment::{
    EnvironmentError, SESSION_VARIABLE, STARTUP_VARIABLE, SessionAddress, Token, VARIABLE,
};
use ipc_protocol::transport::TransportError;
use ipc_protocol::transport::listener::{Endpoint, Listener};
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::sys;
use profiler_sys::OwnFile;

use super::listen::PendingChild;
use super::outer::Recorded;
use super::profiled_child::ProfiledChild;
use super::starter::{Started, Starter};
use super::{SupervisorContext, SupervisorEvent, SupervisorHandle};
use crate::controller::{Event, Refusal};
use crate::part_file::{PartFile, PartFileError};
use crate::process_table::{ProcessState, Remains, TrackedProcess};
use crate::spawn::{ChildFile, ChildResources, ChildStartError, prepare};

/// Pause between two tries to join while memory is being freed: doubled each time, up to the
/// longest. All tries together take about two seconds, which suffices on a loaded machine.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const JOIN_TRIES: u32 = 44;

/// The reason why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// A file could not be passed to the child.
    #[error("cannot pass the {what} to the child: {source}")]
    HandOver {
        /// Which file.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// The program.
        program: OsString,
        /// The system's error.
        source: io::Error,
    },
    /// The file for the child's part of a profile cannot be created.
    #[error(transparent)]
    PartFile(#[from] PartFileError),
    /// The channel could not be prepared.
    #[error("cannot prepare the channel to the child: {0}")]
    Channel(#[from] TransportError),
    /// The system refused random bytes.
    #[error(transparent)]
    Token(#[from] EnvironmentError),
    /// The system refused memory, a thread or a descriptor.
    #[error("cannot start a child: {0}")]
    System(#[from] io::Error),
}

impl SpawnError {
    /// Whether the system has no channel of the requested kind at all.
    const fn is_of_platform(&self) -> bool {
        matches!(self, Self::Channel(TransportError::Unavailable))
    }
}

impl From<ChildStartError> for SpawnError {
    fn from(error: ChildStartError) -> Self {
        match error {
            ChildStartError::HandOver { what, source } => Self::HandOver { what, source },
            ChildStartError::Start { program, source } => Self::Start { program, source },
        }
    }
}

/// The host's trust in a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It communicates over ipc-channel.
    Trusted,
    /// It communicates over a socket that is safe against a hostile peer.
    Untrusted,
}

/// Lets the processes that the child starts join this session. Without an address, they join no
/// session: that of the environment records this process. They do not start sessions of their own.
fn pass_address(command: &mut Command, address: Option<&SessionAddress>) {
    command.env_remove(STARTUP_VARIABLE);
    match address {
        Some(address) => command.env(SESSION_VARIABLE, address.to_value()),
        None => command.env_remove(SESSION_VARIABLE),
    };
}

/// Starts a child, profiled if the limit allows and the profiler gets what it needs from the system.
/// The processes that it starts can join the session at `address`.
pub(super) fn spawn_child(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    name: &str,
    mut starter: Starter<'_>,
    trust: Trust,
    address: Option<&SessionAddress>,
) -> Result<ProfiledChild, SpawnError> {
    pass_address(starter.command(), address);
    let key = pool::new_id()?;
    let place = ReservedPool {
        context,
        supervisor,
        key,
    };
    let resources = join(supervisor, key)
        .map_err(|refusal| refusal.to_string())
        .and_then(|allowance| {
            make_pool(context, key, allowance, name)
                .map_err(|error| format!("its pool cannot be made: {error}"))
        })
        .map(|pool| Resources::make(pool, trust, starter.command()));
    let spawned = match resources {
        Ok(Ok(resources)) => spawn_profiled(context, supervisor, key, resources, name, starter),
        Ok(Err(error)) if error.is_of_platform() => Err(error),
        // What the profiler lacks does not keep the host from its work.
        Ok(Err(error)) => {
            drop(place);
            return spawn_unprofiled(context, supervisor, key, name, starter, error.to_string());
        }
        Err(why) => {
            drop(place);
            return spawn_unprofiled(context, supervisor, key, name, starter, why);
        }
    };
    if spawned.is_ok() {
        place.keep();
    }
    spawned
}

/// The pool that is reserved for a child. It is given back when this is dropped, also by a
/// panic of the library that starts the child.
struct ReservedPool<'a> {
    context: &'a SupervisorContext,
    supervisor: &'a SupervisorHandle,
    key: PoolId,
}

impl ReservedPool<'_> {
    /// The child has taken the pool.
    const fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for ReservedPool<'_> {
    fn drop(&mut self) {
        let Self {
            context,
            supervisor,
            key,
        } = *self;
        context.forget_pool(key);
        supervisor.send(SupervisorEvent::Accounting(Event::Forgotten { key }));
    }
}

/// What a child gets from the parent besides its program.
struct Resources {
    pool: Arc<OwnFile>,
    part_file: Option<Arc<PartFile>>,
    token: Token,
    listener: Listener,
    /// The child's end of the channel, where the child inherits it.
    line: Endpoint,
    trust: Trust,
}

impl Resources {
    /// Makes the resources, and lets `command` pass them on. On failure, the command passes none.
    fn make(pool: Arc<OwnFile>, trust: Trust, command: &mut Command) -> Result<Self, SpawnError> {
        // An untrusted child could fill the disk through a part file: its part is always read from
        // its pool.
        let part_file = match trust {
            Trust::Trusted => Some(Arc::new(PartFile::create()?)),
            Trust::Untrusted => None,
        };
        let token = Token::generate()?;
        let (listener, line) = match trust {
            Trust::Trusted => Listener::named()?,
            Trust::Untrusted => Listener::inherited()?,
        };
        let resources = ChildResources {
            pool: ChildFile::Open(pool.get().map_err(io::Error::from)?),
            part_file: part_file.as_ref().map(|part_file| part_file.child_file()),
            token: token.clone(),
            server: &line,
        };
        prepare(command, &resources)?;
        Ok(Self {
            pool,
            part_file,
            token,
            listener,
            line,
            trust,
        })
    }
}

pub(super) fn make_pool(
    context: &SupervisorContext,
    key: PoolId,
    allowance: ByteLimit,
    name: &str,
) -> io::Result<Arc<OwnFile>> {
    let spec = PoolSpec {
        id: key,
        limit: context.limit.most(),
        allowance,
        clock: context.time.clock(),
        params: context.params.clone(),
        name: name.to_owned(),
    };
    context.make_pool(&spec).map(|file| Arc::new(file.into()))
}

/// Asks for an allowance; retries while memory is being freed for it.
fn join(supervisor: &SupervisorHandle, key: PoolId) -> Result<ByteLimit, Refusal> {
    let mut last = Refusal::NotYet { missing: 0 };
    let mut pause = FIRST_PAUSE;
    for _ in 0..JOIN_TRIES {
        match ask_to_join(supervisor, key) {
            Err(refusal @ Refusal::NotYet { .. }) => last = refusal,
            answer => return answer,
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Err(last)
}

/// Asks for an allowance once.
pub(super) fn ask_to_join(
    supervisor: &SupervisorHandle,
    key: PoolId,
) -> Result<ByteLimit, Refusal> {
    let (reply, answer) = bounded(1);
    supervisor.send(SupervisorEvent::Join { key, reply });
    answer.recv().unwrap_or(Err(Refusal::Over))
}

fn spawn_profiled(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    key: PoolId,
    resources: Resources,
    name: &str,
    starter: Starter<'_>,
) -> Result<ProfiledChild, SpawnError> {
    let Resources {
        pool,
        part_file,
        token,
        listener,
        line,
        trust,
    } = resources;
    let abandon = listener.cancel_handle();
    let is_host = starter.is_host();
    let mut child = starter.start()?;
    drop(line); // only the child holds its end now, so the channel ends with it
    let pid = child.pid();
    let remains = Remains::Pool(Arc::clone(&pool));
    let process = TrackedProcess::new(name, pid, ProcessState::Starting, remains)
        .with_parent(sys::process_id())
        .with_part_file(part_file)
        .with_pool_in_file(context.pools.is_some())
        .with_channel(abandon)
        .with_trust(trust == Trust::Trusted)
        .with_status_of_host(is_host);
    context.processes.add(key, process);
    // Before the child can be reaped, so that the outer session finds it.
    context.tell_outer(Recorded::here(name, pid, Some(sys::process_id())));
    if let Err(error) = supervisor.receivers().add_child(PendingChild {
        key,
        pid,
        listener,
        token,
    }) {
        end_unwatched(context, key, &mut child);
        return Err(error.into());
    }
    Ok(adopt(context, supervisor, key, child, true)?)
}

/// Starts a child whose program is observed, or joins by itself: it gets no descriptor. Profiled if
/// the limit allows.
#[cfg(observing)]
pub(super) fn spawn_observed(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    name: &str,
    mut command: Command,
    address: Option<&SessionAddress>,
) -> Result<ProfiledChild, SpawnError> {
    let key = pool::new_id()?;
    let allowance = match join(supervisor, key) {
        Ok(allowance) => allowance,
        Err(refusal) => {
            supervisor.send(SupervisorEvent::Accounting(Event::Forgotten { key }));
            let why = refusal.to_string();
            let starter = Starter::Session(command);
            return spawn_unprofiled(context, supervisor, key, name, starter, why);
        }
    };
    let forget = |error: SpawnError| {
        context.forget_pool(key);
        supervisor.send(SupervisorEvent::Accounting(Event::Forgotten { key }));
        error
    };
    let pool = match make_pool(context, key, allowance, name) {
        Ok(pool) => pool,
        Err(error) => {
            let why = format!("its pool cannot be made: {error}");
            let _ = forget(error.into());
            let starter = Starter::Session(command);
            return spawn_unprofiled(context, supervisor, key, name, starter, why);
        }
    };
    command.env_remove(VARIABLE);
    pass_address(&mut command, address);
    let program = command.get_program().to_owned();
    // The program may make its file, or join, before the call returns.
    let spawning = context.processes.begin_spawn();
    let started = command.spawn();
    let child = started.map_err(|source| forget(SpawnError::Start { program, source }))?;
    let child = Started::Child(child);
    let pid = child.pid();
    let process = TrackedProcess::new(name, pid, ProcessState::Starting, Remains::Pool(pool))
        .with_parent(sys::process_id())
        .with_pool_in_file(context.pools.is_some())
        .without_resources();
    context.processes.add(key, process);
    drop(spawning);
    context.tell_outer(Recorded::here(name, pid, Some(sys::process_id())));
    adopt(context, supervisor, key, child, true).map_err(|error| forget(error.into()))
}

fn spawn_unprofiled(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    key: PoolId,
    name: &str,
    mut starter: Starter<'_>,
    why: String,
) -> Result<ProfiledChild, SpawnError> {
    let command = starter.command();
    command.env_remove(VARIABLE);
    pass_address(command, None);
    let is_host = starter.is_host();
    let child = starter.start()?;
    let remains = Remains::Unprofiled(why);
    let pid = child.pid();
    let process = TrackedProcess::new(name, pid, ProcessState::Starting, remains)
        .with_parent(sys::process_id())
        .with_status_of_host(is_host);
    context.processes.add(key, process);
    Ok(adopt(context, supervisor, key, child, false)?)
}

/// Ends a child that cannot be part of the session. The caller gets an error, so the child must not
/// run.
fn end_unwatched(context: &SupervisorContext, key: PoolId, child: &mut Started) {
    child.end();
    context.processes.hang_up_one(key); // ends its channel
    context.processes.remove(key);
    context.groups.forget_reader(key);
}

/// Makes the session watch the child, and take its exit status if that is not the host's.
fn adopt(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    key: PoolId,
    mut child: Started,
    is_profiled: bool,
) -> io::Result<ProfiledChild> {
    let pipes = child.take_pipes();
    let pid = child.pid();
    if let Err((mut refused, error)) = child.watch(supervisor.watcher(), key) {
        end_unwatched(context, key, &mut refused);
        return Err(error);
    }
    let alive = Arc::new(());
    context.processes.attach_handle(key, Arc::downgrade(&alive));
    let mut child = ProfiledChild::new(supervisor, key, pid, is_profiled, alive);
    (child.stdin, child.stdout, child.stderr) = pipes;
    Ok(child)
}
