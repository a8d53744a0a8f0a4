//! What the crates under `engines/` need of a session.
//!
//! Not for applications, and hidden in the documentation.

use std::any::Any;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use super::extensions::SessionExtensions;
use crate::capture::{Capture, CaptureSources};
use crate::push_sums::PushSums;

/// The sources of an engine, which may outlive the session.
#[derive(Clone, Debug)]
pub struct EngineSources {
    pub(super) captures: Arc<CaptureSources>,
    pub(super) extensions: Arc<SessionExtensions>,
    pub(super) session_end: Receiver<()>,
}

impl EngineSources {
    /// Prepares a capture.
    pub fn capture(&self) -> Capture {
        Capture::new(Arc::clone(&self.captures))
    }

    /// The list of the session's pushers, for captures and metrics.
    pub fn pushers(&self) -> &Arc<PushSums> {
        &self.captures.pushes
    }

    /// The value of this type that belongs to the session. The first call makes it.
    pub fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.extensions.get()
    }

    /// A receiver that is disconnected when the session ends.
    pub const fn session_end(&self) -> &Receiver<()> {
        &self.session_end
    }
}
