//! Answers the viewer's requests for the assembly code of a function: `asm/v1`.
//!
//! The request is `{debugName, debugId, startAddress, size, continueUntilFunctionEnd}`; the answer
//! is `{startAddress, size, arch, syntax, instructions: [[OFFSET, TEXT]]}`. Called by
//! [`super::named`]. One module per architecture decodes the bytes. Invariants: only libraries that
//! the profile names are read, and only if the build id is that of the profile; the work and the
//! answer are bounded by the limit on the bytes of [`MachineCode`]; any bytes are accepted: those
//! that are no instruction are shown as data.

mod aarch64;
mod x86_64;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::api::hexadecimal;
use profiler_symbols::{CodeArchitecture, CodeRange, MachineCode, MachineCodeError, Place};

/// Limit on the branch targets in other functions that get a name.
const MAX_TARGETS: usize = 20_000;
/// Limit on the sum of the names that are added to branches. Later branches have only an address.
const MAX_NAME_BYTES: usize = 16 << 20;

/// The library of a request.
pub(super) trait CodeOfModule {
    /// Reads machine code.
    fn machine_code(&self, range: CodeRange) -> Result<MachineCode, MachineCodeError>;

    /// What the debug information says about addresses.
    fn resolve(&self, addresses: &[u64]) -> Vec<Arc<Place>>;
}

/// A request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AssemblyRequest {
    pub(super) debug_name: String,
    pub(super) debug_id: String,
    /// The first address, relative to the library.
    #[serde(deserialize_with = "hexadecimal")]
    start_address: u64,
    /// The number of bytes.
    #[serde(deserialize_with = "hexadecimal")]
    size: u64,
    /// Whether the function may be longer than `size`.
    #[serde(default)]
    continue_until_function_end: bool,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AssemblyAnswer {
    start_address: String,
    size: String,
    arch: &'static str,
    /// The syntaxes of the texts of an instruction.
    syntax: [&'static str; 1],
    /// Distance from the start, and text.
    instructions: Vec<(usize, String)>,
}

/// The reason why there is no assembly code. The viewer shows the text to the user.
#[derive(Debug, thiserror::Error)]
pub(super) enum AssemblyError {
    /// The profile has no such library.
    #[error("the profile has no library {name} with the id {id}")]
    NoSuchLibrary {
        /// The requested name.
        name: String,
        /// The requested id.
        id: String,
    },
    /// The machine code cannot be read.
    #[error(transparent)]
    Code(#[from] MachineCodeError),
}

/// A decoded instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Distance from the first byte.
    pub(super) offset: usize,
    /// The text.
    pub(super) text: String,
    /// The address that it branches to, if that is fixed.
    pub(super) target: Option<u64>,
}

/// Disassembles a part of a library.
pub(super) fn assembly(
    request: &AssemblyRequest,
    module: &impl CodeOfModule,
) -> Result<AssemblyAnswer, AssemblyError> {
    let start = request.start_address;
    let mut size = request.size;
    if request.continue_until_function_end {
        let places = module.resolve(&[start]);
        let function = places.first().and_then(|place| place.function);
        let end = function.map_or(0, |function| function.start.saturating_add(function.size));
        size = size.max(end.saturating_sub(start));
    }
    let code = module.machine_code(CodeRange { start, size })?;
    let mut instructions = disassemble(&code);
    name_targets(&mut instructions, &code, |targets| module.resolve(targets));
    Ok(answer(&code, instructions))
}

/// Disassembles machine code without names. Public for the fuzzer, which checks that no bytes cause
/// a panic.
#[doc(hidden)]
pub fn disassembled(code: &MachineCode) -> Vec<(usize, String)> {
    answer(code, disassemble(code)).instructions
}

/// Decodes all instructions that begin within the requested bytes.
fn disassemble(code: &MachineCode) -> Vec<Instruction> {
    match code.architecture {
        CodeArchitecture::X86_64 => x86_64::disassemble(code),
        CodeArchitecture::Aarch64 => aarch64::disassemble(code),
    }
}

fn answer(code: &MachineCode, instructions: Vec<Instruction>) -> AssemblyAnswer {
    let (arch, syntax) = match code.architecture {
        CodeArchitecture::X86_64 => ("x86_64", "Intel"),
        CodeArchitecture::Aarch64 => ("aarch64", "ARM"),
    };
    let mut rows: Vec<(usize, String)> = instructions
        .into_iter()
        .map(|instruction| (instruction.offset, instruction.text))
        .collect();
    if code.left_out > 0 {
        let note = format!("({} more bytes are not shown)", code.left_out);
        rows.push((code.size, note));
    }
    AssemblyAnswer {
        start_address: format!("{:#x}", code.start),
        size: format!("{:#x}", code.size),
        arch,
        syntax: [syntax],
        instructions: rows,
    }
}

/// Adds the names of other functions to the branches that lead to them.
fn name_targets(
    instructions: &mut [Instruction],
    code: &MachineCode,
    resolve: impl FnOnce(&[u64]) -> Vec<Arc<Place>>,
) {
    let targets = other_targets(instructions, &own_addresses(code));
    let places: BTreeMap<u64, Arc<Place>> =
        targets.iter().copied().zip(resolve(&targets)).collect();
    let mut left = MAX_NAME_BYTES;
    for Instruction { text, target, .. } in instructions {
        let name = target.and_then(|target| name_at(target, places.get(&target)?));
        let Some((name, rest)) = name.and_then(|name| {
            let rest = left.checked_sub(name.len())?;
            Some((name, rest))
        }) else {
            continue;
        };
        left = rest;
        text.push(' ');
        text.push_str(&name);
    }
}

/// The first targets outside of the shown code, each of them once.
fn other_targets(instructions: &[Instruction], own: &Range<u64>) -> Vec<u64> {
    let mut seen = BTreeSet::new();
    instructions
        .iter()
        .filter_map(|instruction| instruction.target)
        .filter(|target| !own.contains(target) && seen.insert(*target))
        .take(MAX_TARGETS)
        .collect()
}

fn own_addresses(code: &MachineCode) -> Range<u64> {
    let shown = u64::try_from(code.size).unwrap_or(u64::MAX);
    code.start..code.start.saturating_add(shown)
}

/// `<function>`, or `<function+0x1f>` within a function.
fn name_at(address: u64, place: &Place) -> Option<String> {
    let name = place.outer()?.function.as_deref()?;
    let inside = place
        .function
        .map_or(0, |function| address.saturating_sub(function.start));
    Some(match inside {
        0 => format!("<{name}>"),
        _ => format!("<{name}+{inside:#x}>"),
    })
}

/// Shows bytes that are no instruction.
fn data(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
    format!(".byte {}", bytes.join(", "))
}

#[cfg(test)]
mod tests;
