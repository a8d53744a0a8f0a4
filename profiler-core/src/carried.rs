//! What a thread carries at present: the application's trace, and the innermost performance group.
//!
//! Written by the module `trace` and by the groups. Read by the recorder before markers, by the
//! signal handler of the samples, and by the sampler's thread. Invariants: only the owner writes;
//! the memory is never freed, so it may be read at any time; the thread-local is a plain reference
//! without a destructor.

use std::cell::Cell;

use profiler_trace::{ThreadRecord, TraceContext};

use crate::ids::GroupIndex;
use crate::pool::tag::belongs_to;
use crate::sync::fixed::{AtomicU64, Ordering};

/// What one thread carries. A part of the thread's place in the registry of labels.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub(crate) record: ThreadRecord,
    /// The innermost group: the tag of a pool in the high 32 bits, and the number of the group's
    /// cell in this pool, plus one, in the low 32 bits. 0 if there is no group.
    group: AtomicU64,
}

/// What a thread carried at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CarriedNow {
    pub(crate) trace: Option<TraceContext>,
    group: u64,
}

thread_local! {
    static OWN: Cell<Option<&'static Carried>> = const { Cell::new(None) };
}

/// What the calling thread carries; `None` if it has no place in the registry.
#[inline(always)]
pub(crate) fn own() -> Option<&'static Carried> {
    OWN.get()
}

/// Called after the calling thread has taken a place.
pub(crate) fn begin(own: &'static Carried) {
    OWN.set(Some(own));
    own.record.publish();
}

/// Called before the calling thread gives its place back.
pub(crate) fn end() {
    if let Some(own) = OWN.take() {
        own.record.withdraw();
        own.clear();
    }
}

/// The trace of the calling thread.
pub(crate) fn own_trace() -> Option<TraceContext> {
    own().and_then(|own| own.record.get())
}

impl Carried {
    /// Removes the trace and the group. Called by the owner at its end, and in a forked child for
    /// the threads of the parent.
    pub(crate) fn clear(&self) {
        self.record.set(None);
        self.set_group(0);
    }

    /// Sets the word of the innermost group. Called by the owner only.
    #[inline(always)]
    pub(crate) fn set_group(&self, word: u64) {
        self.group.store(word, Ordering::Relaxed);
    }

    /// What the thread carries now. Takes no lock and allocates nothing, so signal handlers may
    /// call it.
    pub(crate) fn now(&self) -> CarriedNow {
        CarriedNow {
            trace: self.record.get(),
            group: self.group.load(Ordering::Relaxed),
        }
    }
}

impl CarriedNow {
    /// No trace and no group.
    pub(crate) const NOTHING: Self = Self {
        trace: None,
        group: 0,
    };

    /// The group, if it belongs to the pool with this tag.
    pub(crate) fn group_in(self, tag: u64) -> Option<GroupIndex> {
        let number = u32::try_from(self.group & 0xffff_ffff).ok()?;
        let number = number.checked_sub(1)?;
        belongs_to(self.group, tag).then(|| GroupIndex::new(number))
    }
}
