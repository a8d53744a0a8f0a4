//! Tests of the disassembly of known and of arbitrary bytes.

use proptest::prelude::*;

use super::*;
use profiler_symbols::SourceFrame;

fn code(architecture: CodeArchitecture, start: u64, size: usize, bytes: &[u8]) -> MachineCode {
    MachineCode {
        architecture,
        start,
        size,
        bytes: bytes.to_vec(),
        left_out: 0,
    }
}

fn shown(architecture: CodeArchitecture, start: u64, bytes: &[u8]) -> Vec<(usize, String)> {
    let code = code(architecture, start, bytes.len(), bytes);
    answer(&code, disassemble(&code)).instructions
}

fn rows(all: &[(usize, &str)]) -> Vec<(usize, String)> {
    all.iter()
        .map(|(at, text)| (*at, (*text).to_owned()))
        .collect()
}

#[test]
fn x86_64_is_shown_with_the_addresses_of_branches_and_data() {
    let bytes = [
        0x55, // push rbp
        0x48, 0x89, 0xe5, // mov rbp, rsp
        0x48, 0x8d, 0x05, 0x10, 0x00, 0x00, 0x00, // lea rax, [rip + 0x10]
        0xe8, 0x00, 0x01, 0x00, 0x00, // call
        0x75, 0xf9, // jne
        0x06, // no instruction with 64 bits
        0xc3, // ret
    ];
    let expected = rows(&[
        (0, "push rbp"),
        (1, "mov rbp, rsp"),
        (4, "lea rax, qword [0x101b]"),
        (11, "call 0x1110"),
        (16, "jnz 0x100b"),
        (18, ".byte 0x06"),
        (19, "ret"),
    ]);
    assert_eq!(shown(CodeArchitecture::X86_64, 0x1000, &bytes), expected);
    let decoded = disassemble(&code(CodeArchitecture::X86_64, 0x1000, 20, &bytes));
    let targets: Vec<u64> = decoded.iter().filter_map(|one| one.target).collect();
    assert_eq!(targets, [0x1110, 0x100b]);
}

/// The texts of words at the addresses from 0x1000.
fn aarch64_texts(words: &[u32]) -> Vec<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let shown = shown(CodeArchitecture::Aarch64, 0x1000, &bytes);
    shown.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn aarch64_is_shown_with_the_addresses_of_branches_and_data() {
    let words = [
        (0xa9bf_7bfd, "stp x29, x30, [sp, #-0x10]!"),
        (0x9100_03fd, "mov x29, sp"),
        (0x9400_0040, "bl #0x1108"),
        (0x54ff_ffa1, "b.ne #0x1000"),
        (0xb4ff_ff80, "cbz x0, #0x1000"),
        (0x17ff_fffb, "b #0x1000"),
        (0x3607_ff40, "tbz w0, #0x0, #0x1000"),
        (0xb000_0001, "adrp x1, #0x2000"),
        (0x5800_0082, "ldr x2, #0x1030"),
        (0xd53b_d050, "mrs x16, tpidr_el0"),
        (0xd51b_d050, "msr tpidr_el0, x16"),
        (0xd503_245f, "bti c"),
        (0xd65f_03c0, "ret"),
    ];
    let texts: Vec<&str> = words.iter().map(|(_, text)| *text).collect();
    let words = words.map(|(word, _)| word);
    assert_eq!(aarch64_texts(&words), texts);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let decoded = disassemble(&code(
        CodeArchitecture::Aarch64,
        0x1000,
        bytes.len(),
        &bytes,
    ));
    let targets: Vec<u64> = decoded.iter().filter_map(|one| one.target).collect();
    assert_eq!(targets, [0x1108, 0x1000, 0x1000, 0x1000, 0x1000]);
}

#[test]
fn reserved_and_unknown_aarch64_words_are_shown_as_numbers() {
    let reserved = 0x0200_0000;
    let of_sve = 0x04a1_3140;
    let of_sme = 0x80c0_0000;
    assert_eq!(
        aarch64_texts(&[reserved, of_sve, of_sme]),
        [".word 0x02000000", ".word 0x04a13140", ".word 0x80c00000"]
    );
}

#[test]
fn no_aarch64_word_causes_a_panic() {
    // Multiples of an odd number near the golden ratio are spread evenly over all words.
    let words: Vec<u32> = (0..1 << 19_u32)
        .map(|number: u32| number.wrapping_mul(0x9e37_79b1))
        .collect();
    assert!(aarch64_texts(&words).iter().all(|text| !text.is_empty()));
}

#[test]
fn the_last_instruction_is_shown_whole_and_left_out_bytes_are_reported() {
    let bytes = [0x90, 0x48, 0x89, 0xe5, 0xc3];
    let mut code = code(CodeArchitecture::X86_64, 0, 2, &bytes);
    code.left_out = 3;
    let answer = answer(&code, disassemble(&code));
    assert_eq!(
        answer.instructions,
        rows(&[
            (0, "nop"),
            (1, "mov rbp, rsp"),
            (2, "(3 more bytes are not shown)")
        ])
    );
    assert_eq!(
        (answer.size.as_str(), answer.start_address.as_str()),
        ("0x2", "0x0")
    );
}

/// Calls of the given addresses, each a row of its own.
fn calls(targets: impl IntoIterator<Item = u64>) -> Vec<Instruction> {
    let call = |(offset, target)| Instruction {
        offset,
        text: "call".to_owned(),
        target: Some(target),
    };
    (0..).zip(targets).map(call).collect()
}

fn named(name: &str) -> Arc<Place> {
    let frame = SourceFrame {
        function: Some(name.into()),
        file: None,
        line: 0,
    };
    Arc::new(Place {
        frames: Box::new([frame]),
        ..Place::default()
    })
}

#[test]
fn a_target_of_many_branches_takes_the_place_of_one_name() {
    let empty = code(CodeArchitecture::X86_64, 0, 0, &[]);
    let mut rows = calls(std::iter::repeat_n(1, MAX_TARGETS).chain([2, 3]));
    let resolve = |targets: &[u64]| {
        assert_eq!(targets, [1, 2, 3]);
        vec![named("one"), named("two"), named("three")]
    };
    name_targets(&mut rows, &empty, resolve);
    assert_eq!(rows.last().unwrap().text, "call <three>");
    let many = calls(0..MAX_TARGETS as u64 + 5);
    assert_eq!(other_targets(&many, &(0..0)).len(), MAX_TARGETS);
}

#[test]
fn the_sum_of_the_names_of_branches_is_bounded() {
    let empty = code(CodeArchitecture::X86_64, 0, 0, &[]);
    let mut rows = calls([1, 1, 1, 2]);
    let long = "x".repeat(MAX_NAME_BYTES / 2 - 10);
    name_targets(&mut rows, &empty, |_| vec![named(&long), named("two")]);
    let lengths: Vec<usize> = rows.iter().map(|row| row.text.len()).collect();
    let with_name = "call <>".len() + long.len();
    assert_eq!(
        lengths,
        [with_name, with_name, "call".len(), "call <two>".len()]
    );
}

proptest! {
    #[test]
    fn every_byte_belongs_to_one_row_for_any_code(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        lookahead in 0_usize..20,
        start in any::<u64>(),
    ) {
        for architecture in [CodeArchitecture::X86_64, CodeArchitecture::Aarch64] {
            let size = bytes.len().saturating_sub(lookahead);
            let decoded = disassemble(&code(architecture, start, size, &bytes));
            prop_assert_eq!(decoded.first().map(|one| one.offset), (size > 0).then_some(0));
            for pair in decoded.windows(2) {
                prop_assert!(pair[0].offset < pair[1].offset && pair[1].offset - pair[0].offset <= 15);
            }
            for one in &decoded {
                prop_assert!(one.offset < size && !one.text.is_empty());
            }
        }
    }
}
