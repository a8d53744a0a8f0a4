//! Tests of functions without unwinding tables, on code and stacks that the tests write.

use std::sync::Arc;

use proptest::prelude::*;

use crate::calls::{CodeBytes, CodeReader};
use crate::elf::{CodeRange, Image};
use crate::registers::Registers;
use crate::snapshot::{ModuleSnapshot, PlacedModule};
use crate::stack_words::CopiedStack;
use crate::walk::{StackToWalk, UnwindCache, walk};

/// One file: a page that is not executable, then code without tables.
const FILE: u64 = 0x10_0000;
const CODE: u64 = FILE + 0x1000;
const END: u64 = FILE + 0x4000;
/// The function in which the thread is, and functions that call it: directly, and through a
/// register.
const LEAF: u64 = CODE + 0x100;
const CALLER: u64 = CODE + 0x800;
const BY_REGISTER: u64 = CODE + 0x900;
/// Calls a function that is far away.
const CALLS_OTHER: u64 = CODE + 0xa00;
const STACK: u64 = 0x7000_0000;

struct FakeCode(Vec<u8>);

impl FakeCode {
    fn new() -> Self {
        let mut code = Self(vec![0x90; usize::try_from(END - FILE).unwrap()]);
        code.put(CALLER, &call(CALLER, LEAF));
        code.put(BY_REGISTER, &[0xff, 0xd0]);
        code.put(CALLS_OTHER, &call(CALLS_OTHER, CALLS_OTHER + 0x1000));
        code
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = usize::try_from(address - FILE).unwrap();
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn call(at: u64, target: u64) -> [u8; 5] {
    let distance = i32::try_from(target.cast_signed() - at.cast_signed() - 5).unwrap();
    let [a, b, c, d] = distance.to_le_bytes();
    [0xe8, a, b, c, d]
}

impl CodeBytes for FakeCode {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        let start = address
            .checked_sub(FILE)
            .and_then(|start| usize::try_from(start).ok());
        let bytes = start
            .and_then(|start| self.0.get(start..))
            .unwrap_or_default();
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        len
    }
}

/// The frames, innermost first, and whether the stack is marked as incomplete.
fn frames(code: &FakeCode, (pc, sp, fp): (u64, u64, u64), words: &[u64]) -> (Vec<u64>, bool) {
    let image = Image {
        bias: 0,
        addresses: FILE..END,
        build_id: Vec::new(),
        code: Arc::new([CodeRange {
            addresses: CODE..END,
            offset: 0,
        }]),
        tables: None,
    };
    let placed = PlacedModule {
        start: FILE,
        end: END,
        bias: 0,
        number: None,
        code: Arc::clone(&image.code),
        functions: None,
    };
    let snapshot = ModuleSnapshot::new(vec![(placed, &image)], (0, 0));
    let reader = CodeReader::new(code, &snapshot);
    let copied = CopiedStack {
        start: STACK,
        words,
        is_cut: false,
    };
    let stack = StackToWalk {
        registers: Registers { pc, sp, fp, lr: 0 },
        words: &copied,
        code: Some(&reader),
        generated: None,
    };
    let mut room = [0; 16];
    let walked = walk(
        &snapshot,
        &mut UnwindCache::new(),
        stack,
        &mut room,
        |frame| frame.address,
    );
    let found = room[room.len() - walked.len..].iter().rev();
    (found.copied().collect(), walked.cut || walked.failed)
}

#[test]
fn code_without_tables_is_unwound_with_frame_records_up_to_a_null_frame_pointer() {
    let words = [7, STACK + 0x20, CALLER + 5, 7, 0, BY_REGISTER + 2];
    let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 8), &words);
    assert_eq!(found, [LEAF + 9, CALLER + 5, BY_REGISTER + 2]);
    assert!(!is_cut);
}

#[test]
fn a_register_that_assembly_uses_for_a_null_does_not_end_the_stack() {
    let words = [CALLER + 5, 7, 7, 7, 7, 7];
    let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, 0), &words);
    assert_eq!(found, [LEAF + 9, CALLER + 5]);
    assert!(is_cut, "the caller of the caller is not known");
}

#[test]
fn a_register_that_assembly_uses_for_the_address_of_zeros_does_not_end_the_stack() {
    let words = [CALLER + 5, 7, 7, 0, 0, 0];
    let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 0x18), &words);
    assert_eq!(found, [LEAF + 9, CALLER + 5]);
    assert!(is_cut, "the caller of the caller is not known");
}

#[test]
fn a_null_that_the_innermost_function_has_pushed_does_not_end_the_stack() {
    let mut code = FakeCode::new();
    code.put(LEAF, &[0x55, 0x48, 0x89, 0xe5]);
    let (found, is_cut) = frames(&code, (LEAF + 1, STACK, 0x1234), &[0, CALLER + 5, 7, 7]);
    assert_eq!(found, [LEAF + 1, CALLER + 5]);
    assert!(is_cut, "the caller of the caller is not known");
}

/// The stack of a new program with two arguments and two variables of its environment.
fn initial_stack() -> Vec<u64> {
    let texts = [
        2,
        STACK + 0x100,
        STACK + 0x108,
        0,
        STACK + 0x110,
        STACK + 0x118,
        0,
    ];
    let pairs = [33, STACK + 0x1000, 6, 4096, 0, 0];
    [&texts[..], &pairs].concat()
}

#[test]
fn the_first_function_of_a_program_ends_the_stack() {
    for pushed in [0, 1, 3] {
        let words = [&[CALLER + 5][..], &vec![7; pushed], &initial_stack()].concat();
        let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, 0), &words);
        assert_eq!(found, [LEAF + 9, CALLER + 5]);
        assert!(!is_cut, "{pushed}");
    }
}

#[test]
fn words_that_only_resemble_the_arguments_of_a_program_do_not_end_the_stack() {
    // A number, an address of the stack, and nulls: every large frame has such words.
    let without_vector = [1, STACK + 0x100, 0, 0, 7, 0, 0];
    let mut other_pages = initial_stack();
    other_pages[10] += 1;
    for words in [&without_vector[..], &other_pages] {
        let words = [&[CALLER + 5][..], words].concat();
        let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, 0), &words);
        assert_eq!(found, [LEAF + 9, CALLER + 5]);
        assert!(is_cut, "{words:x?}");
    }
}

#[test]
fn a_value_that_is_behind_no_call_is_no_frame() {
    let cases = [LEAF, CALLER, CALLER + 4, FILE + 0x100, 0x1133, STACK + 0x18];
    for value in cases {
        let words = [7, STACK + 0x20, value, 7, 0, 0];
        let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 8), &words);
        assert_eq!(found, [LEAF + 9], "{value:#x}");
        assert!(is_cut, "{value:#x}");
        let words = [7, STACK + 0x20, CALLER + 5, 7, STACK + 0x30, value, 0, 0];
        let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 8), &words);
        assert_eq!(found, [LEAF + 9, CALLER + 5], "{value:#x}");
        assert!(is_cut, "{value:#x}");
    }
}

#[test]
fn a_frame_pointer_that_points_back_or_nowhere_ends_the_stack_as_cut() {
    for pointer in [STACK - 8, STACK + 4, STACK + 0x1000, 1] {
        let words = [7, STACK + 0x20, CALLER + 5, 7, pointer, CALLER + 5];
        let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 8), &words);
        assert_eq!(found.len(), 3, "{pointer:#x}");
        assert!(is_cut, "{pointer:#x}");
    }
}

#[test]
fn a_leaf_without_a_frame_returns_to_the_word_at_the_stack_pointer() {
    let code = FakeCode::new();
    // The frame pointer is that of the caller, whose own caller calls another function.
    let words = [CALLER + 5, 7, 0, CALLS_OTHER + 5];
    let (found, is_cut) = frames(&code, (LEAF + 9, STACK, STACK + 16), &words);
    assert_eq!(found, [LEAF + 9, CALLER + 5, CALLS_OTHER + 5]);
    assert!(!is_cut);
    // It is called through a register, and the frame pointer is used for another purpose.
    let words = [BY_REGISTER + 2, 7, 0, 0];
    let (found, is_cut) = frames(&code, (LEAF + 9, STACK, 0x1234), &words);
    assert_eq!(found, [LEAF + 9, BY_REGISTER + 2]);
    assert!(is_cut);
}

#[test]
fn the_first_and_the_last_instructions_of_a_function_have_no_complete_record() {
    let mut code = FakeCode::new();
    code.put(LEAF, &[0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3]);
    let caller = STACK + 0x20;
    let whole = [7, 7, 7, 7, 0, BY_REGISTER + 2];
    for (offset, pushed) in [(0, 0), (1, 1), (5, 1), (6, 0)] {
        let mut words = whole;
        words[0] = caller;
        words[pushed] = CALLER + 5;
        // At the last two instructions, the register still or again has the caller's value.
        let fp = if offset == 5 { STACK } else { caller };
        let (found, is_cut) = frames(&code, (LEAF + offset, STACK, fp), &words);
        assert_eq!(
            found,
            [LEAF + offset, CALLER + 5, BY_REGISTER + 2],
            "{offset}"
        );
        assert!(!is_cut, "{offset}");
    }
}

#[test]
fn the_function_that_ends_a_thread_is_called_by_nothing() {
    let words = [7, 0, CALLS_OTHER + 1];
    let (found, is_cut) = frames(&FakeCode::new(), (LEAF + 9, STACK, STACK + 8), &words);
    assert_eq!((found, is_cut), (vec![LEAF + 9, CALLS_OTHER + 1], false));
}

proptest! {
    #[test]
    fn every_frame_of_any_stack_is_behind_a_call(
        words in prop::collection::vec(prop_oneof![FILE..END, STACK..STACK + 0x200, Just(0)], 0..64),
        code in prop::collection::vec(any::<u8>(), 0x4000),
        fp in STACK..STACK + 0x200,
    ) {
        let code = FakeCode(code);
        let (found, _) = frames(&code, (LEAF, STACK, fp & !7), &words);
        for address in found.iter().skip(1) {
            let mut before = [0; 8];
            code.read(address - 8, &mut before);
            let is_call = crate::return_address::call(before, *address, |_| true).is_some();
            prop_assert!(is_call || Some(address) == found.last(), "{address:#x}");
        }
    }
}
