//! The places of the first return addresses on the stack of a waiting thread.
//!
//! A thread that has run and waits again in the same call, with the same stack pointer, may have
//! other callers. Used by `observed_look`, which compares these few words instead of copying and
//! unwinding the stack again. Words are compared only on x86-64, where a call stores the return
//! address directly below the caller's frame.

use super::PlacedFrame;

/// The number of return addresses that are compared.
const MAX_CALLERS: usize = 3;
/// The number of words above the stack pointer that contain them.
pub(super) const MAX_WORDS: usize = 64;

/// The return addresses of a stack, with their places above the stack pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Callers {
    slots: [Option<(u8, u64)>; MAX_CALLERS],
}

impl Callers {
    /// The return addresses of a stack that was copied from `start` and unwound. `frames` has the
    /// outermost frame first, each with its stack pointer.
    pub(super) fn of((start, words): (u64, &[u64]), frames: &[PlacedFrame]) -> Self {
        let mut found = Self::default();
        if !cfg!(target_arch = "x86_64") {
            return found;
        }
        let callers = frames.iter().rev().skip(1);
        for (slot, (_, sp)) in found.slots.iter_mut().zip(callers) {
            let place = sp.wrapping_sub(start) / 8;
            let place = usize::try_from(place).ok().and_then(|at| at.checked_sub(1));
            let place = place.filter(|at| *at < MAX_WORDS);
            *slot = place.and_then(|at| Some((u8::try_from(at).ok()?, *words.get(at)?)));
        }
        found
    }

    /// Whether there are as many return addresses as are compared at most.
    pub(super) fn are_all_known(&self) -> bool {
        self.slots.iter().all(Option::is_some)
    }

    /// The number of words that [`Self::are_in`] needs.
    pub(super) fn needed(&self) -> usize {
        let slots = self.slots.iter().flatten();
        slots
            .map(|(place, _)| usize::from(*place) + 1)
            .max()
            .unwrap_or(0)
    }

    /// Whether the words above the stack pointer have the same return addresses.
    pub(super) fn are_in(&self, words: &[u64]) -> bool {
        let mut slots = self.slots.iter().flatten();
        slots.all(|(place, address)| words.get(usize::from(*place)) == Some(address))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::entry::stack::Frame;

    #[test]
    fn a_return_address_is_below_the_stack_pointer_of_the_caller() {
        let start = 0x1000;
        let mut words = [7, 0xaaaa, 8, 9, 0xbbbb, 10];
        let frame = |sp: u64| (Frame::Unknown(1), sp);
        let frames = [frame(start + 5 * 8), frame(start + 2 * 8), frame(start)];
        let callers = Callers::of((start, &words), &frames);
        assert_eq!(callers.needed(), 5);
        assert!(callers.are_in(&words));
        assert!(!callers.are_in(&words[..4]), "a shorter stack");
        words[3] = 0;
        assert!(callers.are_in(&words), "a word that is no return address");
        words[4] = 0xcccc;
        assert!(!callers.are_in(&words), "another caller");
    }

    #[test]
    fn frames_that_are_far_away_or_below_the_stack_are_not_compared() {
        let frame = |sp: u64| (Frame::Unknown(1), sp);
        for sp in [0, 0x1000, 0x0ff8, 0x1000 + 66 * 8, u64::MAX] {
            let callers = Callers::of((0x1000, &[1; 128]), &[frame(sp), frame(0x1000)]);
            assert_eq!(callers.needed(), 0, "{sp:#x}");
        }
    }
}
