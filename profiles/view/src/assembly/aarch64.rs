//! Disassembles AArch64 code.
//!
//! Used by [`super`]. Invariants: accepts any bytes; every instruction has four bytes. A word that
//! is reserved, or that the decoder does not know (SVE, SME), is shown as a number.

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction as A64Instruction, Opcode, Operand};

use super::{Instruction, data};
use profiler_symbols::MachineCode;

/// Decodes all instructions that begin within the requested bytes.
pub(super) fn disassemble(code: &MachineCode) -> Vec<Instruction> {
    let requested = code.bytes.get(..code.size).unwrap_or(&code.bytes);
    let (words, rest) = requested.as_chunks::<4>();
    let mut instructions: Vec<Instruction> = (0..)
        .step_by(4)
        .zip(words)
        .map(|(offset, word)| instruction(offset, *word, code.start.wrapping_add(offset as u64)))
        .collect();
    if !rest.is_empty() {
        instructions.push(Instruction {
            offset: requested.len() - rest.len(),
            text: data(rest),
            target: None,
        });
    }
    instructions
}

fn instruction(offset: usize, bytes: [u8; 4], address: u64) -> Instruction {
    let word = u32::from_le_bytes(bytes);
    let Ok(mut decoded) = InstDecoder::default().decode(&mut U8Reader::new(&bytes)) else {
        return Instruction {
            offset,
            text: format!(".word {word:#010x}"),
            target: None,
        };
    };
    correct(&mut decoded, word);
    let target = make_absolute(&mut decoded, address).filter(|_| is_branch(decoded.opcode));
    let text = landing(word).map_or_else(|| decoded.to_string(), str::to_owned);
    Instruction {
        offset,
        text,
        target,
    }
}

/// Corrects the register of `msr`, of whose number the decoder drops the highest bit.
fn correct(decoded: &mut A64Instruction, word: u32) {
    if let [Operand::SystemReg(_), Operand::Register(_, register), ..] = &mut decoded.operands {
        *register = (word & 0x1f) as u16;
    }
}

/// Replaces the distance from the instruction, if it has one, by the address, and returns the
/// address.
fn make_absolute(decoded: &mut A64Instruction, address: u64) -> Option<u64> {
    let base = match decoded.opcode {
        Opcode::ADRP => address & !0xfff,
        _ => address,
    };
    decoded.operands.iter_mut().find_map(|operand| {
        let Operand::PCOffset(distance) = *operand else {
            return None;
        };
        let address = base.wrapping_add_signed(distance);
        *operand = Operand::Imm64(address);
        Some(address)
    })
}

fn is_branch(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::B
            | Opcode::BL
            | Opcode::Bcc(_)
            | Opcode::BCcc(_)
            | Opcode::CBZ
            | Opcode::CBNZ
            | Opcode::TBZ
            | Opcode::TBNZ
    )
}

/// The names of the instructions that mark the targets of indirect branches. The decoder shows them
/// as numbered hints.
fn landing(word: u32) -> Option<&'static str> {
    match word {
        0xd503_241f => Some("bti"),
        0xd503_245f => Some("bti c"),
        0xd503_249f => Some("bti j"),
        0xd503_24df => Some("bti jc"),
        _ => None,
    }
}
