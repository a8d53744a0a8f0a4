//! Disassembles AArch64 code.
//!
//! Used by [`super`]. Invariants: accepts any bytes; every instruction has four bytes. A word that
//! the decoder does not know, or whose operands it cannot show, is shown as a number.

use disarm64::{InsnDisplay as _, InsnOpcode as _, decoder};

use super::{Instruction, data};
use crate::symbols::MachineCode;

/// Decodes all instructions that begin within the requested bytes.
pub(super) fn disassemble(code: &MachineCode) -> Vec<Instruction> {
    let requested = code.bytes.get(..code.size).unwrap_or(&code.bytes);
    let (words, rest) = requested.as_chunks::<4>();
    let mut instructions: Vec<Instruction> = (0..)
        .step_by(4)
        .zip(words)
        .map(|(offset, word)| {
            let address = code.start.wrapping_add(offset as u64);
            let word = u32::from_le_bytes(*word);
            Instruction {
                offset,
                text: text(word, address),
                target: target(word, address),
            }
        })
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

fn text(word: u32, address: u64) -> String {
    // The decoder panics at some reserved words.
    let decoded = std::panic::catch_unwind(|| decoded_text(word, address));
    let decoded = decoded.ok().flatten();
    decoded.unwrap_or_else(|| format!(".inst {word:#010x}"))
}

fn decoded_text(word: u32, address: u64) -> Option<String> {
    let decoded = decoder::decode(word)?;
    // The decoder separates the operands by tabs.
    let text = decoded.display_at(address).to_string();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // It shows an operand for which it has no text as `<unknown>` or `<undefined>`.
    if text.contains('<') {
        let name = decoded.definition().mnemonic;
        return Some(format!(".inst {word:#010x} ({name})"));
    }
    Some(text)
}

/// The address that an instruction branches to: `b`, `bl`, `b.cond`, `cbz`, `cbnz`.
fn target(word: u32, address: u64) -> Option<u64> {
    let distance = if word & 0x7c00_0000 == 0x1400_0000 {
        signed(word, 26)
    } else if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        signed(word >> 5, 19)
    } else {
        return None;
    };
    Some(address.wrapping_add_signed(distance * 4))
}

/// The lowest `bits` bits as a signed number.
fn signed(word: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((word << unused).cast_signed() >> unused)
}
