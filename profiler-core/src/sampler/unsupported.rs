//! The sampler of systems without stack walking: it samples and captures nothing.
//!
//! It has the functions of the real one, so the rest of the profiler does not distinguish the two.

use std::sync::Arc;
use std::time::Duration;

use super::control::{SamplerConfig, SamplerShared};
use super::{Captured, PlacedFrame};
use crate::params::SessionParams;

/// Starts nothing: there is no sampler on these systems.
pub(super) fn run(
    _shared: Arc<SamplerShared>,
    _config: SamplerConfig,
) -> Option<profiler_sys::QuietThread<()>> {
    None
}

/// Wakes nothing: there is no sampler on these systems.
pub(super) const fn wake() {}

/// Suspends nothing: there is no sampler on these systems.
pub(super) const fn suspend() {}

/// Forgets nothing: there is no sampler on these systems.
pub(crate) const fn forget_parent() {}

/// The interval of the parameters: no source changes it on these systems.
pub(crate) const fn effective_interval(params: &SessionParams) -> Duration {
    Duration::from_nanos(params.interval_ns)
}

/// Captures nothing: stacks are not walked on these systems.
pub(crate) const fn capture(_frames: &mut [PlacedFrame]) -> Option<Captured> {
    None
}
