//! Merges native frames and labels into one stack by stack address.
//!
//! Used wherever a stack is taken: by the sampler, and for markers and allocations. Pure; allocates
//! nothing.
//!
//! The stack grows downwards, so a native frame occupies the stack from its own stack pointer up to
//! that of its caller's frame. A label belongs to the frame that contains its address. It is placed
//! directly inside that frame and outside all functions that the frame called.
//!
//! Invariants: every frame and every label is returned once. Frames keep their order, and labels
//! keep theirs, even if the addresses contradict it, as on a coroutine's stack.

pub(crate) use super::stack::Placed;
use crate::entry::stack::Frame;

/// Merges native frames, each with its stack pointer, and labels, each with an address in the frame
/// that opened it. Input and output are outermost first. With `cut`, frames further out than the
/// first one are missing, and labels beyond its stack pointer are assigned to them.
pub(crate) fn merge<L>(native: &[Placed], labels: L, cut: bool) -> Merged<'_, L>
where
    L: Iterator<Item = Placed> + Clone,
{
    let bound = native
        .first()
        .filter(|_| cut)
        .map_or(u64::MAX, |(_, outermost)| *outermost);
    Merged {
        native,
        labels,
        bound,
    }
}

/// The frames of a merged stack, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Merged<'a, L> {
    native: &'a [Placed],
    labels: L,
    /// Labels at this address or above come before the next native frame.
    bound: u64,
}

impl<L: Iterator<Item = Placed> + Clone> Iterator for Merged<'_, L> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let mut rest = self.labels.clone();
        if let Some((frame, address)) = rest.next()
            && (address >= self.bound || self.native.is_empty())
        {
            self.labels = rest;
            return Some(frame);
        }
        let ((frame, pointer), rest) = self.native.split_first()?;
        (self.native, self.bound) = (rest, *pointer);
        Some(*frame)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self
            .native
            .len()
            .saturating_add(self.labels.clone().count());
        (left, Some(left))
    }
}

impl<L: Iterator<Item = Placed> + Clone> ExactSizeIterator for Merged<'_, L> {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::DefinitionId;

    fn label(number: u32) -> Frame {
        Frame::Label(DefinitionId::new(number))
    }

    fn merged(native: &[Placed], labels: &[Placed], cut: bool) -> Vec<Frame> {
        merge(native, labels.iter().copied(), cut).collect()
    }

    const NATIVE: [Placed; 3] = [
        (Frame::Unknown(1), 0x900), // main, which occupies the stack from 0x900 up
        (Frame::Unknown(2), 0x500),
        (Frame::Unknown(3), 0x400),
    ];

    #[test]
    fn a_label_stands_just_inside_the_frame_that_opened_it() {
        let labels = [
            (label(1), 0x980),
            (label(2), 0x8ff),
            (label(3), 0x500),
            (label(4), 0x410),
        ];
        let expected = [1, 2, 3].map(Frame::Unknown);
        let [main, middle, leaf] = expected;
        assert_eq!(
            merged(&NATIVE, &labels, false),
            [main, label(1), middle, label(2), label(3), leaf, label(4)]
        );
    }

    #[test]
    fn without_native_frames_the_labels_stand_alone() {
        let labels = [(label(1), 0x980), (label(2), 0x8ff)];
        assert_eq!(merged(&[], &labels, false), [label(1), label(2)]);
    }

    #[test]
    fn in_a_cut_stack_the_labels_of_missing_frames_come_first() {
        let labels = [(label(1), 0x980), (label(2), 0x510)];
        let [main, middle, leaf] = [1, 2, 3].map(Frame::Unknown);
        assert_eq!(
            merged(&NATIVE, &labels, true),
            [label(1), main, middle, label(2), leaf]
        );
    }

    #[test]
    fn a_label_below_all_frames_belongs_to_the_innermost_frame() {
        let [main, middle, leaf] = [1, 2, 3].map(Frame::Unknown);
        assert_eq!(
            merged(&NATIVE, &[(label(1), 0x3f0)], false),
            [main, middle, leaf, label(1)]
        );
    }

    /// Distinct, falling addresses, as on a thread's own stack.
    fn falling(most: usize) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::btree_set(1_u64..1000, 0..most)
            .prop_map(|all| all.into_iter().rev().collect())
    }

    fn placed(addresses: &[u64], frame: impl Fn(u32) -> Frame) -> Vec<Placed> {
        (0..)
            .zip(addresses)
            .map(|(number, address)| (frame(number), *address))
            .collect()
    }

    proptest! {
        #[test]
        fn merging_is_sorting_by_address_with_frames_before_their_labels(
            pointers in falling(20), addresses in falling(20)
        ) {
            let native = placed(&pointers, |number| Frame::Unknown(u64::from(number)));
            let labels = placed(&addresses, label);
            // A frame occupies the addresses from its pointer up to the next, so move its pointer
            // to the upper end.
            let upper = |index: usize| if index == 0 { u64::MAX } else { pointers[index - 1] };
            let ends = native.iter().enumerate().map(|(index, (frame, _))| (*frame, upper(index), 0));
            let mut model: Vec<_> = ends.chain(labels.iter().map(|(frame, at)| (*frame, *at, 1))).collect();
            // At the same address the label belongs to the outer frame: the inner frame ends just
            // below.
            model.sort_by_key(|(_, at, is_label)| (std::cmp::Reverse(*at), 1 - *is_label));
            let model: Vec<Frame> = model.into_iter().map(|(frame, ..)| frame).collect();
            prop_assert_eq!(merged(&native, &labels, false), model);
        }

        #[test]
        fn nothing_is_lost_or_reordered_for_any_addresses(
            pointers in prop::collection::vec(any::<u64>(), 0..10),
            addresses in prop::collection::vec(any::<u64>(), 0..10),
            cut in any::<bool>(),
        ) {
            let native = placed(&pointers, |number| Frame::Unknown(u64::from(number)));
            let labels = placed(&addresses, label);
            let all = merge(&native, labels.iter().copied(), cut);
            prop_assert_eq!(all.len(), native.len() + labels.len());
            let is_label = |frame: &Frame| matches!(frame, Frame::Label(_));
            let (of_labels, of_code): (Vec<Frame>, Vec<Frame>) = all.partition(is_label);
            prop_assert_eq!(of_labels, labels.iter().map(|(frame, _)| *frame).collect::<Vec<_>>());
            prop_assert_eq!(of_code, native.iter().map(|(frame, _)| *frame).collect::<Vec<_>>());
        }
    }
}
