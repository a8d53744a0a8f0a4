//! What the profile says of stacks and threads that the sampler cannot see, each once per session.
//!
//! A notice is a definition, so it outlives all entries and its process; readers show it beside the process's verdict. Written
//! by the sampler's thread.

use std::sync::Arc;

use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;

/// What cannot be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// Where threads wait.
    Waits,
    /// Which threads run.
    States,
    /// Which threads there are.
    Threads,
    /// Which files code is mapped from.
    Files,
    /// There is no room for more files.
    ManyFiles,
    /// A thread has an alternate signal stack that a signal overflows.
    SmallStack,
}

/// Tells each notice once.
#[derive(Debug)]
pub(super) struct Notices {
    manager: Arc<ChunkManager>,
    told: u32,
}

impl Notices {
    pub(super) const fn new(manager: Arc<ChunkManager>) -> Self {
        Self { manager, told: 0 }
    }

    /// Tells it, unless it was told before; `why` says it in words.
    pub(super) fn tell(&mut self, notice: Notice, why: impl FnOnce() -> String) {
        let bit = 1 << notice as u32;
        if self.told & bit == 0 {
            self.told |= bit;
            // Without room for it the profile says that definitions are missing.
            let _ = self.manager.pool().define(&Definition::Notice { text: why() });
        }
    }
}
