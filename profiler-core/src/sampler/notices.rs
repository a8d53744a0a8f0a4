//! Notices about stacks and threads that the sampler cannot see, each recorded once per session.
//!
//! A notice is a definition, so it outlives all entries and its process; readers show it together
//! with the process's verdict. The sampler's thread writes it.

use std::sync::Arc;

use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;

/// The subject of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Where threads wait is unknown.
    Waits,
    /// Which threads run is unknown.
    States,
    /// The list of threads is unknown.
    Threads,
    /// The files with mapped code are unknown.
    Files,
    /// There is no room for more files.
    ManyFiles,
    /// A thread has an alternate signal stack that is too small for a signal.
    SmallStack,
    /// The system gives no timers.
    Timers,
}

/// Records each notice once.
#[derive(Debug)]
pub(super) struct Notices {
    manager: Arc<ChunkManager>,
    /// One bit for each notice that was recorded.
    recorded: u32,
}

impl Notices {
    pub(super) const fn new(manager: Arc<ChunkManager>) -> Self {
        Self {
            manager,
            recorded: 0,
        }
    }

    /// Records the notice, unless it was recorded before; `why` gives its text.
    pub(super) fn record(&mut self, notice: Notice, why: impl FnOnce() -> String) {
        let bit = 1 << notice as u32;
        if self.recorded & bit == 0 {
            self.recorded |= bit;
            // If there is no room for it, the profile reports that definitions are missing.
            let _ = self
                .manager
                .pool()
                .define(&Definition::Notice { text: why() });
        }
    }
}
