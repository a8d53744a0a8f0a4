//! What a caller knows about the origin of a profile and the profile does not say.
//!
//! Used by the encoders for engines. [`FleetLabels::apply`] writes the labels into the description
//! of the profile, from which all of them take the service, its version and the host.

use profiler_reader::Meta;

/// The origin of a profile, for engines that store the profiles of many hosts. A member that is
/// `None` is taken from the profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FleetLabels {
    /// Name of the service; otherwise the name of the profile's parent process.
    pub service: Option<String>,
    /// Version of the service; otherwise empty.
    pub version: Option<String>,
    /// Name of the host; otherwise the one in the profile, or empty. A merged profile keeps the
    /// names of its hosts.
    pub host: Option<String>,
    /// Number of the batch within the session; otherwise the end of the profile's range, in
    /// nanoseconds since the session's start. Only rows of ClickHouse have it.
    pub batch: Option<u64>,
}

impl FleetLabels {
    /// Writes the labels into the description of a profile.
    pub(super) fn apply(&self, meta: &mut Meta) {
        if let Some(service) = &self.service {
            meta.product = Some(service.clone());
        }
        meta.service_version.clone_from(&self.version);
        if let Some(host) = &self.host {
            meta.set_host(host);
        }
    }
}
