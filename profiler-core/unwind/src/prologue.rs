//! Decodes a function's first instructions, which determine the distance between its stack pointer
//! and its frame pointer.
//!
//! Called by `frame_pointer`, for x86-64. A function that keeps a frame pointer begins with
//! `push rbp; mov rbp, rsp`. It then pushes registers, may align the stack pointer, and subtracts
//! the size of its local variables. After that, its stack pointer changes only if it pushes
//! arguments for a call.
//!
//! ```text
//! frame pointer ─▶ caller's frame pointer
//!                  pushed registers, variables       unaligned
//!                  0 … alignment - 8 bytes           padding
//!                  variables                         aligned
//! stack pointer ─▶ arguments of a call, if pushed
//! ```
//!
//! The decoder knows the few instructions that compilers generate there, and stops at the first
//! other instruction. Its result may therefore be wrong, and the caller checks it.
//!
//! Invariant: any bytes are accepted.

/// The sizes of the parts of a function's frame, in bytes, without the padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FixedFrame {
    /// From the frame pointer down to the padding.
    unaligned: u64,
    /// The alignment of the stack pointer; 0 if the function does not align it.
    alignment: u64,
    /// From the padding down to the stack pointer.
    aligned: u64,
}

/// The largest alignment of a frame that is decoded: each possible padding is a value.
const MAX_ALIGNMENT: u64 = 128;

impl FixedFrame {
    /// The possible values of the frame pointer, the lowest first.
    pub(crate) fn frame_pointers(self, sp: u64) -> impl Iterator<Item = u64> {
        let top = sp.wrapping_add(self.aligned);
        let paddings = self.alignment.clamp(8, MAX_ALIGNMENT) / 8;
        let is_possible = self.alignment == 0 || top.is_multiple_of(self.alignment);
        let count = if is_possible { paddings } else { 0 };
        (0..count).map(move |word| top.wrapping_add(self.unaligned).wrapping_add(word * 8))
    }

    /// Whether the function aligns the stack pointer, so that there are several values.
    pub(crate) const fn is_aligned(self) -> bool {
        self.alignment != 0
    }

    fn grow(&mut self, bytes: u64) {
        let part = if self.alignment == 0 {
            &mut self.unaligned
        } else {
            &mut self.aligned
        };
        *part = part.saturating_add(bytes);
    }
}

/// Reads the frame of the function that begins with `code`, which ends where the function goes on.
///
/// `None` if the function does not begin by setting a frame pointer, if it may change the stack
/// pointer later, or if its alignment is larger than [`MAX_ALIGNMENT`].
pub(crate) fn read(code: &[u8]) -> Option<FixedFrame> {
    let mut reader = Reader { code };
    reader.skip(&[0xf3, 0x0f, 0x1e, 0xfa]); // endbr64
    while !reader.skip(&[0x48, 0x89, 0xe5]) && !reader.skip(&[0x48, 0x8b, 0xec]) {
        // Registers that are pushed before `mov rbp, rsp` are not below the frame pointer.
        if !reader.skip_push() && !reader.skip_move() {
            return None;
        }
    }
    let mut frame = FixedFrame::default();
    loop {
        if reader.skip_push() {
            frame.grow(8);
        } else if let Some(bytes) = reader.subtraction() {
            frame.grow(bytes);
        } else if let Some(bytes) = reader.probe_loop() {
            frame.grow(bytes);
        } else if let Some(alignment) = reader.alignment() {
            if frame.alignment != 0 || alignment > MAX_ALIGNMENT {
                return None;
            }
            frame.alignment = alignment;
        } else if !reader.skip_probe() && !reader.skip_move() {
            return (!changes_stack_pointer(reader.code)).then_some(frame);
        }
    }
}

/// Whether any bytes look like an instruction that makes room on the stack or aligns it. The bytes
/// are not decoded, so the answer may be true without such an instruction.
fn changes_stack_pointer(code: &[u8]) -> bool {
    code.windows(4).any(|bytes| match *bytes {
        [0x48, 0x81 | 0x83, 0xec | 0xe4, _] => true, // sub or and, with a constant
        [0x48, 0x83, 0xc4, 0x80..=0xff] => true,     // add of a negative constant
        [0x48 | 0x4c, 0x29, modrm, _] => modrm & 0xc7 == 0xc4, // sub of a register
        [0x48 | 0x49, 0x2b, modrm, _] => modrm & 0xf8 == 0xe0,
        [0x48, 0x8d, 0x64 | 0xa4 | 0x65, _] => true, // lea
        _ => false,
    })
}

/// The remaining instructions.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    code: &'a [u8],
}

impl Reader<'_> {
    fn skip(&mut self, bytes: &[u8]) -> bool {
        let rest = self.code.strip_prefix(bytes);
        self.code = rest.unwrap_or(self.code);
        rest.is_some()
    }

    /// Skips `count` bytes.
    fn advance(&mut self, count: usize) {
        self.code = self.code.get(count..).unwrap_or_default();
    }

    /// Skips a `push` of any register.
    fn skip_push(&mut self) -> bool {
        let len = match *self.code {
            [0x50..=0x57, ..] => 1,
            [0x41, 0x50..=0x57, ..] => 2,
            _ => return false,
        };
        self.advance(len);
        true
    }

    /// Reads `sub rsp, bytes` or `add rsp, -bytes`.
    fn subtraction(&mut self) -> Option<u64> {
        let (bytes, len) = match *self.code {
            [0x48, 0x83, 0xec, byte, ..] => (u64::try_from(byte.cast_signed()).ok()?, 4),
            [0x48, 0x81, 0xec, ref rest @ ..] => (u64::try_from(leading_i32(rest)?).ok()?, 7),
            [0x48, 0x83, 0xc4, byte @ 0x80..=0xff, ..] => {
                (u64::from(byte.cast_signed().unsigned_abs()), 4)
            }
            _ => return None,
        };
        self.advance(len);
        Some(bytes)
    }

    /// Reads `and rsp, -alignment`.
    fn alignment(&mut self) -> Option<u64> {
        let (mask, len) = match *self.code {
            [0x48, 0x83, 0xe4, byte, ..] => (i64::from(byte.cast_signed()), 4),
            [0x48, 0x81, 0xe4, ref rest @ ..] => (i64::from(leading_i32(rest)?), 7),
            _ => return None,
        };
        let alignment = u64::try_from(mask.checked_neg()?).ok()?;
        if !alignment.is_power_of_two() {
            return None;
        }
        self.advance(len);
        Some(alignment)
    }

    /// Reads the loop that probes each page of a large frame: `lea r11, [rsp - bytes]`, then
    /// `sub rsp, 4096; mov qword ptr [rsp], 0; cmp rsp, r11; jne`.
    fn probe_loop(&mut self) -> Option<u64> {
        const STEP: &[u8] = &[0x48, 0x81, 0xec, 0x00, 0x10, 0x00, 0x00];
        const TOUCH: &[u8] = &[0x48, 0xc7, 0x04, 0x24, 0x00, 0x00, 0x00, 0x00];
        const AGAIN: &[u8] = &[0x4c, 0x39, 0xdc, 0x75];
        let mut after = *self;
        if !after.skip(&[0x4c, 0x8d, 0x9c, 0x24]) {
            return None;
        }
        let bytes = u64::try_from(leading_i32(after.code)?.checked_neg()?).ok()?;
        after.advance(4);
        if !(after.skip(STEP) && after.skip(TOUCH) && after.skip(AGAIN)) {
            return None;
        }
        after.advance(1); // the distance of the jump
        *self = after;
        Some(bytes)
    }

    /// Skips a stack probe: an access to the word at the stack pointer.
    fn skip_probe(&mut self) -> bool {
        self.skip(&[0x48, 0xc7, 0x04, 0x24, 0x00, 0x00, 0x00, 0x00])
            || self.skip(&[0x48, 0x83, 0x0c, 0x24, 0x00])
    }

    /// Skips a `mov` or `xor` between two registers, which compilers generate between the pushes.
    /// The instruction must not change the stack pointer or the frame pointer.
    fn skip_move(&mut self) -> bool {
        let (prefix, rest) = match *self.code {
            [prefix @ 0x40..=0x4f, ref rest @ ..] => (prefix, rest),
            ref rest => (0x40, rest),
        };
        let [
            opcode @ (0x31 | 0x33 | 0x89 | 0x8b),
            modrm @ 0xc0..=0xff,
            ..,
        ] = *rest
        else {
            return false;
        };
        let is_target_in_reg_field = opcode & 2 != 0;
        let (target, is_extended) = if is_target_in_reg_field {
            ((modrm >> 3) & 7, prefix & 4 != 0)
        } else {
            (modrm & 7, prefix & 1 != 0)
        };
        if !is_extended && matches!(target, 4 | 5) {
            return false;
        }
        self.advance(self.code.len() - rest.len() + 2);
        true
    }
}

/// The signed number in the first four bytes.
fn leading_i32(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk().map(|word| i32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SP: u64 = 0x7fff_0000;

    fn distance(code: &[u8]) -> Option<u64> {
        read(code)?.frame_pointers(SP).next().map(|fp| fp - SP)
    }

    #[test]
    fn pushed_registers_and_variables_are_below_the_frame_pointer() {
        // push rbp; mov rbp, rsp; push r15; push r14; push rbx; sub rsp, 0x38; mov rbx, rdi; call
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 0x38, 0x48,
            0x89, 0xfb, 0xe8,
        ];
        assert_eq!(distance(&code), Some(3 * 8 + 0x38));
        assert!(!read(&code).unwrap().is_aligned());
        // endbr64; push rbp; mov rbp, rsp; sub rsp, 0x1230
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0x30, 0x12, 0, 0,
        ];
        assert_eq!(distance(&code), Some(0x1230));
    }

    #[test]
    fn a_register_move_between_the_pushes_is_skipped() {
        // push rbp; xor eax, eax; mov rbp, rsp; push r12; mov r12d, edi; push rbx; sub rsp, 16
        let code = [
            0x55, 0x31, 0xc0, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x41, 0x89, 0xfc, 0x53, 0x48, 0x83,
            0xec, 0x10, 0xc3,
        ];
        assert_eq!(distance(&code), Some(2 * 8 + 16));
        // mov rsp, rax is not skipped.
        assert_eq!(
            distance(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xc4, 0x53]),
            Some(0)
        );
    }

    #[test]
    fn each_possible_padding_is_tried() {
        // push rbp; mov rbp, rsp; push rbx; and rsp, -64; sub rsp, 0x80
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x81, 0xec, 0x80, 0, 0, 0,
        ];
        let frame = read(&code).unwrap();
        assert!(frame.is_aligned());
        let all: Vec<_> = frame.frame_pointers(SP).map(|fp| fp - SP).collect();
        assert_eq!(
            all,
            (0..8).map(|word| 0x80 + 8 + word * 8).collect::<Vec<_>>()
        );
        assert_eq!(
            frame.frame_pointers(SP + 8).count(),
            0,
            "the stack pointer is not aligned"
        );
    }

    #[test]
    fn pages_that_are_probed_are_counted() {
        // push rbp; mov rbp, rsp; sub rsp, 4096; mov qword ptr [rsp], 0; sub rsp, 16
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x48, 0xc7, 0x04, 0x24, 0, 0,
            0, 0, 0x48, 0x83, 0xec, 0x10,
        ];
        assert_eq!(distance(&code), Some(4096 + 16));
        // push rbp; mov rbp, rsp; push rbx; lea r11, [rsp - 0x10000]; the loop; sub rsp, 8
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x53, 0x4c, 0x8d, 0x9c, 0x24, 0, 0, 0xff, 0xff, 0x48, 0x81,
            0xec, 0, 0x10, 0, 0, 0x48, 0xc7, 0x04, 0x24, 0, 0, 0, 0, 0x4c, 0x39, 0xdc, 0x75, 0xec,
            0x48, 0x83, 0xec, 0x08,
        ];
        assert_eq!(distance(&code), Some(8 + 0x1_0000 + 8));
    }

    #[test]
    fn a_function_without_a_frame_pointer_has_no_frame() {
        // push rbx; sub rsp, 16; call
        assert_eq!(read(&[0x53, 0x48, 0x83, 0xec, 0x10, 0xe8]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn a_frame_whose_size_may_change_is_not_decoded() {
        let begins = [0x55, 0x48, 0x89, 0xe5, 0x53];
        let changes: [&[u8]; 8] = [
            &[0x48, 0x83, 0xe4, 0x00],                   // and rsp, 0: no alignment
            &[0x48, 0x81, 0xe4, 0x00, 0xf0, 0xff, 0xff], // and rsp, -4096
            &[0x90, 0x48, 0x83, 0xec, 0x10],             // nop; sub rsp, 16
            &[0x90, 0x48, 0x83, 0xc4, 0x80],             // nop; add rsp, -128
            &[0x90, 0x48, 0x29, 0xc4, 0x90],             // nop; sub rsp, rax
            &[0x90, 0x4c, 0x29, 0xfc, 0x90],             // nop; sub rsp, r15
            &[0x90, 0x49, 0x2b, 0xe7, 0x90],             // nop; sub rsp, r15
            &[0x90, 0x48, 0x8d, 0x64, 0x24, 0xf8],       // nop; lea rsp, [rsp - 8]
        ];
        for change in changes {
            assert_eq!(read(&[&begins, change].concat()), None, "{change:x?}");
        }
        // nop; add rsp, 8; ret: the end of the function
        let ends = [&begins[..], &[0x90, 0x48, 0x83, 0xc4, 0x08, 0xc3]].concat();
        assert_eq!(distance(&ends), Some(8));
        // add rsp, -128
        let large = [&begins[..], &[0x48, 0x83, 0xc4, 0x80]].concat();
        assert_eq!(distance(&large), Some(8 + 128));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(code: Vec<u8>, sp: u64) {
            if let Some(frame) = read(&code) {
                prop_assert!(frame.frame_pointers(sp).count() <= 16);
            }
        }

        #[test]
        fn a_frame_of_any_size_is_read(pushes in 0_u64..6, bytes in 1_u64..=127) {
            let mut code = vec![0x55, 0x48, 0x89, 0xe5];
            code.extend((0..pushes).flat_map(|number| [0x41, 0x50 + u8::try_from(number).unwrap()]));
            code.extend([0x48, 0x83, 0xec, u8::try_from(bytes).unwrap()]);
            prop_assert_eq!(distance(&code), Some(pushes * 8 + bytes));
        }
    }
}
