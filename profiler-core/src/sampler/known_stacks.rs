//! The stacks of a thread's last waits, for further waits at the same places.
//!
//! A look that finds a thread at a known place compares a few words of its stack (`callers`)
//! instead of copying and unwinding all of it again.
//!
//! A look reads where a thread waits, copies the stack, and then checks that the thread has not run
//! in between. A short wait may end in between. If such a wait were left out, longer waits of the
//! thread would get its time. The look therefore uses the stack of an earlier wait at the same
//! place. Used by `observed_look`. Invariants: a thread has at most [`MOST`] stacks, of at most
//! [`MAX_FRAMES`] frames each; a thread that has waited at one place only has none.

use super::callers::Callers;
use super::wait_period::WaitPlace;
use crate::entry::stack::Frame;

/// The most stacks of a thread.
const MOST: usize = 4;
/// The most frames of a stack that is kept.
const MAX_FRAMES: usize = 128;
/// A stack is copied again after this number of uses.
const MAX_USES: u8 = 8;

/// A stack that was copied and unwound.
#[derive(Debug)]
pub(super) struct KnownStack {
    place: WaitPlace,
    pub(super) callers: Callers,
    /// Whether all of it is known, so that its callers identify it.
    is_whole: bool,
    /// How often it was used since it was copied.
    uses: u8,
    /// Outermost first.
    pub(super) frames: Vec<Frame>,
    /// Whether outer frames are missing.
    pub(super) is_cut: bool,
    /// Whether a frame could not be unwound.
    pub(super) has_failed: bool,
}

/// The stacks of one thread.
#[derive(Debug, Default)]
pub(super) struct KnownStacks {
    /// The place of the first stack, which is not kept: most threads wait at one place only.
    first: Option<WaitPlace>,
    /// The one that was noted last is at the end.
    all: Vec<KnownStack>,
}

impl KnownStacks {
    /// The stack of the last wait at a place, if it is kept.
    pub(super) fn find(&self, place: WaitPlace) -> Option<&KnownStack> {
        self.all.iter().find(|known| known.place == place)
    }

    /// The callers of a stack that need not be copied again if the thread has the same callers now.
    pub(super) fn reuse(&mut self, place: WaitPlace) -> Option<Callers> {
        let mut all = self.all.iter_mut();
        let known = all.find(|known| known.place == place && known.is_whole)?;
        known.uses = known.uses.saturating_add(1);
        (known.uses <= MAX_USES).then_some(known.callers)
    }

    /// Keeps a stack, in place of the one that this place had, or of the oldest one.
    pub(super) fn note(
        &mut self,
        (place, callers): (WaitPlace, Callers),
        frames: &[Frame],
        (is_cut, has_failed): (bool, bool),
    ) {
        if frames.len() > MAX_FRAMES
            || *self.first.get_or_insert(place) == place && self.all.is_empty()
        {
            return;
        }
        let same = self.all.iter().position(|known| known.place == place);
        let oldest = (self.all.len() >= MOST).then_some(0);
        let mut room = match same.or(oldest) {
            Some(index) => self.all.remove(index).frames,
            None => Vec::with_capacity(frames.len()),
        };
        room.clear();
        room.extend_from_slice(frames);
        self.all.push(KnownStack {
            place,
            callers,
            is_whole: !has_failed && callers.are_all_known() && !room.iter().any(is_unknown),
            uses: 0,
            frames: room,
            is_cut,
            has_failed,
        });
    }
}

const fn is_unknown(frame: &Frame) -> bool {
    matches!(frame, Frame::Unknown(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::native::tasks::Wait;

    fn place(pc: u64) -> WaitPlace {
        WaitPlace::Known(Wait {
            pc,
            ..Wait::default()
        })
    }

    fn at(pc: u64) -> (WaitPlace, Callers) {
        (place(pc), Callers::default())
    }

    fn stack(address: u64) -> [Frame; 2] {
        [Frame::Unknown(1), Frame::Unknown(address)]
    }

    #[test]
    fn a_place_has_the_stack_that_was_noted_last() {
        let mut known = KnownStacks::default();
        known.note(at(1), &stack(10), (false, false));
        assert!(known.find(place(1)).is_none(), "the only place");
        known.note(at(2), &stack(20), (false, false));
        known.note(at(1), &stack(10), (false, false));
        known.note(at(3), &[Frame::Unknown(1); MAX_FRAMES + 1], (false, false));
        assert!(known.find(place(3)).is_none(), "too deep");
        known.note(at(1), &stack(11), (true, false));
        let found = known.find(place(1)).unwrap();
        assert_eq!(found.frames, stack(11));
        assert!(found.is_cut && !found.has_failed);
        assert_eq!(known.find(place(2)).unwrap().frames, stack(20));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_stack_is_reused_only_if_all_of_it_is_known_and_is_copied_again_after_some_uses() {
        let frames = |number| vec![Frame::Code(crate::ids::DefinitionId::new(1), number); 4];
        let placed: Vec<_> = (0..4).rev().map(|at| (Frame::Unknown(1), at * 8)).collect();
        let whole = Callers::of((0, &[7; 8]), &placed);
        assert!(whole.are_all_known());
        let mut known = KnownStacks::default();
        known.note(at(1), &frames(1), (false, false));
        let note = |known: &mut KnownStacks, callers, frames: &[Frame], has_failed| {
            known.note((place(2), callers), frames, (false, has_failed));
            known.reuse(place(2))
        };
        assert_eq!(
            note(&mut known, Callers::default(), &frames(2), false),
            None
        );
        assert_eq!(
            note(&mut known, whole, &stack(2), false),
            None,
            "unknown frames"
        );
        assert_eq!(
            note(&mut known, whole, &frames(2), true),
            None,
            "not unwound"
        );
        assert_eq!(note(&mut known, whole, &frames(2), false), Some(whole));
        let uses = (0..100).map_while(|_| known.reuse(place(2))).count();
        assert_eq!(uses + 1, usize::from(MAX_USES));
    }

    #[test]
    fn the_stack_that_was_noted_first_makes_room() {
        let mut known = KnownStacks::default();
        known.note(at(100), &stack(100), (false, false));
        for pc in 0..MOST as u64 {
            known.note(at(pc), &stack(pc), (false, false));
        }
        known.note(at(0), &stack(0), (false, false));
        known.note(at(99), &stack(99), (false, false));
        assert!(known.find(place(1)).is_none(), "noted before the others");
        let kept = [0, 2, 3, 99];
        assert!(kept.iter().all(|pc| known.find(place(*pc)).is_some()));
        assert_eq!(known.all.len(), MOST);
    }
}
