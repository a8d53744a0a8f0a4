//! Finds the frame pointer of a waiting thread's function, of which only the stack pointer is known.
//!
//! Called by `unwind`. The system reports two registers of a waiting thread, the stack pointer and
//! the next instruction. Most functions can be left with these two. A function that keeps a frame
//! pointer needs it as well, unless a function that it called has saved it on the stack.
//!
//! Two sources propose values:
//!
//! 1. The function's own first instructions determine the distance between both pointers
//!    (`prologue`).
//! 2. The words of the stack: a saved frame pointer is followed by a return address. This source
//!    proposes only values with a proof.
//!
//! A proposed value is checked by the return address that it leads to. The instruction before the
//! return address must be a call. If the target of that call can be read, directly or through a
//! table of addresses, the target must be the function, or jump to it: this is the proof. A call
//! through a register has no proof, and counts only if the first source proposes exactly one such
//! value. Without a value the stack ends here, as cut: no value is guessed.
//!
//! Invariant: any bytes of code and of the stack are accepted.

use super::prologue;
use super::unwind::StackWords;
use crate::sys::native::memory::OwnMemory;

/// The bytes of a function that are read to find its frame.
const PROLOGUE_BYTES: usize = 128;
/// The bytes of a called function that are searched for a jump.
const JUMP_BYTES: usize = 2048;
/// The maximum number of words that a caller pushes as arguments.
const MOST_ARGUMENTS: u64 = 8;
/// The maximum number of bytes between stack pointer and frame pointer that are searched.
const REACH: u64 = 64 * 1024;

/// Reads the code of the process.
pub(super) trait CodeBytes {
    /// Fills `room` with the readable bytes from `address` on; returns their number.
    fn read(&self, address: u64, room: &mut [u8]) -> usize;
}

/// Where the functions of the process are.
pub(super) trait FunctionMap {
    /// Whether an address is in a module.
    fn is_code(&self, address: u64) -> bool;
    /// The start of the function that contains an address.
    fn function_start(&self, address: u64) -> Option<u64>;
}

impl CodeBytes for OwnMemory {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        Self::read(self, address, room)
    }
}

/// A function in which a thread waits.
#[derive(Clone, Copy)]
pub(super) struct WaitingFunction<'a> {
    pub(super) code: &'a dyn CodeBytes,
    pub(super) map: &'a dyn FunctionMap,
    /// The address of its first instruction.
    pub(super) start: u64,
    /// The address at which it goes on.
    pub(super) pc: u64,
    pub(super) sp: u64,
}

/// How a return address was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// By a call of this address.
    Of(u64),
    /// By a call whose target cannot be read.
    Unknown,
}

impl WaitingFunction<'_> {
    /// Finds the frame pointer. `leave` unwinds the function with a frame pointer and returns the
    /// return address, if it is code.
    pub(super) fn frame_pointer(
        &self,
        stack: &impl StackWords,
        mut leave: impl FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut unproven = None;
        let mut is_ambiguous = false;
        for proposed in self.proposed_by_prologue() {
            let Some(call) = leave(proposed.value).and_then(|address| self.call_before(address))
            else {
                continue;
            };
            if self.is_target(call) || (proposed.is_exact && call == Call::Unknown) {
                return Some(proposed.value);
            }
            if call == Call::Unknown {
                is_ambiguous |= unproven.is_some();
                unproven = Some(proposed.value);
            }
        }
        let is_proven = |frame_pointer: &u64| {
            leave(*frame_pointer)
                .and_then(|address| self.call_before(address))
                .is_some_and(|call| self.is_target(call))
        };
        self.proposed_by_stack(stack)
            .find(is_proven)
            .or(unproven.filter(|_| !is_ambiguous))
    }

    fn proposed_by_prologue(&self) -> impl Iterator<Item = Proposed> + use<> {
        let mut bytes = [0; PROLOGUE_BYTES];
        let len = self
            .pc
            .checked_sub(self.start)
            .and_then(|len| usize::try_from(len).ok())
            .unwrap_or(0)
            .min(PROLOGUE_BYTES);
        let read = bytes
            .get_mut(..len)
            .map_or(0, |room| self.code.read(self.start, room));
        let frame = prologue::read(bytes.get(..read).unwrap_or_default());
        let sp = self.sp;
        frame.into_iter().flat_map(move |frame| {
            (0..=MOST_ARGUMENTS).flat_map(move |arguments| {
                frame
                    .frame_pointers(sp.wrapping_add(arguments * 8))
                    .map(move |value| Proposed {
                        value,
                        is_exact: frame.is_exact() && arguments == 0,
                    })
            })
        })
    }

    /// The places of the stack that are followed by an address of code.
    fn proposed_by_stack(&self, stack: &impl StackWords) -> impl Iterator<Item = u64> {
        let first = self.sp.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let last = self.sp.saturating_add(REACH);
        (first..last)
            .step_by(8)
            .take_while(|place| stack.word(*place).is_some())
            .filter(|place| {
                let address = stack.word(place + 8);
                address.is_some_and(|address| self.map.is_code(address))
            })
    }

    fn is_target(&self, call: Call) -> bool {
        let Call::Of(target) = call else { return false };
        target == self.start || self.jump_at(target) == Some(self.start) || self.ends_here(target)
    }

    /// Whether the called function ends with a jump to this one.
    fn ends_here(&self, called: u64) -> bool {
        let mut bytes = [0; JUMP_BYTES];
        let read = self.code.read(called, &mut bytes);
        let code = bytes.get(..read).unwrap_or_default();
        code.windows(5).zip(called..).any(|(window, address)| {
            let &[0xe9, a, b, c, d] = window else {
                return false;
            };
            relative(address + 5, [a, b, c, d]) == self.start
                && self.map.function_start(address) == Some(called)
        })
    }

    /// The call before a return address. `None` if the instruction before it is not a call.
    fn call_before(&self, return_address: u64) -> Option<Call> {
        const LONGEST: usize = 7;
        let mut before = [0; LONGEST];
        let start = return_address.checked_sub(LONGEST as u64)?;
        if self.code.read(start, &mut before) < LONGEST {
            return None;
        }
        match before {
            [_, _, 0xe8, distance @ ..] => Some(Call::Of(relative(return_address, distance))),
            [_, 0xff, 0x15, distance @ ..] => Some(
                self.word_at(relative(return_address, distance))
                    .map_or(Call::Unknown, Call::Of),
            ),
            // A call through a register or through memory at a register.
            [.., 0xff, 0xd0..=0xd7]
            | [.., 0xff, 0x10..=0x13 | 0x16 | 0x17]
            | [.., 0xff, 0x14, _]
            | [.., 0xff, 0x50..=0x53 | 0x55..=0x57, _]
            | [.., 0xff, 0x54, _, _]
            | [_, 0xff, 0x90..=0x93 | 0x95..=0x97, ..]
            | [0xff, 0x94, ..] => Some(Call::Unknown),
            _ => None,
        }
    }

    /// The target of the jump at an address, which may be an entry of the procedure linkage table.
    fn jump_at(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 11];
        let read = self.code.read(address, &mut bytes);
        let mut code = bytes.get(..read)?;
        let mut at = address;
        for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]] {
            if let Some(rest) = code.strip_prefix(prefix) {
                code = rest;
                at += prefix.len() as u64;
            }
        }
        let distance = code.strip_prefix(&[0xff, 0x25])?.first_chunk()?;
        self.word_at(relative(at + 6, *distance))
    }

    fn word_at(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        (self.code.read(address, &mut word) == 8).then(|| u64::from_ne_bytes(word))
    }
}

/// A proposed frame pointer.
#[derive(Clone, Copy, Debug)]
struct Proposed {
    value: u64,
    /// Whether the stack pointer determines it.
    is_exact: bool,
}

fn relative(next: u64, distance: [u8; 4]) -> u64 {
    next.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The start of the code, and of its functions: `F` waits, the others are its callers.
    const CODE: u64 = 0x1000;
    const F: u64 = CODE;
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

    /// Bytes of code.
    struct FakeCode(Vec<u8>);

    impl FakeCode {
        fn new() -> Self {
            let mut code = Self(vec![0xcc; 0x1000]);
            // push rbp; mov rbp, rsp; push rbx; sub rsp, 0x18
            code.put(F, &[0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 0x18]);
            code.put_relative(DIRECT, &[0xe8], F);
            code.put_relative(THROUGH_STUB, &[0xe8], STUB);
            code.put(STUB, &[0xf3, 0x0f, 0x1e, 0xfa]);
            code.put_relative(STUB + 4, &[0xff, 0x25], TABLE);
            code.put_relative(TAIL + 20, &[0xe9], F);
            code.put_relative(CALLS_TAIL, &[0xe8], TAIL);
            code.put(THROUGH_REGISTER, &[0xff, 0xd3]);
            code.put_relative(THROUGH_TABLE, &[0xff, 0x15], TABLE);
            code.put_relative(OTHER, &[0xe8], OTHER);
            code.put(TABLE, &F.to_ne_bytes());
            code
        }

        fn put(&mut self, address: u64, bytes: &[u8]) {
            let at = usize::try_from(address - CODE).unwrap();
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
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
            let offset = address
                .checked_sub(CODE)
                .map(|offset| usize::try_from(offset).unwrap());
            let rest = offset
                .and_then(|offset| self.0.get(offset..))
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
        /// 64 words. The return addresses and their places are given.
        fn with(return_addresses: &[(usize, u64)]) -> Self {
            let mut words = vec![0; 64];
            for (place, address) in return_addresses {
                words[*place] = *address;
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

    /// The word at which the frame pointer of a function that begins at `start` is found.
    fn found(code: &FakeCode, start: u64, stack: &FakeStack) -> Option<u64> {
        let function = WaitingFunction {
            code,
            map: code,
            start,
            pc: start + 0x40,
            sp: STACK,
        };
        let leave = |frame_pointer: u64| {
            let address = stack.word(frame_pointer.wrapping_add(8))?;
            code.is_code(address).then_some(address)
        };
        let found = function.frame_pointer(stack, leave);
        found.map(|frame_pointer| (frame_pointer - STACK) / 8)
    }

    /// The word at which `F` expects the return address, after the saved frame pointer.
    const EXACT: usize = 5;

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
            let stack = FakeStack::with(&[(EXACT, return_address), (20, DIRECT + 5)]);
            assert_eq!(
                found(&code, F, &stack),
                Some(EXACT as u64 - 1),
                "{return_address:#x}"
            );
        }
    }

    #[test]
    fn pushed_arguments_move_the_frame() {
        let stack = FakeStack::with(&[(EXACT + 2, DIRECT + 5)]);
        assert_eq!(found(&FakeCode::new(), F, &stack), Some(EXACT as u64 + 1));
    }

    #[test]
    fn without_a_readable_beginning_only_a_proven_call_counts() {
        let mut code = FakeCode::new();
        code.put(F, &[0x90; 9]);
        for return_address in [
            DIRECT + 5,
            THROUGH_STUB + 5,
            CALLS_TAIL + 5,
            THROUGH_TABLE + 6,
        ] {
            let stack = FakeStack::with(&[
                (9, OTHER + 5),
                (13, THROUGH_REGISTER + 2),
                (30, return_address),
            ]);
            assert_eq!(found(&code, F, &stack), Some(29), "{return_address:#x}");
        }
        let stack = FakeStack::with(&[(9, OTHER + 5), (13, THROUGH_REGISTER + 2)]);
        assert_eq!(found(&code, F, &stack), None, "nothing is guessed");
    }

    #[test]
    fn an_address_that_no_call_returns_to_is_no_return_address() {
        let code = FakeCode::new();
        for address in [DIRECT, DIRECT + 4, OTHER + 5, TAIL + 25, CODE] {
            let stack = FakeStack::with(&[(EXACT, address)]);
            assert_eq!(found(&code, F, &stack), None, "{address:#x}");
        }
    }

    #[test]
    fn two_values_without_a_proof_are_none() {
        let mut code = FakeCode::new();
        // push rbp; mov rbp, rsp; and rsp, -64; sub rsp, 0x40
        code.put(
            F,
            &[
                0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x83, 0xec, 0x40,
            ],
        );
        let unproven = THROUGH_REGISTER + 2;
        let one = FakeStack::with(&[(11, unproven)]);
        assert_eq!(found(&code, F, &one), Some(10));
        let two = FakeStack::with(&[(11, unproven), (13, unproven)]);
        assert_eq!(found(&code, F, &two), None);
        let proven = FakeStack::with(&[(11, unproven), (13, DIRECT + 5)]);
        assert_eq!(found(&code, F, &proven), Some(12));
    }

    proptest! {
        #[test]
        fn any_code_and_stack_are_accepted(
            code in prop::collection::vec(any::<u8>(), 0x1000),
            words in prop::collection::vec(prop_oneof![CODE..END, any::<u64>()], 0..64),
            start in CODE - 9..END + 9,
        ) {
            let code = FakeCode(code);
            if let Some(place) = found(&code, start, &FakeStack(words)) {
                prop_assert!(place < 1 << 62);
            }
        }
    }
}
