//! The stack of the calling thread, as a marker or an allocation carries it.
//!
//! Taken on the thread itself, at once: native frames by `sampler::here`, labels from the thread's own list. Allocates
//! nothing, waits for nobody, and may be taken inside an allocator. Frames of the profiler itself are left out. About
//! 8 KiB of the caller's stack.

use crate::entry::stack::Frame;
use crate::label::merge::{Merged, Placed, merge};
use crate::label::{MAX_LABELS, registry};
use crate::marker::MarkerStack;
use crate::sampler::here;

/// Most native frames. What is further out is cut off, and that is said.
const MAX_NATIVE: usize = 256;

const EMPTY: Placed = (Frame::Unknown(0), 0);

/// A stack that was taken.
#[derive(Debug)]
pub(crate) struct Backtrace {
    native: [Placed; MAX_NATIVE],
    labels: [Placed; MAX_LABELS],
    /// The native frames that are in use.
    native_count: usize,
    label_count: usize,
    cut: bool,
}

impl Backtrace {
    /// Takes the calling thread's stack, without the native frames at and below the address `own`: the profiler's.
    #[inline(never)]
    pub(crate) fn take(wanted: MarkerStack, own: u64) -> Self {
        let (native, labels) = ([EMPTY; MAX_NATIVE], [EMPTY; MAX_LABELS]);
        let mut taken = Self { native, labels, native_count: 0, label_count: 0, cut: false };
        if wanted == MarkerStack::None {
            return taken;
        }
        taken.label_count = registry::copy_own(&mut taken.labels);
        if wanted == MarkerStack::Full {
            let native = here::capture(&mut taken.native);
            taken.cut = native.cut;
            taken.native_count = native.len.min(MAX_NATIVE);
            let is_own = |(_, pointer): &&Placed| *pointer <= own;
            let innermost = taken.native.get(..taken.native_count).unwrap_or_default().iter().rev();
            taken.native_count = taken.native_count.saturating_sub(innermost.take_while(is_own).count());
        }
        taken
    }

    /// Its frames, outermost first.
    pub(crate) fn frames(&self) -> Merged<'_> {
        let native = self.native.get(..self.native_count).unwrap_or_default();
        merge(native, self.labels.get(..self.label_count).unwrap_or_default(), self.cut)
    }

    /// Whether frames further out are missing.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }
}
