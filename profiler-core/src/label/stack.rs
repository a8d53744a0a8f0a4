//! The open labels of one thread: written by that thread only, read by any thread at any time.
//!
//! The sampler reads them. If possible, it reads them in the signal handler on that thread, where
//! they cannot change during the read. A read from another thread succeeds if the state is the same
//! before and after the read.
//!
//! ```text
//! state    low 32: number of open labels · high 32: number of changes
//! entries  label (definition, and tag of its pool) · address in the frame that opened it
//! ```
//!
//! ```text
//! owner, open   address, label (release) · state: one more (release)
//! owner, close  state: fewer (release)
//! reader        state (acquire) · that many entries (acquire) · state unchanged?
//! ```
//!
//! An entry that the reader may read is overwritten only after it was closed, which changes the
//! state. A reader that reads a word of the new entry also sees that change: release and acquire.
//! So all entries copied under one state were open at the same time. Model-checked below.
//!
//! Invariant: closing a label restores the number of labels that were open before it was opened,
//! and never raises the number. So a label whose guard is forgotten is closed with the label around
//! it, and guards that are dropped in the wrong order are harmless.

use std::iter::Take;
use std::slice;

use crate::carried::Carried;
use crate::entry::stack::Frame;
use crate::ids::DefinitionId;
use crate::pool::tag::belongs_to;
use crate::sync::{AtomicU64, Ordering};

/// Maximum number of labels that are kept. If more are open, the outermost are kept.
pub(crate) const MAX_LABELS: usize = 64;

/// One change in the state word.
const CHANGE: u64 = 1 << 32;
const DEPTH: u64 = CHANGE - 1;
/// How often a reader tries to copy the labels before it gives up.
const TRIES: usize = 4;

/// A frame, and an address in its part of the stack.
pub(crate) type Placed = (Frame, u64);

#[derive(Debug)]
struct Entry {
    label: AtomicU64,
    address: AtomicU64,
}

/// The open labels of one thread, and what else it carries.
#[derive(Debug)]
pub(crate) struct LabelStack<const N: usize = MAX_LABELS> {
    pub(crate) carried: Carried,
    state: AtomicU64,
    entries: [Entry; N],
}

impl<const N: usize> LabelStack<N> {
    pub(crate) fn new() -> Self {
        let entry = |_| Entry {
            label: AtomicU64::new(0),
            address: AtomicU64::new(0),
        };
        Self {
            carried: Carried::default(),
            state: AtomicU64::new(0),
            entries: std::array::from_fn(entry),
        }
    }

    /// Opens a label of the pool with this tag; returns the number that were open before. Called by
    /// the owner only.
    #[inline(always)]
    pub(crate) fn push(&self, tag: u64, label: DefinitionId, address: u64) -> u32 {
        let state = self.state.load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation)] // the low half is the number of open labels
        let depth = state as u32;
        if let Some(entry) = self.entries.get(depth as usize) {
            entry.address.store(address, Ordering::Release);
            entry
                .label
                .store((tag << 32) | u64::from(label.get()), Ordering::Release);
        }
        self.state
            .store(state.wrapping_add(CHANGE + 1), Ordering::Release);
        depth
    }

    /// Closes all labels except the `outside` outermost ones. Called by the owner only.
    #[inline(always)]
    pub(crate) fn leave(&self, outside: u32) {
        let state = self.state.load(Ordering::Relaxed);
        let depth = (state & DEPTH).min(u64::from(outside));
        self.state.store(
            (state & !DEPTH).wrapping_add(CHANGE) | depth,
            Ordering::Release,
        );
    }

    /// The open labels of the pool with this tag. Called by the owner only.
    pub(crate) fn open(&self, tag: u64) -> OpenLabels<'_> {
        let depth = self.state.load(Ordering::Relaxed) & DEPTH;
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        OpenLabels {
            entries: self.entries.iter().take(depth),
            tag,
        }
    }

    /// Copies the open labels of the pool with this tag, outermost first, and returns their number;
    /// `None` if they kept changing. Takes no lock and allocates nothing, so signal handlers may
    /// call it.
    pub(crate) fn copy(&self, tag: u64, out: &mut [Placed]) -> Option<usize> {
        (0..TRIES).find_map(|_| {
            let state = self.state.load(Ordering::Acquire);
            let depth = usize::try_from(state & DEPTH).unwrap_or(usize::MAX);
            let open = OpenLabels {
                entries: self.entries.iter().take(depth),
                tag,
            };
            let copied = out
                .iter_mut()
                .zip(open)
                .map(|(place, label)| *place = label);
            let count = copied.count();
            (self.state.load(Ordering::Relaxed) == state).then_some(count)
        })
    }
}

/// Open labels, outermost first, read one by one. For the owner, they do not change meanwhile. On
/// another thread, `LabelStack::copy` checks afterwards that they did not change.
#[derive(Clone, Debug)]
pub(crate) struct OpenLabels<'a> {
    entries: Take<slice::Iter<'a, Entry>>,
    /// Labels of sessions with another pool are left out.
    tag: u64,
}

impl OpenLabels<'_> {
    /// No labels.
    pub(crate) fn none() -> Self {
        Self {
            entries: [].iter().take(0),
            tag: 0,
        }
    }
}

impl Iterator for OpenLabels<'_> {
    type Item = Placed;

    fn next(&mut self) -> Option<Placed> {
        let tag = self.tag;
        self.entries.find_map(|entry| {
            let address = entry.address.load(Ordering::Acquire);
            let label = entry.label.load(Ordering::Acquire);
            #[allow(clippy::cast_possible_truncation)] // the low half is the definition's number
            let number = DefinitionId::new(label as u32);
            belongs_to(label, tag).then_some((Frame::Label(number), address))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TAG: u64 = 7;

    fn open(stack: &LabelStack) -> Vec<(u32, u64)> {
        let mut out = [(Frame::Unknown(0), 0); MAX_LABELS];
        let count = stack.copy(TAG, &mut out).unwrap();
        let number = |(frame, address): &Placed| match frame {
            Frame::Label(id) => (id.get(), *address),
            other => panic!("{other:?}"),
        };
        out[..count].iter().map(number).collect()
    }

    fn push(stack: &LabelStack, number: u32) -> u32 {
        stack.push(TAG, DefinitionId::new(number), u64::from(number) * 10)
    }

    #[test]
    fn open_labels_are_read_outermost_first() {
        let stack = LabelStack::new();
        let first = push(&stack, 1);
        let second = push(&stack, 2);
        assert_eq!(open(&stack), [(1, 10), (2, 20)]);
        stack.leave(second);
        assert_eq!(open(&stack), [(1, 10)]);
        stack.leave(first);
        assert_eq!(open(&stack), []);
    }

    #[test]
    fn labels_beyond_the_maximum_are_counted_but_not_kept() {
        let stack = LabelStack::new();
        let outside: Vec<u32> = (1..=100).map(|number| push(&stack, number)).collect();
        assert_eq!(open(&stack).len(), MAX_LABELS);
        for outside in outside.iter().rev().take(50) {
            stack.leave(*outside);
        }
        assert_eq!(open(&stack).last(), Some(&(50, 500)));
    }

    #[test]
    fn a_forgotten_guard_is_closed_with_the_one_around_it() {
        let stack = LabelStack::new();
        let around = push(&stack, 1);
        push(&stack, 2);
        stack.leave(around);
        assert_eq!(open(&stack), []);
    }

    #[test]
    fn guards_in_the_wrong_order_leave_nothing_open() {
        let stack = LabelStack::new();
        let first = push(&stack, 1);
        let second = push(&stack, 2);
        stack.leave(first);
        stack.leave(second);
        assert_eq!(open(&stack), []);
    }

    #[test]
    fn a_label_of_another_pool_is_not_seen() {
        let stack = LabelStack::<MAX_LABELS>::new();
        stack.push(TAG + 1, DefinitionId::new(1), 10);
        push(&stack, 2);
        assert_eq!(open(&stack), [(2, 20)]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// The address of a label is ten times its number, so a torn entry is detected. Label 2 is
    /// inside label 1, and label 4 is inside label 3.
    fn check(copied: &[Placed]) {
        for (frame, address) in copied {
            assert!(
                matches!(frame, Frame::Label(id) if u64::from(id.get()) * 10 == *address),
                "torn entry"
            );
        }
        let addresses: Vec<u64> = copied.iter().map(|(_, address)| *address).collect();
        assert!(
            [&[][..], &[10], &[10, 20], &[30], &[30, 40]].contains(&&addresses[..]),
            "{addresses:?}"
        );
    }

    fn copy(stack: &LabelStack<2>) {
        let mut out = [(Frame::Unknown(0), 0); 2];
        if let Some(count) = stack.copy(1, &mut out) {
            check(&out[..count]);
        }
    }

    /// The reader is the spawned thread, because loom does not try all orders of a load and a store
    /// of different threads. It also tries to execute the load before a store that precedes it. It
    /// does not try to execute the load after a store that follows it if the storing thread loads
    /// first, as `push` does.
    #[test]
    fn loom_all_copied_labels_were_open_at_the_same_time() {
        loom::model(|| {
            let stack = Arc::new(LabelStack::<2>::new());
            let reader = {
                let stack = Arc::clone(&stack);
                thread::spawn(move || copy(&stack))
            };
            for outer in [1, 3] {
                let outside = stack.push(1, DefinitionId::new(outer), u64::from(outer) * 10);
                stack.push(1, DefinitionId::new(outer + 1), u64::from(outer + 1) * 10);
                // The last labels stay open, so that the reader may see the same number open as
                // before.
                if outer == 1 {
                    stack.leave(outside);
                }
            }
            reader.join().unwrap();
        });
    }
}
