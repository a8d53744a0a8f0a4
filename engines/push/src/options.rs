//! Where a pusher sends its batches, how often, within which bounds, and whose data it is.
//!
//! Given by applications to [`Pusher::start`](crate::Pusher::start).

use std::path::PathBuf;
use std::time::Duration;

use profiler_core::ids::ByteLimit;
use serde::{Deserialize, Serialize};

use super::destination::PushDestination;

/// Where a pusher sends what a session records, how often, and within which bounds.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until they are given to Pusher::start"]
pub struct PushOptions {
    pub(super) destinations: Vec<PushDestination>,
    pub(super) period: Duration,
    pub(super) spool: Option<PathBuf>,
    pub(super) spool_limit: ByteLimit,
    pub(super) request_timeout: Duration,
    pub(super) identity: PushIdentity,
}

/// The service that the pushed data belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushIdentity {
    /// Its name; by default that of the parent process.
    pub(crate) service: Option<String>,
    /// Its version.
    pub(crate) version: Option<String>,
    /// The name of the host; by default that of this machine.
    pub(crate) host: Option<String>,
}

impl PushOptions {
    /// Pushes to this destination, every ten seconds. Batches that are not sent yet are kept in a
    /// temporary directory, up to 256 MiB.
    pub fn to(destination: PushDestination) -> Self {
        Self {
            destinations: vec![destination],
            period: Duration::from_secs(10),
            spool: None,
            spool_limit: ByteLimit::new(256 << 20),
            request_timeout: Duration::from_secs(30),
            identity: PushIdentity::default(),
        }
    }

    /// Pushes to this destination, too.
    pub fn and_to(mut self, destination: PushDestination) -> Self {
        self.destinations.push(destination);
        self
    }

    /// The time between two batches, from 100 ms.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period.max(Duration::from_millis(100));
        self
    }

    /// Keeps batches in this directory, where they outlive this process: the next pusher with this
    /// directory sends them, with the service, version and host of this one. Several pushers may
    /// have the same directory. It must belong to this user, and no other may write in it.
    pub fn spool(mut self, directory: impl Into<PathBuf>) -> Self {
        self.spool = Some(directory.into());
        self
    }

    /// The limit on the bytes of waiting batches. Beyond it, the oldest batch is removed and
    /// counted as lost.
    pub const fn spool_limit(mut self, limit: ByteLimit) -> Self {
        self.spool_limit = limit;
        self
    }

    /// The longest time for one request. Default: 30 s.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// The name of the service that the data belongs to. By default the name of this process.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.identity.service = Some(name.into());
        self
    }

    /// The name of the host, for a machine or a container whose own name says nothing.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.identity.host = Some(name.into());
        self
    }

    /// The version of the program, by which releases can be compared.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.identity.version = Some(version.into());
        self
    }
}
