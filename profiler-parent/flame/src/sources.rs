//! What the flame graph needs of a session.
//!
//! `profiler-parent` implements [`FlameSources`] for its sessions, so this crate knows neither its
//! table of processes nor its groups.

use std::fmt::Debug;
use std::sync::Arc;

use profiler_core::groups::GroupKind;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::reader::groups::Peak;
use profiler_core::time::{SessionClock, Timestamp};
use profiler_sys::OwnFile;

/// A process of the session, as the flame graph sees it.
#[derive(Clone, Copy, Debug)]
pub struct ProcessToSample<'a> {
    /// The identity of the process.
    pub key: PoolId,
    /// Its place in the order in which processes were added.
    pub order: u64,
    /// System number.
    pub pid: ProcessId,
    /// Shown name.
    pub name: &'a str,
    /// Whether its recording has ended.
    pub is_over: bool,
    /// When it died; `None` if it lives, or if that is not known.
    pub died: Option<Timestamp>,
    /// Its pool, which may contain any bytes; `None` if the session has no pool of it, or not any
    /// more.
    pub pool: Option<&'a Arc<OwnFile>>,
}

/// The data that the flame graph of a session is made from.
pub trait FlameSources: Debug + Send + Sync {
    /// The clock that all processes of the session use.
    fn clock(&self) -> SessionClock;

    /// Calls `each` once for each process of the session. The reader's thread calls this about once
    /// a second, and without a pause while old samples are read: a new process is then followed,
    /// and an ended one, or one that is not among them any more, is read to its end.
    fn for_each_process(&self, each: &mut dyn FnMut(ProcessToSample<'_>));

    /// The longest run of each recorded half second of a group, in each process that has the group;
    /// empty if there is no such group. Called on a worker of the server for each request that
    /// selects a group whose samples are found by its runs.
    fn longest_runs(&self, kind: GroupKind, name: &str) -> Vec<(PoolId, Peak)>;
}
