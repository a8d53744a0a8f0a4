//! Tests of hostile files: the reader does not panic, hang or overflow.

use std::process::Command;
use std::sync::OnceLock;

use profiler_symbols::{ModuleKey, Problem, SymbolOptions, Symbols, Wanted, resolve_image};
use proptest::prelude::*;

use super::build::{self, run};

/// The bytes of a small program with debug information, and the addresses of its marks.
fn small() -> &'static (Vec<u8>, Vec<u64>) {
    static SMALL: OnceLock<(Vec<u8>, Vec<u64>)> = OnceLock::new();
    SMALL.get_or_init(|| {
        let built = build::c(&["-g", "-nostdlib", "-Wl,-e,main", "-static"]);
        (
            std::fs::read(&built.program).unwrap(),
            built.marks().into_values().collect(),
        )
    })
}

/// Disassembles the code at each address. Returns whether there was code at all of them.
fn disassemble_image(image: &[u8], addresses: &[u64]) -> bool {
    use profiler_symbols::{CodeRange, code_of_image};
    let disassemble = |start: &u64| {
        let range = CodeRange {
            start: *start,
            size: 4096,
        };
        let code = code_of_image(image.to_vec(), range);
        code.is_ok_and(|code| !profiler_view::disassembled(&code).is_empty())
    };
    addresses.iter().filter(|start| disassemble(start)).count() == addresses.len()
}

#[test]
fn the_image_that_is_mutated_has_names() {
    let (bytes, addresses) = small();
    assert!(disassemble_image(bytes, addresses));
    assert!(
        resolve_image(bytes.clone(), addresses)
            .iter()
            .all(|place| place.is_named())
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_mutated_program_never_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let (bytes, addresses) = small();
        let mut bytes = bytes.clone();
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        disassemble_image(&bytes, addresses);
        resolve_image(bytes, addresses);
    }

    #[test]
    fn any_bytes_and_addresses_never_panic(bytes: Vec<u8>, addresses: Vec<u64>) {
        let elf = [b"\x7fELF\x02\x01\x01", bytes.as_slice()].concat();
        disassemble_image(&elf, &addresses);
        resolve_image(elf, &addresses);
        resolve_image(bytes, &addresses);
    }

    #[test]
    fn any_address_is_resolved_without_harm(address: u64) {
        let (bytes, _) = small();
        resolve_image(bytes.clone(), &[address, 0, u64::MAX]);
    }
}

/// A program with handwritten debug information: a unit with 64 bytes of code and `entries`.
fn by_hand(entries: &str) -> build::Built {
    by_hand_of(64, entries)
}

/// The same program with `code` bytes of code.
fn by_hand_of(code: usize, entries: &str) -> build::Built {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.s");
    let text = format!(
        r#"
        .text
        .globl main
        .type main, %function
main:   .rept {code}
        nop
        .endr
        .size main, . - main
        .section .debug_abbrev,"",%progbits
        .byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0
        .byte 2, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 8, 0, 0
        .byte 3, 0x1d, 1, 0x11, 1, 0x12, 7, 0, 0
        .byte 4, 0x1d, 1, 0, 0
        .byte 5, 0x2e, 1, 0x55, 0x17, 0, 0
        .byte 6, 0x2e, 1, 0x11, 1, 0x12, 7, 3, 0xa1, 0x3e, 0, 0
        .byte 7, 0x1d, 0, 0x11, 1, 0x12, 7, 0x31, 0xa0, 0x3e, 0, 0
        .byte 8, 0x1d, 0, 0x11, 1, 0x12, 7, 0x31, 0x13, 0, 0
        .byte 0
        .section .debug_info,"",%progbits
        .long 9f - 8f
8:      .short 4
        .long 0
        .byte 8
        .byte 1
        .quad main, {code}
        {entries}
9:
        "#
    );
    std::fs::write(&source, text).unwrap();
    let program = folder.path().join("program");
    run(Command::new("cc")
        .args([
            "-no-pie",
            "-nostdlib",
            "-Wl,--build-id",
            "-Wl,-e,main",
            "-o",
        ])
        .arg(&program)
        .arg(&source));
    build::Built { folder, program }
}

/// Resolves an address in the first instructions of `main`.
fn resolve_main(built: &build::Built) -> (build::Seen, Symbols) {
    let bytes = std::fs::read(&built.program).unwrap();
    let main = object::Object::symbol_by_name(&object::File::parse(&*bytes).unwrap(), "main")
        .map(|symbol| object::ObjectSymbol::address(&symbol))
        .unwrap();
    let mut symbols = built.symbols();
    let id = built.build_id();
    let place = symbols.resolve(
        ModuleKey {
            path: built.path(),
            build_id: &id,
        },
        &[main + 3],
    );
    (build::seen(&place[0]), symbols)
}

const FUNCTION: &str = ".byte 2\n.quad main, 64\n.asciz \"name\"\n";

#[test]
fn handwritten_debug_information_is_read() {
    let (seen, _) = resolve_main(&by_hand(&format!(
        "{FUNCTION}.byte 3\n.quad main, 8\n.byte 0, 0, 0"
    )));
    assert_eq!(
        seen,
        [
            (String::new(), String::new(), 0),
            ("name".to_owned(), String::new(), 0)
        ]
    );
}

/// A file that several debug files share: a text, and an entry with a name.
const SHARED: &str = r#"
        .section .debug_str,"",%progbits
        .asciz "outside"
        .section .debug_abbrev,"",%progbits
        .byte 1, 0x3c, 1, 0, 0
        .byte 2, 0x2e, 0, 3, 8, 0, 0
        .byte 0
        .section .debug_info,"",%progbits
        .long 9f - 8f
8:      .short 4
        .long 0
        .byte 8
        .byte 1
        .byte 2
        .asciz "within"
        .byte 0
9:
"#;

#[test]
fn names_in_a_shared_debug_file_are_found_if_it_has_the_right_build_id() {
    let built = by_hand(
        ".byte 6\n.quad main, 64\n.long 0\n.byte 7\n.quad main, 8\n.long 12\n.byte 0, 0\n\
         .pushsection .gnu_debugaltlink,\"\",%progbits\n.asciz \"shared\"\n.byte 1, 2, 3\n.popsection",
    );
    let source = built.folder.path().join("shared.s");
    std::fs::write(&source, SHARED).unwrap();
    let build = |id: &str| {
        let id = format!("-Wl,--build-id={id}");
        run(Command::new("cc")
            .args(["-shared", "-nostdlib", &id, "-o", "shared"])
            .arg(&source)
            .current_dir(&built.folder));
    };
    let names = || {
        resolve_main(&built)
            .0
            .into_iter()
            .map(|(name, ..)| name)
            .collect::<Vec<_>>()
    };
    build("0x010203");
    assert_eq!(names(), ["within", "outside"]);
    build("0x010204");
    assert_eq!(
        names(),
        ["", "main"],
        "the outer name comes from the symbol table"
    );
}

#[test]
fn the_first_of_two_inlined_functions_with_the_same_code_is_used() {
    let inlined = ".byte 3\n.quad main, 8\n.byte 0\n";
    let (seen, _) = resolve_main(&by_hand(&format!("{FUNCTION}{inlined}{inlined}.byte 0, 0")));
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn a_million_functions_inlined_into_each_other_do_not_overflow_the_stack() {
    let (seen, _) = resolve_main(&by_hand(&format!(
        "{FUNCTION}.rept 1000000\n.byte 4\n.endr"
    )));
    assert_eq!(seen.last().unwrap().0, "name");
    let (seen, _) = resolve_main(&by_hand(&format!(
        "{FUNCTION}.rept 100000\n.byte 3\n.quad main, 64\n.endr"
    )));
    assert!(
        seen.len() <= 257 && seen.last().unwrap().0 == "name",
        "{}",
        seen.len()
    );
}

#[test]
fn the_number_of_inlined_functions_of_all_addresses_is_bounded() {
    const CODE: usize = 4096;
    let function = format!(".byte 2\n.quad main, {CODE}\n.asciz \"name\"\n");
    let built = by_hand_of(
        CODE,
        &format!("{function}.rept 300\n.byte 3\n.quad main, {CODE}\n.endr"),
    );
    let bytes = std::fs::read(&built.program).unwrap();
    let main = object::Object::symbol_by_name(&object::File::parse(&*bytes).unwrap(), "main")
        .map(|symbol| object::ObjectSymbol::address(&symbol))
        .unwrap();
    let addresses: Vec<u64> = (main..main + CODE as u64).collect();
    let mut symbols = built.symbols();
    let id = built.build_id();
    let places = symbols.resolve(
        ModuleKey {
            path: built.path(),
            build_id: &id,
        },
        &addresses,
    );
    let frames: usize = places.iter().map(|place| place.frames.len()).sum();
    assert!(frames <= (1 << 16) + 10 * CODE, "{frames}");
    assert!(
        places
            .iter()
            .all(|place| place.outer().unwrap().function.as_deref() == Some("name"))
    );
    let problems = &symbols.reports()[0].problems;
    assert!(
        problems.iter().any(
            |problem| problem.is_refusal() && problem.to_string().contains("inlined functions")
        ),
        "{problems:?}"
    );
}

#[test]
fn a_long_list_that_many_entries_refer_to_is_read_within_a_limit() {
    let ranges = ".rept 200000\n.quad 1, 2\n.endr\n.quad 0, 0";
    let functions = ".rept 200000\n.byte 5\n.long 0\n.byte 0\n.endr";
    let (seen, symbols) = resolve_main(&by_hand(&format!(
        "{functions}\n.section .debug_ranges,\"\",%progbits\n{ranges}\n.section .debug_info"
    )));
    assert_eq!(
        seen,
        [("main".to_owned(), String::new(), 0)],
        "the name comes from the symbol table"
    );
    let problems = &symbols.reports()[0].problems;
    assert!(
        problems
            .iter()
            .any(|problem| problem.to_string().contains("more debug information")),
        "{problems:?}"
    );
}

#[test]
fn files_above_the_limit_of_the_sum_are_not_read_and_this_is_reported() {
    let program = std::env::current_exe().unwrap();
    let path = program.to_str().unwrap();
    let ids: Vec<[u8; 1]> = (1..50).map(|id| [id]).collect();
    let wanted: Vec<Wanted<'_>> = ids
        .iter()
        .map(|id| Wanted {
            module: ModuleKey { path, build_id: id },
            addresses: vec![0x1000],
        })
        .collect();
    let mut symbols = Symbols::new(SymbolOptions::default().sum_limit(64));
    symbols.resolve_all(&wanted, &mut |_| {});
    let reports = symbols.reports();
    assert_eq!(reports.len(), ids.len());
    for report in reports {
        assert!(
            matches!(report.problems[..], [Problem::NotRead(_)]) && report.problems[0].is_refusal(),
            "{report}"
        );
    }
    let mut symbols = Symbols::new(SymbolOptions::default());
    symbols.resolve_all(&wanted, &mut |_| {});
    assert!(
        symbols
            .reports()
            .iter()
            .all(|report| matches!(report.problems[..], [Problem::Replaced(_)]))
    );
}

#[test]
fn a_file_without_a_build_id_is_one_module_under_all_its_paths() {
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().unwrap().display();
    let name = program.file_name().unwrap().display();
    let paths: Vec<String> = (0..20)
        .map(|depth| format!("{folder}/{}{name}", "./".repeat(depth)))
        .collect();
    let wanted: Vec<Wanted<'_>> = paths
        .iter()
        .map(|path| Wanted {
            module: ModuleKey {
                path,
                build_id: &[],
            },
            addresses: vec![0x1000],
        })
        .collect();
    let mut modules = 0;
    Symbols::new(SymbolOptions::default())
        .resolve_all(&wanted, &mut |progress| modules = progress.modules);
    assert_eq!(modules, 1);
}

#[test]
fn a_function_that_refers_to_itself_for_its_name_has_no_name() {
    let circle = "7: .byte 8\n.quad main, 8\n.long 7b - 8b + 4\n";
    let (seen, _) = resolve_main(&by_hand(&format!("{FUNCTION}{circle}.byte 0, 0")));
    assert_eq!(
        seen,
        [
            (String::new(), String::new(), 0),
            ("name".to_owned(), String::new(), 0)
        ]
    );
}

/// The stack of a small thread, as a host may have it.
const SMALL_STACK: usize = 64 << 10;

#[test]
fn nested_names_are_demangled_on_a_thread_with_a_small_stack() {
    let names =
        ["cvi", "dv", "tl", "il", "nx"].map(|unit| format!("_Z1fILi0EEvDT{}fp_E", unit.repeat(90)));
    for name in names {
        let built = by_hand(&format!(
            ".pushsection .text\n.globl {name}\n.type {name}, %function\n{name}: nop\n.size {name}, 1\n.popsection"
        ));
        let bytes = std::fs::read(&built.program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let symbol = object::Object::symbol_by_name(&file, &name).unwrap();
        let address = object::ObjectSymbol::address(&symbol);
        let look_up = || {
            let id = built.build_id();
            let mut symbols = built.symbols();
            let key = ModuleKey {
                path: built.path(),
                build_id: &id,
            };
            build::seen(&symbols.resolve(key, &[address])[0])
        };
        let seen = std::thread::scope(|scope| {
            let small = std::thread::Builder::new().stack_size(SMALL_STACK);
            small.spawn_scoped(scope, look_up).unwrap().join().unwrap()
        });
        assert_eq!(seen.len(), 1, "{name}");
    }
}

#[test]
fn a_compressed_section_that_claims_to_be_huge_is_not_unpacked() {
    let built = build::c(&["-g", "-gz=zlib"]);
    let mut bytes = std::fs::read(&built.program).unwrap();
    let at = {
        let file = object::File::parse(&*bytes).unwrap();
        let section = object::Object::section_by_name(&file, ".debug_info").unwrap();
        let (at, _) = object::ObjectSection::file_range(&section).unwrap();
        let packed = object::ObjectSection::compressed_file_range(&section).unwrap();
        assert_eq!(
            packed.format,
            object::CompressionFormat::Zlib,
            "the linker does not compress"
        );
        usize::try_from(at).unwrap()
    };
    let id = built.build_id();
    let mark = built.marks()[&4];
    let key = ModuleKey {
        path: built.path(),
        build_id: &id,
    };
    for size in [1_u64 << 40, u64::MAX] {
        bytes[at + 8..at + 16].copy_from_slice(&size.to_le_bytes());
        std::fs::write(&built.program, &bytes).unwrap();
        let mut symbols = built.symbols();
        let seen = build::seen(&symbols.resolve(key, &[mark])[0]);
        assert_eq!(seen[0].0, "plain", "the name comes from the symbol table");
        let problems = &symbols.reports()[0].problems;
        assert!(!problems.is_empty(), "{size}: {problems:?}");
    }
}

#[test]
fn a_debug_link_to_a_pipe_does_not_block() {
    let built = build::c(&["-g"]);
    let debug = built.folder.path().join("program.debug");
    std::fs::copy(&built.program, &debug).unwrap();
    run(Command::new("objcopy")
        .args([
            "--strip-debug",
            "--add-gnu-debuglink=program.debug",
            "program",
        ])
        .current_dir(&built.folder));
    std::fs::remove_file(&debug).unwrap();
    run(Command::new("mkfifo").arg(&debug));
    let id = built.build_id();
    let mark = built.marks()[&4];
    let key = ModuleKey {
        path: built.path(),
        build_id: &id,
    };
    assert_eq!(
        build::seen(&built.symbols().resolve(key, &[mark])[0])[0].0,
        "plain"
    );
}

#[test]
fn a_file_that_is_truncated_while_it_is_read_loses_only_its_names() {
    let built = build::c(&["-g"]);
    let whole = std::fs::read(&built.program).unwrap();
    let id = built.build_id();
    let mark = built.marks()[&4];
    let key = ModuleKey {
        path: built.path(),
        build_id: &id,
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cut = || {
            let file = std::fs::File::options()
                .write(true)
                .open(&built.program)
                .unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                file.set_len(100).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &whole, 0).unwrap();
            }
        };
        let cutter = std::thread::Builder::new()
            .spawn_scoped(scope, cut)
            .unwrap();
        (0..200).for_each(|_| drop(built.symbols().resolve(key, &[mark])));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        cutter.join().unwrap();
    });
    assert_eq!(
        build::seen(&built.symbols().resolve(key, &[mark])[0])[0].0,
        "plain"
    );
}
