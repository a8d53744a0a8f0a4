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
#[derive(Debug, Default)]
pub(crate) struct Backtrace {
    /// Not even made where there is nothing to put in: that would cost more than the labels.
    native: Option<[Placed; MAX_NATIVE]>,
    labels: Option<[Placed; MAX_LABELS]>,
    native_count: usize,
    label_count: usize,
    cut: bool,
}

impl Backtrace {
    /// Takes the calling thread's stack, without the native frames at and below the address `own`: the profiler's.
    #[inline(never)]
    pub(crate) fn take(wanted: MarkerStack, own: u64) -> Self {
        let mut taken = Self::default();
        if wanted != MarkerStack::None && registry::has_own() {
            let labels = taken.labels.insert([EMPTY; MAX_LABELS]);
            taken.label_count = registry::copy_own(labels);
        }
        if wanted == MarkerStack::Full {
            let native = taken.native.insert([EMPTY; MAX_NATIVE]);
            let captured = here::capture(native);
            taken.cut = captured.cut;
            let count = captured.len.min(MAX_NATIVE);
            let innermost = native.get(..count).unwrap_or_default().iter().rev();
            let own_count = innermost.take_while(|(_, pointer)| *pointer <= own).count();
            taken.native_count = count.saturating_sub(own_count);
        }
        taken
    }

    /// Its frames, outermost first.
    pub(crate) fn frames(&self) -> Merged<'_> {
        let native = self.native.as_ref().and_then(|all| all.get(..self.native_count));
        let labels = self.labels.as_ref().and_then(|all| all.get(..self.label_count));
        merge(native.unwrap_or_default(), labels.unwrap_or_default(), self.cut)
    }

    /// Whether frames further out are missing.
    pub(crate) const fn is_cut(&self) -> bool {
        self.cut
    }
}
