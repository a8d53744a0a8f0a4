//! Tests of the search for a frame pointer, on code and stacks that the tests write.

use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::calls::{CodeBytes, FunctionMap};

/// The start of the code.
const CODE: u64 = 0x1000;
/// The function whose frame pointer is found. Most of the others call it.
const FUNCTION: u64 = CODE;
const DIRECT: u64 = CODE + 0x100;
const THROUGH_STUB: u64 = CODE + 0x200;
const STUB: u64 = CODE + 0x300;
const TAIL: u64 = CODE + 0x400;
const CALLS_TAIL: u64 = CODE + 0x500;
const THROUGH_REGISTER: u64 = CODE + 0x600;
const THROUGH_TABLE: u64 = CODE + 0x700;
const OTHER: u64 = CODE + 0x800;
const TABLE: u64 = CODE + 0x900;
const END: u64 = CODE + 0x1000;
const STACK: u64 = 0x7000_0000;

/// The code of a process, from [`CODE`] on.
struct FakeCode {
    bytes: Vec<u8>,
    /// The number of reads so far.
    reads: Cell<usize>,
}

impl FakeCode {
    fn new() -> Self {
        let mut code = Self::with(vec![0xcc; 0x1000]);
        // push rbp; mov rbp, rsp; push rbx; sub rsp, 0x18
        code.put(
            FUNCTION,
            &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18],
        );
        code.put_relative(DIRECT, &[0xe8], FUNCTION);
        code.put_relative(THROUGH_STUB, &[0xe8], STUB);
        code.put(STUB, &[0xf3, 0x0f, 0x1e, 0xfa]);
        code.put_relative(STUB + 4, &[0xff, 0x25], TABLE);
        code.put_relative(TAIL + 20, &[0xe9], FUNCTION);
        code.put_relative(CALLS_TAIL, &[0xe8], TAIL);
        code.put(THROUGH_REGISTER, &[0xff, 0xd3]);
        code.put_relative(THROUGH_TABLE, &[0xff, 0x15], TABLE);
        code.put_relative(OTHER, &[0xe8], OTHER);
        code.put(TABLE, &FUNCTION.to_ne_bytes());
        code
    }

    fn with(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            reads: Cell::new(0),
        }
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let at = usize::try_from(address - CODE).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_relative(&mut self, address: u64, opcode: &[u8], target: u64) {
        self.put(address, opcode);
        let next = address + opcode.len() as u64 + 4;
        let distance = i32::try_from(target.cast_signed() - next.cast_signed()).unwrap();
        self.put(next - 4, &distance.to_le_bytes());
    }
}

impl CodeBytes for FakeCode {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        assert!(self.is_code(address), "{address:#x} is in no module");
        self.reads.set(self.reads.get() + 1);
        let offset = address
            .checked_sub(CODE)
            .map(|offset| usize::try_from(offset).unwrap());
        let rest = offset
            .and_then(|offset| self.bytes.get(offset..))
            .unwrap_or_default();
        let len = rest.len().min(room.len());
        room[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl FunctionMap for FakeCode {
    fn is_code(&self, address: u64) -> bool {
        (CODE..END).contains(&address)
    }

    fn function_start(&self, address: u64) -> Option<u64> {
        self.is_code(address).then_some(address & !0xff)
    }
}

/// The words of a stack from [`STACK`] on.
struct FakeStack(Vec<u64>);

impl FakeStack {
    /// A stack of 64 words that are 0, except for return addresses at given indices.
    fn with(return_addresses: &[(usize, u64)]) -> Self {
        let mut words = vec![0; 64];
        for (index, address) in return_addresses {
            words[*index] = *address;
        }
        Self(words)
    }
}

impl StackWords for FakeStack {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(STACK)?).unwrap();
        self.0.get(offset / 8).copied()
    }

    fn is_beyond(&self, _: u64) -> bool {
        false
    }
}

/// A function that waits, whose stack begins at [`STACK`].
fn function<'a>(
    code: &'a CodeReader<'a>,
    start: u64,
    stack: &'a FakeStack,
) -> WaitingFunction<'a, FakeStack> {
    WaitingFunction {
        code,
        stack,
        start,
        pc: start + 0x40,
        sp: STACK,
        is_calling: true,
    }
}

/// The index of the word to which the frame pointer of `FUNCTION` points.
fn found(code: &FakeCode, stack: &FakeStack) -> Option<u64> {
    let reader = CodeReader::new(code, code);
    let found = function(&reader, FUNCTION, stack).frame_pointer();
    found.map(|frame_pointer| (frame_pointer - STACK) / 8)
}

/// The index of the word that holds the return address of `FUNCTION`.
const RETURN_ADDRESS: usize = 5;

#[test]
fn the_distance_to_the_stack_pointer_determines_the_frame_pointer() {
    let code = FakeCode::new();
    for return_address in [
        DIRECT + 5,
        THROUGH_STUB + 5,
        CALLS_TAIL + 5,
        THROUGH_TABLE + 6,
        THROUGH_REGISTER + 2,
    ] {
        let stack = FakeStack::with(&[(RETURN_ADDRESS, return_address), (20, DIRECT + 5)]);
        assert_eq!(
            found(&code, &stack),
            Some(RETURN_ADDRESS as u64 - 1),
            "{return_address:#x}"
        );
    }
}

#[test]
fn pushed_arguments_are_skipped() {
    let stack = FakeStack::with(&[(RETURN_ADDRESS + 2, DIRECT + 5)]);
    assert_eq!(
        found(&FakeCode::new(), &stack),
        Some(RETURN_ADDRESS as u64 + 1)
    );
}

#[test]
fn without_a_known_prologue_only_a_proven_value_is_accepted() {
    let mut code = FakeCode::new();
    code.put(FUNCTION, &[0x90; 9]);
    for return_address in [
        DIRECT + 5,
        THROUGH_STUB + 5,
        CALLS_TAIL + 5,
        THROUGH_TABLE + 6,
    ] {
        let stack = FakeStack::with(&[(9, OTHER + 5), (30, return_address)]);
        assert_eq!(found(&code, &stack), Some(29), "{return_address:#x}");
        let hidden = [(13, THROUGH_REGISTER + 2), (30, return_address)];
        assert_eq!(found(&code, &FakeStack::with(&hidden)), None);
        let twice = [(30, return_address), (40, DIRECT + 5)];
        assert_eq!(found(&code, &FakeStack::with(&twice)), None);
    }
}

#[test]
fn a_value_without_a_call_of_the_function_is_rejected() {
    let code = FakeCode::new();
    for address in [DIRECT, DIRECT + 4, OTHER + 5, TAIL + 25, CODE] {
        let stack = FakeStack::with(&[(RETURN_ADDRESS, address)]);
        assert_eq!(found(&code, &stack), None, "{address:#x}");
    }
}

#[test]
fn of_several_paddings_only_a_certain_one_is_accepted() {
    let mut code = FakeCode::new();
    // push rbp; mov rbp, rsp; and rsp, -64; sub rsp, 0x40
    code.put(
        FUNCTION,
        &[
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x83, 0xec, 0x40,
        ],
    );
    let unknown = THROUGH_REGISTER + 2;
    let known = DIRECT + 5;
    let other = OTHER + 5;
    for (first, second, expected) in [
        (unknown, 0, Some(10)),
        (known, 0, Some(10)),
        (known, other, Some(10)),
        (other, known, Some(12)),
        (unknown, other, None),
        (known, unknown, None),
        (known, known, None),
        (unknown, unknown, None),
        (other, 0, None),
    ] {
        let stack = FakeStack::with(&[(11, first), (13, second)]);
        assert_eq!(found(&code, &stack), expected, "{first:#x}, {second:#x}");
    }
}

#[test]
fn a_frame_that_may_change_later_is_found_by_its_call_only() {
    let mut code = FakeCode::new();
    code.put(FUNCTION + 0x20, &[0x48, 0x29, 0xc4]); // sub rsp, rax
    let unknown = FakeStack::with(&[(RETURN_ADDRESS, THROUGH_REGISTER + 2)]);
    assert_eq!(found(&code, &unknown), None);
    let proven = FakeStack::with(&[(RETURN_ADDRESS + 9, DIRECT + 5)]);
    assert_eq!(found(&code, &proven), Some(RETURN_ADDRESS as u64 + 8));
}

#[test]
fn a_page_fault_may_be_at_any_instruction_of_a_function() {
    let code = FakeCode::new();
    let reader = CodeReader::new(&code, &code);
    let stack = FakeStack::with(&[(RETURN_ADDRESS, THROUGH_REGISTER + 2)]);
    let function = WaitingFunction {
        is_calling: false,
        ..function(&reader, FUNCTION, &stack)
    };
    assert_eq!(function.frame_pointer(), None);
}

proptest! {
    #[test]
    fn any_code_and_stack_are_accepted(
        code in prop::collection::vec(any::<u8>(), 0x1000),
        words in prop::collection::vec(prop_oneof![CODE..END, any::<u64>()], 0..64),
        start in CODE - 9..END + 9,
    ) {
        let code = FakeCode::with(code);
        let stack = FakeStack(words);
        let reader = CodeReader::new(&code, &code);
        let found = function(&reader, start, &stack).frame_pointer();
        prop_assert!(found.is_none_or(|found| stack.word(found + 8).is_some()));
        prop_assert!(code.reads.get() <= 256, "{} reads", code.reads.get());
    }
}
