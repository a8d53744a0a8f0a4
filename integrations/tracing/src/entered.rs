//! The spans that the calling thread has entered, innermost last.
//!
//! Used by `recording`. Each entry has what leaving its span needs: the label to close, and the
//! time at which it was entered. Invariants: a thread's entries are its own; at most [`MAX`] are
//! kept, the outermost, and deeper ones are only counted. If a kept one is left while a deeper one
//! is not, the last place has no number: it stands for a span that is not kept. The thread-local
//! has no destructor, so it works at any point of a thread's life.

use std::cell::Cell;

use profiler_core::time::Timestamp;

/// Most spans that are kept. They take 1 KiB of each thread that enters a span.
const MAX: usize = 32;

/// An entered span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    /// The number that `tracing` knows it by.
    pub(crate) id: u64,
    /// The word of the recorded span; 0 if it is not recorded.
    pub(crate) span: u64,
    /// When it was entered, if polls are recorded.
    pub(crate) since: Timestamp,
    /// The label that was opened, for closing.
    pub(crate) label: u32,
}

impl Entered {
    const NONE: Self = Self {
        id: 0,
        span: 0,
        since: Timestamp::ZERO,
        label: u32::MAX,
    };
}

/// A place for an entry. Its words are written and read one by one: a processor waits before it
/// loads at once what was stored in two parts.
struct Place {
    id: Cell<u64>,
    span: Cell<u64>,
    since: Cell<Timestamp>,
    label: Cell<u32>,
}

impl Place {
    const fn free() -> Self {
        Self {
            id: Cell::new(Entered::NONE.id),
            span: Cell::new(Entered::NONE.span),
            since: Cell::new(Entered::NONE.since),
            label: Cell::new(Entered::NONE.label),
        }
    }

    #[inline(always)]
    fn set(&self, entered: Entered) {
        self.id.set(entered.id);
        self.span.set(entered.span);
        self.since.set(entered.since);
        self.label.set(entered.label);
    }

    #[inline(always)]
    fn get(&self) -> Entered {
        Entered {
            id: self.id.get(),
            span: self.span.get(),
            since: self.since.get(),
            label: self.label.get(),
        }
    }
}

struct EnteredStack {
    depth: Cell<usize>,
    entries: [Place; MAX],
}

thread_local! {
    static STACK: EnteredStack = const {
        EnteredStack {
            depth: Cell::new(0),
            entries: [const { Place::free() }; MAX],
        }
    };
}

/// Whether the next span that the thread enters is kept.
#[inline(always)]
pub(crate) fn has_place() -> bool {
    STACK.with(|stack| stack.depth.get() < MAX)
}

/// Adds a span that the thread has entered. Its values are kept if there is a place for it.
#[inline(always)]
pub(crate) fn push(entered: Entered) {
    STACK.with(|stack| {
        let depth = stack.depth.get();
        if let Some(place) = stack.entries.get(depth) {
            place.set(entered);
        }
        stack.depth.set(depth.saturating_add(1));
    });
}

/// Removes the innermost entry of the span with this number, and passes it to `left` if it was kept.
///
/// It does not return the entry: the compiler would copy a returned entry with loads that are wider
/// than the stores before them, and a processor waits for such a load.
#[inline(always)]
pub(crate) fn pop(id: u64, left: impl FnOnce(Entered)) {
    STACK.with(|stack| {
        let Some(depth) = stack.depth.get().checked_sub(1) else {
            return;
        };
        match stack.entries.get(depth) {
            Some(innermost) if innermost.id.get() == id => {
                stack.depth.set(depth);
                left(innermost.get());
            }
            _ => {
                if let Some(entered) = stack.remove_inner(id, depth) {
                    left(entered);
                }
            }
        }
    });
}

impl EnteredStack {
    /// Removes an entry that is not the innermost one, or one that is not kept. `innermost` is the
    /// place of the innermost one.
    #[cold]
    fn remove_inner(&self, id: u64, innermost: usize) -> Option<Entered> {
        let kept = self.entries.get(..innermost.saturating_add(1).min(MAX))?;
        let find = |id| kept.iter().rposition(|place| place.id.get() == id);
        let removed = match find(id).or_else(|| find(Entered::NONE.id)) {
            Some(at) => self.remove_kept(at, innermost),
            None if innermost >= MAX => Entered::NONE,
            // It was entered on another thread, or before this thread had a subscriber.
            None => return None,
        };
        self.depth.set(innermost);
        (removed.id == id).then_some(removed)
    }

    /// Removes the entry in a place. An entry that was not kept takes the last place.
    fn remove_kept(&self, at: usize, innermost: usize) -> Entered {
        let removed = self.entries.get(at).map_or(Entered::NONE, Place::get);
        for pair in self.entries.get(at..).unwrap_or_default().windows(2) {
            if let [place, next] = pair {
                place.set(next.get());
            }
        }
        if innermost >= MAX
            && let Some(last) = self.entries.last()
        {
            last.set(Entered::NONE);
        }
        removed
    }
}

/// The innermost entry. `None` if there is none, or if it is not kept.
#[inline]
pub(crate) fn innermost() -> Option<Entered> {
    STACK.with(|stack| Some(stack.entries.get(stack.depth.get().checked_sub(1)?)?.get()))
}

/// The word of the innermost recorded span that is kept.
#[inline]
pub(crate) fn innermost_recorded() -> Option<u64> {
    STACK.with(|stack| {
        let kept = stack.entries.get(..stack.depth.get().min(MAX))?;
        let mut words = kept.iter().rev().map(|place| place.span.get());
        words.find(|word| *word != 0)
    })
}

#[cfg(test)]
mod tests {
    use test_support::threads::on_thread;

    use super::*;

    fn enter(id: u64) {
        push(Entered {
            id,
            ..Entered::NONE
        });
    }

    fn leave(id: u64) -> Option<Entered> {
        let mut left = None;
        pop(id, |entered| left = Some(entered));
        left
    }

    fn innermost_id() -> Option<u64> {
        innermost().map(|entered| entered.id)
    }

    #[test]
    fn spans_may_be_left_in_any_order() {
        on_thread(|| {
            (1..=4).for_each(enter);
            assert_eq!(leave(2).map(|entered| entered.id), Some(2));
            assert_eq!(innermost_id(), Some(4));
            assert_eq!([4, 3, 1].map(|id| leave(id).is_some()), [true; 3]);
            assert_eq!(innermost_id(), None);
        });
    }

    #[test]
    fn a_span_that_was_not_entered_changes_nothing() {
        on_thread(|| {
            assert!(leave(9).is_none());
            enter(1);
            assert!(leave(9).is_none());
            assert_eq!(innermost_id(), Some(1));
        });
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_and_not_kept() {
        on_thread(|| {
            (1..=40).for_each(enter);
            assert_eq!(innermost_id(), None);
            for id in (33..=40).rev() {
                assert!(leave(id).is_none());
            }
            assert_eq!(innermost_id(), Some(32));
            assert!(leave(32).is_some());
        });
    }

    #[test]
    fn a_kept_span_that_is_left_below_the_bound_leaves_no_entry() {
        on_thread(|| {
            (1..=40).for_each(enter);
            assert_eq!(leave(20).map(|entered| entered.id), Some(20));
            assert!((33..=40).rev().all(|id| leave(id).is_none()));
            assert_eq!(innermost_id(), Some(32));
            let left = (1..=32).rev().filter_map(leave).count();
            assert_eq!((left, innermost_id()), (31, None));
        });
    }

    #[test]
    fn the_parent_is_the_innermost_recorded_span() {
        on_thread(|| {
            push(Entered {
                id: 1,
                span: 7,
                ..Entered::NONE
            });
            (2..=40).for_each(enter);
            assert_eq!(innermost_recorded(), Some(7));
        });
    }
}
