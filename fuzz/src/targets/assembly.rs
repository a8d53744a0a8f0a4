//! Fuzzes the assembly view: the search for machine code in an executable file, and the
//! disassembly of any bytes on both architectures. The rows are in order, and each has a text.
//!
//! The first eight bytes of the input are an address, the rest is the file, and also the code.

use profiler_symbols::{CodeArchitecture, CodeRange, MachineCode, code_of_image};
use profiler_view::disassembled;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Some((address, bytes)) = data.split_first_chunk::<8>() else {
        return;
    };
    let start = u64::from_le_bytes(*address);
    for start in [start, 0x1000, 0x401000] {
        let size = 4096;
        if let Ok(code) = code_of_image(bytes.to_vec(), CodeRange { start, size }) {
            check(&code);
        }
    }
    for architecture in [CodeArchitecture::X86_64, CodeArchitecture::Aarch64] {
        check(&MachineCode {
            architecture,
            start,
            size: bytes.len().saturating_sub(15),
            bytes: bytes.to_vec(),
            left_out: 0,
        });
    }
}

fn check(code: &MachineCode) {
    let rows = disassembled(code);
    assert!(rows.is_sorted_by(|(one, _), (other, _)| one < other));
    assert!(rows.iter().all(|(_, text)| !text.is_empty()));
    assert_eq!(rows.is_empty(), code.size == 0);
}
