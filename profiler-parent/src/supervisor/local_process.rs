//! This process as one of the session's processes: it records under the same rules as its children.
//!
//! Joined once, when the session starts. A process that records for another session is only listed,
//! with an empty pool, so that the session has a root. Invariant: the chunk listener never waits
//! for the supervisor, because the supervisor may wait for the thread that calls the listener.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(naming_waits)]
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::ManagerUpdate;
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::sys;
use profiler_core::session::{self, Features, SessionParams, StartError, StartOptions};

use super::outer::Recorded;
use super::{SupervisorContext, SupervisorEvent, SupervisorHandle, Waker};
use crate::controller::Event;
use crate::pools::PoolDirectory;
use crate::process_table::{ProcessState, Remains, TrackedProcess};

/// Updates of this process's chunk manager, folded until the supervisor takes them.
static LOCAL_UPDATES: Mutex<ManagerUpdate> = Mutex::new(ManagerUpdate::None);

/// The reason why this process cannot record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalProcessError {
    /// The memory limit is too small for this process alone.
    #[error(
        "a memory limit of {limit} bytes is too small, this process alone needs {needed} bytes"
    )]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// The minimum that is needed.
        needed: u64,
    },
    /// Recording could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refused randomness or a file.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Takes the updates of this process's own chunk manager.
pub(super) fn take_updates() -> ManagerUpdate {
    LOCAL_UPDATES
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
}

/// Makes this process the first of the session. Its display name is `name`, and it records
/// `features`.
pub(super) fn join(
    context: &SupervisorContext,
    supervisor: &SupervisorHandle,
    name: &str,
    features: Features,
) -> Result<(), LocalProcessError> {
    let key = pool::new_id()?;
    let (reply, answer) = bounded(1);
    supervisor.send(SupervisorEvent::Join { key, reply });
    let needed = pool::floor_bytes();
    let too_small = LocalProcessError::LimitTooSmall {
        limit: context.params.limit.get(),
        needed,
    };
    let Ok(Ok(allowance)) = answer.recv() else {
        return Err(too_small);
    };
    let params = SessionParams {
        features,
        ..context.params.clone()
    };
    let started = start(context, params, key, allowance, name);
    if started.is_ok() {
        listen(supervisor.waker()); // before the supervisor asks for updates
        #[cfg(naming_waits)]
        ask_for_waits(supervisor.events());
        context.tell_outer(Recorded::this_process(name));
    }
    supervisor.send(match &started {
        Ok(()) => SupervisorEvent::LocalProcessStarted { key },
        Err(_) => SupervisorEvent::Accounting(Event::Forgotten { key }),
    });
    started
}

/// Lists this process, which records for another session, for this reason. Its pool stays empty: it
/// holds only a header, which is not charged to the limit.
pub(super) fn list(
    context: &SupervisorContext,
    name: &str,
    why: String,
) -> Result<(), LocalProcessError> {
    let key = pool::new_id()?;
    let limit = context.limit.most();
    let spec = PoolSpec {
        id: key,
        limit,
        allowance: limit,
        clock: context.time.clock(),
        params: context.params.clone(),
        name: name.to_owned(),
    };
    let file = match &context.pools {
        None => spec.create_pool()?,
        Some(pools) => {
            let file = pools.parent_file()?;
            spec.create_pool_in(&file)?;
            file
        }
    };
    let remains = Remains::Pool(Arc::new(file.into()));
    let process = TrackedProcess::new(name, sys::process_id(), ProcessState::Parent, remains)
        .with_pool_in_file(context.pools.is_some())
        .with_refusal(why);
    context.processes.add(key, process);
    Ok(())
}

fn start(
    context: &SupervisorContext,
    params: SessionParams,
    key: PoolId,
    allowance: ByteLimit,
    name: &str,
) -> Result<(), LocalProcessError> {
    let pools = context.pools.as_deref();
    let options = StartOptions {
        allowance: Some(allowance),
        clock: Some(context.time.clock()),
        name: name.to_owned(),
        id: Some(key),
        file: pools
            .map(PoolDirectory::parent_file)
            .transpose()?
            .map(Arc::new),
        pool_limit: Some(context.limit.most()),
    };
    session::start(params, options)?;
    let pool = session::pool_file().inspect_err(|_| session::stop())?;
    let remains = Remains::Pool(Arc::new(pool.into()));
    let process = TrackedProcess::new(name, sys::process_id(), ProcessState::Parent, remains)
        .with_pool_in_file(pools.is_some());
    context.processes.add(key, process);
    Ok(())
}

/// Folds the updates of this process's chunk manager from now on, and notifies the supervisor of
/// each.
fn listen(supervisor: Waker) {
    *LOCAL_UPDATES.lock().unwrap_or_else(PoisonError::into_inner) = ManagerUpdate::None;
    session::set_chunk_listener(Some(Box::new(move |update| {
        LOCAL_UPDATES
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fold(update);
        supervisor.wake();
    })));
}

/// Makes this process ask its own session for whom its threads wait.
#[cfg(naming_waits)]
fn ask_for_waits(events: Sender<SupervisorEvent>) {
    session::set_wait_listener(Some(Box::new(move |waits| {
        if events.try_send(SupervisorEvent::OwnWaits(waits)).is_err() {
            session::name_waits(Vec::new()); // it asks again later
        }
    })));
}
