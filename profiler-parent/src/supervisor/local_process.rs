//! This process as one of the session's: it records under the same rules as its children.

use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::bounded;
use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::manager::update::ManagerUpdate;
use profiler_core::pool;
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::sys;

use super::{HubEvent, HubHandle, Shared};
use crate::pools::PoolDirectory;
use crate::process_table::{Process, ProcessState, Remains};
use crate::session::SessionError;

/// Reports of the own chunk manager, folded until the hub looks.
static OWN_UPDATES: Mutex<ManagerUpdate> = Mutex::new(ManagerUpdate::None);

/// Takes what the own chunk manager has told.
pub(super) fn take_updates() -> ManagerUpdate {
    OWN_UPDATES.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Makes this process the first of the session.
pub(crate) fn join_own(shared: &Arc<Shared>, hub: &HubHandle, name: &str) -> Result<(), SessionError> {
    let key = pool::new_id()?;
    let (reply, answer) = bounded(1);
    hub.send(HubEvent::Join { key, reply });
    let needed = pool::FLOOR_PAGES.saturating_mul(sys::page_size());
    let too_small = SessionError::LimitTooSmall { limit: shared.params.limit.get(), needed };
    let Ok(Ok(allowance)) = answer.recv() else { return Err(too_small) };
    let started = start(shared, hub, key, allowance, name);
    hub.send(if started.is_ok() { HubEvent::OwnStarted { key } } else { HubEvent::Forget { key } });
    started
}

fn start(
    shared: &Arc<Shared>,
    hub: &HubHandle,
    key: PoolId,
    allowance: ByteLimit,
    name: &str,
) -> Result<(), SessionError> {
    let options = StartOptions {
        allowance: Some(allowance),
        clock: Some(shared.clock),
        name: name.to_owned(),
        id: Some(key),
        file: shared.pools.as_ref().map(PoolDirectory::parent_file).transpose()?.map(Arc::new),
        pool_limit: Some(shared.limit.most()),
    };
    let features = shared.own_features.unwrap_or(shared.params.features);
    session::start(SessionParams { features, ..shared.params.clone() }, options)?;
    let remains = Remains::Pool(Arc::new(session::pool_file()?.into()));
    let mut process = Process::new(name, sys::process_id(), ProcessState::Parent, remains);
    process.in_file = shared.pools.is_some();
    shared.processes.add(key, process);
    *OWN_UPDATES.lock().unwrap_or_else(PoisonError::into_inner) = ManagerUpdate::None;
    let hub = hub.clone();
    session::set_chunk_listener(Some(Box::new(move |update| {
        OWN_UPDATES.lock().unwrap_or_else(PoisonError::into_inner).fold(update);
        // The hub may be waiting for this very thread; it looks again after every event.
        hub.try_send(HubEvent::OwnUpdate);
    })));
    Ok(())
}
