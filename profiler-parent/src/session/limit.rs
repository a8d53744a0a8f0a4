//! Changing the memory limit of a running session.
//!
//! Part of [`super::Session`]. The hub owns the limit; here is what the caller waits for. Invariant:
//! the parameters of a session, and with them its children, never hear of a change: they obey
//! their allowances, and pools have addresses for the largest limit from the beginning.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use profiler_core::ids::ByteLimit;
use profiler_core::{pool, sys};

use crate::supervisor::{HubEvent, HubHandle};

/// How long a lowered limit waits for those who are asked, and then for the others in their place.
const ASKED: Duration = Duration::from_millis(500);

/// Why a limit is refused; the one before holds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The limit does not hold even this process.
    #[error("a memory limit of {limit} bytes is too small, this process alone needs {needed} bytes")]
    TooSmall {
        /// The limit.
        limit: u64,
        /// What is needed at least.
        needed: u64,
    },
    /// The pools have no addresses for so much: `SessionBuilder::max_memory_limit` decides.
    #[error(
        "a memory limit of {limit} bytes is too large, this session was started for at most {most} bytes"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
        /// The largest limit of this session.
        most: u64,
    },
}

/// The limit as everybody may see it. Written by the hub.
#[derive(Debug)]
pub(crate) struct Limit {
    now: AtomicU64,
    over: AtomicU64,
    most: ByteLimit,
}

impl Limit {
    /// A limit of `first` bytes, which may become `most`.
    pub(crate) fn new(first: ByteLimit, most: ByteLimit) -> Self {
        Self { now: AtomicU64::new(first.get()), over: AtomicU64::new(0), most: most.max(first) }
    }

    pub(crate) fn now(&self) -> ByteLimit {
        ByteLimit::new(self.now.load(Ordering::Acquire))
    }

    /// The largest limit: what pools have addresses for.
    pub(crate) const fn most(&self) -> ByteLimit {
        self.most
    }

    /// What is booked beyond the limit.
    fn over(&self) -> u64 {
        self.over.load(Ordering::Acquire)
    }

    /// Says how things are.
    pub(crate) fn publish(&self, now: ByteLimit, over: u64) {
        self.now.store(now.get(), Ordering::Release);
        self.over.store(over, Ordering::Release);
    }

    fn check(&self, limit: u64) -> Result<(), LimitError> {
        let needed = pool::FLOOR_PAGES.saturating_mul(sys::page_size());
        if limit < needed {
            return Err(LimitError::TooSmall { limit, needed });
        }
        let most = self.most.get();
        if limit > most { Err(LimitError::TooLarge { limit, most }) } else { Ok(()) }
    }
}

/// Sets the limit, and waits until it is obeyed. Gives what is still held beyond it.
pub(super) fn set(limit: &Limit, hub: &HubHandle, bytes: u64) -> Result<u64, LimitError> {
    limit.check(bytes)?;
    let (obeyed, answer) = bounded(1);
    hub.send(HubEvent::SetLimit { limit: ByteLimit::new(bytes), obeyed });
    if answer.recv_timeout(ASKED).is_err() {
        // Who stands still cannot obey: from now on the others give what it owes.
        hub.send(HubEvent::Overdue);
        let _ = answer.recv_timeout(ASKED);
    }
    Ok(limit.over())
}
