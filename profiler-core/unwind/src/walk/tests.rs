//! Tests of unwinding through generated code.

use super::*;
use crate::calls::CodeBytes;
use crate::generated_code::{GeneratedRanges, KnownEpilogues};
use crate::stack_words::CopiedStack;

/// Two functions that are about to return, each in another way.
const TRAMPOLINE: u64 = 0x1000;
const WITH_FRAME: u64 = 0x1010;

struct TwoEpilogues;

impl CodeBytes for TwoEpilogues {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        let code: [u8; 5] = match address {
            TRAMPOLINE => [0x48, 0x83, 0xc4, 0x08, 0xc3],
            WITH_FRAME => [0x5d, 0xc3, 0xcc, 0xcc, 0xcc],
            _ => [0xcc; 5],
        };
        let len = room.len().min(code.len());
        room[..len].copy_from_slice(&code[..len]);
        len
    }
}

/// Walks the stack of a thread in the trampoline, whose stack has these words at 0x7000.
fn walk_from_trampoline(
    words: &[u64],
    (sp, fp): (u64, u64),
    is_generated: bool,
) -> (Walked, [(u64, u64); 4]) {
    let snapshot = ModuleSnapshot::new(Vec::new(), (0, 0));
    let ranges = GeneratedRanges::of(vec![(0x1000, 0x2000)]);
    let known = KnownEpilogues::new();
    let generated = GeneratedCode {
        ranges: &ranges,
        known: &known,
        code: &TwoEpilogues,
    };
    let copied = CopiedStack {
        start: 0x7000,
        words,
        is_cut: false,
    };
    let (pc, lr) = (TRAMPOLINE, 0);
    let stack = StackToWalk {
        registers: Registers { pc, sp, fp, lr },
        words: &copied,
        code: None,
        generated: is_generated.then_some(generated),
    };
    let mut frames = [(0, 0); 4];
    let walked = walk(
        &snapshot,
        &mut UnwindCache::new(),
        stack,
        &mut frames,
        |frame| (frame.address, frame.sp),
    );
    (walked, frames)
}

#[test]
fn generated_functions_without_a_frame_pointer_are_unwound_by_their_epilogues() {
    // The word that the trampoline skips, its return address, the saved frame pointer, and the
    // end of the stack.
    let words = [7, WITH_FRAME, 0x7100, 0];
    let pointers = (0x7000, UNKNOWN_FRAME_POINTER);
    let (walked, frames) = walk_from_trampoline(&words, pointers, true);
    assert_eq!((walked.len, walked.cut, walked.failed), (2, false, false));
    let outermost_first = [(WITH_FRAME, 0x7010), (TRAMPOLINE, 0x7000)];
    assert_eq!(frames[2..], outermost_first);
    let (walked, _) = walk_from_trampoline(&words, pointers, false);
    assert!(walked.failed, "the frame pointer is not known");
}

#[test]
fn an_epilogue_whose_words_are_not_on_the_stack_ends_the_walk() {
    for sp in [0x7000, u64::MAX - 7, u64::MAX - 15] {
        let (walked, _) = walk_from_trampoline(&[7], (sp, 0), true);
        assert_eq!((walked.len, walked.failed), (1, true), "{sp:#x}");
    }
}

/// On aarch64 the caller is in the link register, which the system does not report.
#[test]
fn a_waiting_thread_with_one_frame_is_marked_as_cut_where_callers_are_in_a_register() {
    let with_frames = |len| Walked {
        len,
        ..Walked::default()
    };
    assert_eq!(
        has_lost_link(&with_frames(1)),
        cfg!(target_arch = "aarch64")
    );
    assert!(!has_lost_link(&with_frames(2)));
}
