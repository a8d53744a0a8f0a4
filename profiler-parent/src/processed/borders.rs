//! The border between two profiles of a series: up to where the samples of a thread are written,
//! and the wait that goes on there.
//!
//! Used by the first pass. The first sample of a thread in a profile does not say since when it
//! lasts, so a profile that continues a series begins the samples of a thread with a row of weight
//! 0 and no stack, at the time of the thread's last row in the profile before. A wait that goes on
//! is written in each profile up to its end. Invariant: the times, the processor times and the
//! ticks of all profiles of a series are those of one profile. Exception: a wait that turns out to
//! have ended before the end of the previous profile keeps the ticks that are written. Memory: the
//! stacks of the waits are limited by [`MAX_WAIT_FRAMES`].

use std::collections::HashMap;
use std::sync::Arc;

use profiler_core::ids::{ThreadId, ThreadIndex};
use profiler_core::internal::entry::stack::Frame;
use profiler_core::time::Timestamp;

use super::stacks::StackKind;

/// Limit on the frames of the waits of a profile that are remembered. Further waits go on in the
/// next profile without a stack.
pub(super) const MAX_WAIT_FRAMES: usize = 1 << 17;
/// Limit on the remembered threads of a process that are known from samples only.
const MAX_SAMPLED_ONLY: usize = 1000;

/// A thread of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum BorderThread {
    /// The thread of a row. A row is used by another thread after the end of one.
    Row(ThreadIndex, Timestamp),
    /// A thread that is known from samples only.
    Sampled(ThreadId),
}

/// The last row of a thread in the profiles of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Border {
    pub(super) at: Timestamp,
    /// Whether the thread's processor time is measured.
    pub(super) has_cpu: bool,
    /// The wait that goes on there.
    pub(super) wait: Option<WaitAtBorder>,
}

/// A wait that has not ended at a border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitAtBorder {
    pub(super) since: Timestamp,
    /// The ticks since then that the profiles contain.
    pub(super) ticks: u32,
    /// `None` if it is unknown, or if there was no room for it.
    pub(super) stack: Option<WaitStack>,
}

/// The stack of a thread that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WaitStack {
    pub(super) frames: Arc<[Frame]>,
    pub(super) kind: StackKind,
}

/// The borders of the threads of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Borders(HashMap<BorderThread, Border>);

impl Borders {
    /// The border of a thread, if earlier profiles have samples of it.
    pub(super) fn of(&self, thread: BorderThread) -> Option<&Border> {
        self.0.get(&thread)
    }

    /// Sets the border of a thread.
    pub(super) fn set(&mut self, thread: BorderThread, border: Border) {
        self.0.insert(thread, border);
    }

    /// Keeps the borders of earlier profiles that are not set: those of rows for which
    /// `is_left_out` holds, and those of threads without rows as long as there is room.
    pub(super) fn keep(&mut self, earlier: &Self, is_left_out: impl Fn(BorderThread) -> bool) {
        let is_sampled = |thread: &BorderThread| matches!(thread, BorderThread::Sampled(_));
        let mut room = MAX_SAMPLED_ONLY
            .saturating_sub(self.0.keys().filter(|thread| is_sampled(thread)).count());
        for (thread, border) in &earlier.0 {
            let is_kept = if is_sampled(thread) {
                let has_room = room > 0;
                room = room.saturating_sub(1);
                has_room
            } else {
                is_left_out(*thread)
            };
            if is_kept {
                self.0.entry(*thread).or_insert_with(|| border.clone());
            }
        }
    }
}
