//! Disassembles x86-64 code, in Intel's syntax.
//!
//! Used by [`super`]. Invariants: accepts any bytes; every step takes at least one byte.

use yaxpeax_arch::{AddressBase as _, LengthedInstruction as _};
use yaxpeax_x86::amd64::{InstDecoder, Opcode, Operand};
use yaxpeax_x86::long_mode::{AbsoluteAddressFormatter, Instruction as X86Instruction};

use super::{Instruction, data};
use profiler_symbols::MachineCode;

/// Decodes all instructions that begin within the requested bytes.
pub(super) fn disassemble(code: &MachineCode) -> Vec<Instruction> {
    let decoder = InstDecoder::default();
    let mut instructions = Vec::new();
    let mut offset = 0;
    while offset < code.size {
        let Some(rest) = code.bytes.get(offset..).filter(|rest| !rest.is_empty()) else {
            break;
        };
        let address = code.start.wrapping_add(offset as u64);
        let (length, text, target) = match decoder.decode_slice(rest) {
            Ok(decoded) => {
                let length = usize::try_from(0_u64.wrapping_offset(decoded.len())).unwrap_or(1);
                let text = AbsoluteAddressFormatter::new(address)
                    .display(&decoded)
                    .to_string();
                let next = address.wrapping_add(length as u64);
                (length.max(1), text, target(&decoded, next))
            }
            Err(_) => (1, data(rest.get(..1).unwrap_or_default()), None),
        };
        instructions.push(Instruction {
            offset,
            text,
            target,
        });
        offset += length;
    }
    instructions
}

/// The address that an instruction branches to; `next` is the address after it.
fn target(decoded: &X86Instruction, next: u64) -> Option<u64> {
    if !is_branch(decoded.opcode()) {
        return None;
    }
    let distance = match decoded.operand(0) {
        Operand::ImmediateI8 { imm } => i64::from(imm),
        Operand::ImmediateI32 { imm } => i64::from(imm),
        _ => return None,
    };
    Some(next.wrapping_add_signed(distance))
}

fn is_branch(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::CALL
            | Opcode::JMP
            | Opcode::JO
            | Opcode::JNO
            | Opcode::JB
            | Opcode::JNB
            | Opcode::JZ
            | Opcode::JNZ
            | Opcode::JA
            | Opcode::JNA
            | Opcode::JS
            | Opcode::JNS
            | Opcode::JP
            | Opcode::JNP
            | Opcode::JL
            | Opcode::JGE
            | Opcode::JLE
            | Opcode::JG
    )
}
