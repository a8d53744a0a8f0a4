//! Where stacks cannot be walked: nothing is captured, and the rest of the profiler need not know why.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::control::Shared;
use super::{Captured, PlacedFrame};
use crate::manager::ChunkManager;
use crate::params::SessionParams;
use crate::thread::ThreadFilter;

/// Nothing is sampled here.
pub(super) fn run(
    _shared: Arc<Shared>,
    _manager: Arc<ChunkManager>,
    _params: &SessionParams,
    _filter: ThreadFilter,
) -> Option<JoinHandle<()>> {
    None
}

/// Stacks are not walked here.
pub(crate) const fn capture(_frames: &mut [PlacedFrame]) -> Option<Captured> {
    None
}
