//! Takes the calling thread's stack for an entry that carries one.
//!
//! Called by `marker` and `alloc`, on the thread itself: native frames come from
//! `sampler::self_unwind`, labels from the thread's own list. Taking a stack allocates nothing and
//! never waits, so it is possible inside an allocator. Frames of the profiler itself are left out.
//!
//! Invariant: the frames are stored in one of a few buffers ("rooms") that all threads share, never
//! on the calling thread's stack, which may be small. A thread holds a room until the entry is
//! written. When all rooms are in use, the stack is left out and marked as cut.

use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::entry::stack::Frame;
use crate::ids::DefinitionId;
use crate::label::merge::{Merged, Placed, merge};
use crate::label::{OpenLabels, registry};
use crate::sampler::self_unwind;

/// The most native frames. Frames further out are left out, and the stack is marked as cut.
const MAX_NATIVE: usize = 256;
/// The most threads that may hold the frames of a stack at the same time.
const ROOMS: usize = 16;

type Frames = [Placed; MAX_NATIVE];

/// All zeros, so memory is used only from the first access on.
static FRAMES: [Mutex<Frames>; ROOMS] =
    [const { Mutex::new([(Frame::Code(DefinitionId::NONE, 0), 0); MAX_NATIVE]) }; ROOMS];

/// A stack that was taken.
#[derive(Debug)]
pub(crate) struct Backtrace {
    native: Option<MutexGuard<'static, Frames>>,
    native_count: usize,
    labels: OpenLabels<'static>,
    cut: bool,
}

impl Backtrace {
    /// No stack.
    pub(crate) fn none() -> Self {
        Self {
            native: None,
            native_count: 0,
            labels: OpenLabels::none(),
            cut: false,
        }
    }

    /// Takes the open labels of the calling thread.
    pub(crate) fn labels() -> Self {
        Self {
            labels: registry::own(),
            ..Self::none()
        }
    }

    /// Takes the calling thread's stack: labels and native frames. The native frames at and below
    /// the address `own` are the profiler's and are left out.
    #[inline(never)]
    pub(crate) fn full(own: u64) -> Self {
        let mut taken = Self::labels();
        taken.take_native(own);
        taken
    }

    fn take_native(&mut self, own: u64) {
        let Some(mut native) = free_room() else {
            self.cut = true;
            return;
        };
        let Some(captured) = self_unwind::capture(&mut *native) else {
            return;
        };
        let innermost = native.get(..captured.len).unwrap_or_default().iter().rev();
        let own_count = innermost.take_while(|(_, pointer)| *pointer <= own).count();
        (self.native_count, self.cut) = (captured.len.saturating_sub(own_count), captured.cut);
        self.native = Some(native);
    }

    /// Its frames, outermost first.
    pub(crate) fn frames(&self) -> Merged<'_, OpenLabels<'static>> {
        let native = self
            .native
            .as_ref()
            .and_then(|all| all.get(..self.native_count));
        merge(native.unwrap_or_default(), self.labels.clone(), self.cut)
    }

    /// Whether frames further out are missing.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }
}

/// A room that no other thread holds. Does not wait.
fn free_room() -> Option<MutexGuard<'static, Frames>> {
    FRAMES.iter().find_map(|room| match room.try_lock() {
        Ok(room) => Some(room),
        // The serialisation of the payload panicked while it held the room. The room is overwritten
        // before it is read.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}
