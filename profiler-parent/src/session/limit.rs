//! Changing the memory limit of a running session.
//!
//! Part of [`super::Session`]. The supervisor owns the limit; this file checks a new limit, sends
//! it and waits for the effect. Invariant: the parameters of a session never change, so its
//! children do not learn of the new limit. They obey their allowances, and pools have addresses for
//! the largest limit from the beginning.

use std::time::Duration;

use crossbeam_channel::bounded;
use profiler_core::ids::ByteLimit;
use profiler_core::internal::pool;

use crate::controller::{Event, MemoryLimit};
use crate::supervisor::{SupervisorEvent, SupervisorHandle};

/// How long a lowered limit waits for the processes that are asked first, and then for the other
/// processes that are asked instead.
const ASKED: Duration = Duration::from_millis(500);

/// The reason why a limit is refused; the previous limit stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The limit is too small for this process alone.
    #[error(
        "a memory limit of {limit} bytes is too small, this process alone needs {needed} bytes"
    )]
    TooSmall {
        /// The limit.
        limit: u64,
        /// The minimum that is needed.
        needed: u64,
    },
    /// The pools have too few addresses for this limit: `SessionBuilder::max_memory_limit` decides.
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

fn check(limit: &MemoryLimit, wanted: ByteLimit) -> Result<(), LimitError> {
    let bytes = wanted.get();
    let needed = pool::floor_bytes();
    if bytes < needed {
        return Err(LimitError::TooSmall {
            limit: bytes,
            needed,
        });
    }
    let most = limit.most().get();
    if bytes > most {
        Err(LimitError::TooLarge { limit: bytes, most })
    } else {
        Ok(())
    }
}

/// Sets the limit, and waits until all processes obey it. Returns the bytes that are still held
/// beyond it.
pub(super) fn set(
    limit: &MemoryLimit,
    supervisor: &SupervisorHandle,
    wanted: ByteLimit,
) -> Result<u64, LimitError> {
    check(limit, wanted)?;
    let (obeyed, answer) = bounded(1);
    supervisor.send(SupervisorEvent::SetLimit {
        limit: wanted,
        obeyed,
    });
    if answer.recv_timeout(ASKED).is_err() {
        // A stopped process cannot obey: from now on, other processes free the bytes that it owes.
        supervisor.send(SupervisorEvent::Accounting(Event::Overdue));
        let _ = answer.recv_timeout(ASKED);
    }
    Ok(limit.over())
}
