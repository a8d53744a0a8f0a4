//! The sampler of systems without stack walking: it samples and captures nothing.
//!
//! It has the functions of the real one, so the rest of the profiler does not distinguish the two.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::control::{SamplerConfig, SamplerShared};
use super::{Captured, PlacedFrame};

/// Nothing is sampled here.
pub(super) fn run(_shared: Arc<SamplerShared>, _config: SamplerConfig) -> Option<JoinHandle<()>> {
    None
}

/// Stacks are not walked here.
pub(crate) const fn capture(_frames: &mut [PlacedFrame]) -> Option<Captured> {
    None
}
