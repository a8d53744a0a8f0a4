//! The spans that the calling thread has entered, innermost last.
//!
//! Used by `recording`. Each entry has what leaving its span needs: the label to close, and the
//! time at which it was entered. Invariants: a thread's entries are its own; at most [`MOST`] are
//! kept, the outermost, and deeper ones are only counted. The thread-local has no destructor, so it
//! works at any point of a thread's life.

use std::cell::Cell;

use profiler_core::time::Timestamp;

/// Most spans that are kept. They take 1 KiB of each thread that enters a span.
const MOST: usize = 32;

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

struct EnteredStack {
    depth: Cell<usize>,
    entries: [Cell<Entered>; MOST],
}

thread_local! {
    static STACK: EnteredStack = const {
        EnteredStack {
            depth: Cell::new(0),
            entries: [const { Cell::new(Entered::NONE) }; MOST],
        }
    };
}

/// Adds a span that the thread has entered. `open` makes the entry if there is room for it.
#[inline]
pub(crate) fn push(open: impl FnOnce() -> Entered) {
    STACK.with(|stack| {
        let depth = stack.depth.get();
        if let Some(place) = stack.entries.get(depth) {
            place.set(open());
        }
        stack.depth.set(depth.saturating_add(1));
    });
}

/// Removes the innermost entry of the span with this number, and returns it. `None` if it is not
/// kept.
#[inline]
pub(crate) fn pop(id: u64) -> Option<Entered> {
    STACK.with(|stack| {
        let depth = stack.depth.get().checked_sub(1)?;
        stack.depth.set(depth);
        let innermost = stack.entries.get(depth)?.get();
        if innermost.id == id {
            return Some(innermost);
        }
        stack.remove_inner(id, depth)
    })
}

impl EnteredStack {
    /// Removes an entry that is not the innermost one. `innermost` is the place of that.
    #[cold]
    fn remove_inner(&self, id: u64, innermost: usize) -> Option<Entered> {
        let Some(at) = self
            .entries
            .iter()
            .take(innermost)
            .rposition(|place| place.get().id == id)
        else {
            // It was entered on another thread, or before this thread had a subscriber.
            self.depth.set(innermost.saturating_add(1));
            return None;
        };
        let removed = self.entries.get(at)?.get();
        for pair in self.entries.get(at..=innermost)?.windows(2) {
            if let [place, next] = pair {
                place.set(next.get());
            }
        }
        Some(removed)
    }
}

/// The innermost entry.
#[inline]
pub(crate) fn innermost() -> Option<Entered> {
    STACK.with(|stack| {
        let kept = stack.depth.get().min(MOST);
        Some(stack.entries.get(kept.checked_sub(1)?)?.get())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(id: u64) {
        push(|| Entered {
            id,
            ..Entered::NONE
        });
    }

    fn own_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new()
            .spawn(body)
            .unwrap()
            .join()
            .unwrap();
    }

    fn innermost_id() -> Option<u64> {
        innermost().map(|entered| entered.id)
    }

    #[test]
    fn spans_may_be_left_in_any_order() {
        own_thread(|| {
            (1..=4).for_each(enter);
            assert_eq!(pop(2).map(|entered| entered.id), Some(2));
            assert_eq!(innermost_id(), Some(4));
            assert_eq!([4, 3, 1].map(|id| pop(id).is_some()), [true; 3]);
            assert_eq!(innermost_id(), None);
        });
    }

    #[test]
    fn a_span_that_was_not_entered_changes_nothing() {
        own_thread(|| {
            assert!(pop(9).is_none());
            enter(1);
            assert!(pop(9).is_none());
            assert_eq!(innermost_id(), Some(1));
        });
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_and_not_kept() {
        own_thread(|| {
            (1..=40).for_each(enter);
            assert_eq!(innermost_id(), Some(32));
            for id in (33..=40).rev() {
                assert!(pop(id).is_none());
            }
            assert!(pop(32).is_some());
        });
    }
}
