//! Tests of every source of names: debug information, symbol tables, packed files and the kernel.

use std::os::unix::fs::FileExt;
use std::process::Command;

use object::{Object, ObjectSymbol};
use profiler_symbols::{ModuleKey, NameSource, Problem, Symbols};

use super::build::{self, Built, C, RUST, Seen, line, line_of, run};

fn frames(rows: &[(&str, &str, u32)]) -> Seen {
    rows.iter()
        .map(|(function, file, line)| ((*function).to_owned(), (*file).to_owned(), *line))
        .collect()
}

/// Checks that all marks of the C program are resolved to the functions and lines of its source.
fn check_all(built: &Built, symbols: &mut Symbols) {
    let file = "program.c";
    let expected = [
        (
            1,
            vec![
                ("inner", file, line(C, 1)),
                ("middle", file, line_of(C, "inner();")),
                ("outer", file, line_of(C, "middle();")),
            ],
        ),
        (
            2,
            vec![
                ("middle", file, line(C, 2)),
                ("outer", file, line_of(C, "middle();")),
            ],
        ),
        (3, vec![("outer", file, line(C, 3))]),
        (4, vec![("plain", file, line(C, 4))]),
        (5, vec![("hidden", file, line(C, 5))]),
    ];
    for (mark, expected) in expected {
        assert_eq!(built.mark(mark, symbols), frames(&expected), "mark {mark}");
    }
    let report = &symbols.reports()[0];
    assert_eq!(
        (report.source, report.addresses, report.named),
        (NameSource::DebugInformation, 5, 5),
        "{report}"
    );
    assert_eq!(report.problems, []);
}

/// Checks that all marks of the C program are resolved to the names of functions only.
fn check_functions(built: &Built, symbols: &mut Symbols) {
    for (mark, function) in [
        (1, "outer"),
        (2, "outer"),
        (3, "outer"),
        (4, "plain"),
        (5, "hidden"),
    ] {
        assert_eq!(
            built.mark(mark, symbols),
            frames(&[(function, "", 0)]),
            "mark {mark}"
        );
    }
    assert_eq!(symbols.reports()[0].source, NameSource::SymbolTable);
}

/// Compresses bytes as a distribution does.
fn packed(bytes: &[u8]) -> Vec<u8> {
    packed_with(6, bytes)
}

fn packed_with(preset: u32, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let options = lzma_rust2::XzOptions::with_preset(preset);
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A stripped program whose packed file is the result of `change`.
fn with_packed(change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Built {
    let built = build::c(&["-rdynamic"]);
    let whole = std::fs::read(&built.program).unwrap();
    run(Command::new("strip").arg(&built.program));
    std::fs::write(built.folder.path().join("packed"), change(whole)).unwrap();
    built.objcopy(&["--add-section", ".gnu_debugdata=packed"]);
    built
}

#[test]
fn data_has_no_name_although_a_symbol_is_there() {
    let built = build::c(&[]);
    let bytes = std::fs::read(&built.program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let address = |name: &str| file.symbol_by_name(name).unwrap().address();
    let addresses = [
        address("not_code"),
        address("not_code") + 1,
        address("plain"),
    ];
    let mut symbols = built.symbols();
    let id = file.build_id().unwrap().unwrap_or_default();
    let key = ModuleKey {
        path: built.program.to_str().unwrap(),
        build_id: id,
    };
    let found = symbols.resolve(key, &addresses);
    let names: Vec<_> = found.iter().map(|place| place.frames.len()).collect();
    assert_eq!(names, [0, 0, 1]);
}

#[test]
fn the_packed_symbol_table_of_a_stripped_file_gives_names() {
    let built = with_packed(|whole| packed(&whole));
    let mut symbols = built.symbols();
    check_functions(&built, &mut symbols);
    assert_eq!(symbols.reports()[0].problems, []);
}

#[test]
fn a_damaged_packed_file_is_reported_and_dynamic_symbols_are_used() {
    let bomb = || packed_with(0, &vec![0; 80 << 20]); // the other presets take ten seconds
    for (name, built) in [
        ("rubbish", with_packed(|_| b"no such thing".to_vec())),
        ("cut", with_packed(|whole| packed(&whole)[..500].to_vec())),
        ("no program", with_packed(|_| packed(b"text"))),
        ("a bomb", with_packed(|_| bomb())),
    ] {
        let mut symbols = built.symbols();
        assert_eq!(
            built.mark(4, &mut symbols),
            frames(&[("plain", "", 0)]),
            "{name}"
        );
        let problems = &symbols.reports()[0].problems;
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        assert_eq!(
            problems[0].is_refusal(),
            name == "a bomb",
            "{name}: {problems:?}"
        );
    }
}

#[test]
fn debug_information_of_every_version_and_form_is_read() {
    for flags in [
        &["-g"][..],
        &["-g", "-gdwarf-4"],
        &["-g", "-gdwarf-5"],
        &["-g", "-gz=zlib"],
        &["-g", "-gdwarf-4", "-gz=zlib-gnu"],
        &["-g", "-no-pie"],
        &["-g1"],
        &["-g", "-ffunction-sections", "-Wl,--gc-sections"],
    ] {
        println!("{flags:?}");
        let built = build::c(flags);
        check_all(&built, &mut built.symbols());
    }
}

#[test]
fn the_code_range_of_the_function_is_given() {
    let built = build::c(&["-g"]);
    let marks = built.marks();
    let key = built.build_id();
    for strip in [false, true] {
        if strip {
            run(Command::new("strip").arg("-g").arg(&built.program));
        }
        let places = built.symbols().resolve(
            ModuleKey {
                path: built.path(),
                build_id: &key,
            },
            &[marks[&3], marks[&1]],
        );
        let code = places[0].function.unwrap();
        assert_eq!(places[1].function, Some(code), "the same function");
        assert!(
            code.start <= marks[&3] && marks[&1] < code.start + code.size,
            "{code:?} {marks:x?}"
        );
    }
}

#[test]
fn a_debug_file_beside_the_program_is_used_if_its_checksum_is_right() {
    for folder in ["", ".debug/"] {
        let built = build::c(&["-g"]);
        std::fs::create_dir(built.folder.path().join(".debug")).unwrap();
        let debug = format!("{folder}program.debug");
        run(Command::new("objcopy")
            .arg("--only-keep-debug")
            .arg(&built.program)
            .arg(&debug)
            .current_dir(&built.folder));
        run(Command::new("strip").arg(&built.program));
        built.objcopy(&[&format!("--add-gnu-debuglink={debug}")]);
        check_all(&built, &mut built.symbols());
        assert_eq!(built.mark(1, &mut built.symbols()).len(), 3);

        let path = built.folder.path().join(&debug);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.push(0);
        std::fs::write(&path, bytes).unwrap();
        let mut symbols = built.symbols();
        assert_eq!(built.mark(1, &mut symbols), [], "the checksum differs");
        assert_eq!(symbols.reports()[0].source, NameSource::Nothing);
    }
}

#[test]
fn a_debug_file_found_by_build_id_is_used_if_it_has_this_build_id() {
    let built = build::c(&["-g"]);
    let id: String = built
        .build_id()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let folder = built.folder.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&folder).unwrap();
    let debug = folder.join(format!("{}.debug", &id[2..]));
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(&built.program)
        .arg(&debug));
    run(Command::new("strip").arg(&built.program));
    let mut symbols = built.symbols();
    check_all(&built, &mut symbols);
    assert_eq!(symbols.reports()[0].debug_file.as_deref(), Some(&*debug));

    std::fs::copy(&build::c(&["-g", "-DOTHER", "-O2"]).program, &debug).unwrap();
    assert_eq!(
        built.mark(1, &mut built.symbols()),
        [],
        "the debug file belongs to another program"
    );
}

#[test]
fn split_debug_information_is_read_from_its_own_file_or_a_package() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let built = build::c(&["-g", version, "-gsplit-dwarf"]);
        check_all(&built, &mut built.symbols());
        let package = built.folder.path().join("program.dwp");
        // The usual tool does not support version 5.
        if version == "-gdwarf-4" {
            run(Command::new("dwp")
                .arg("-o")
                .arg(&package)
                .arg("-e")
                .arg(&built.program)
                .current_dir(&built.folder));
        }
        let remove_split = || {
            for file in std::fs::read_dir(&built.folder)
                .unwrap()
                .map(|file| file.unwrap().path())
            {
                if file.extension().is_some_and(|extension| extension == "dwo") {
                    std::fs::remove_file(file).unwrap();
                }
            }
        };
        remove_split();
        if package.exists() {
            check_all(&built, &mut built.symbols());
            std::fs::remove_file(package).unwrap();
        }
        let mut symbols = built.symbols();
        assert_eq!(
            built.mark(1, &mut symbols),
            frames(&[("outer", "program.c", line(C, 1))]),
            "lines are still there"
        );
        assert!(matches!(
            symbols.reports()[0].problems[..],
            [Problem::NoSplitFile(_)]
        ));
    }
}

#[test]
fn a_package_of_optimised_code_is_read_and_a_damaged_one_is_reported() {
    if Command::new("dwp").arg("--version").output().is_err() {
        println!("skipped: dwp is not installed");
        return;
    }
    let built = build::c(&["-g", "-O2", "-gdwarf-4", "-gsplit-dwarf"]);
    let package = built.folder.path().join("program.dwp");
    run(Command::new("dwp")
        .arg("-o")
        .arg(&package)
        .arg("-e")
        .arg(&built.program)
        .current_dir(&built.folder));
    for file in std::fs::read_dir(&built.folder).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "dwo") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let bytes = std::fs::read(&package).unwrap();
    let name = b".debug_abbrev.dwo\0";
    let named = bytes.windows(name.len()).position(|text| text == name);
    let named = named.expect("a package has abbreviations");
    check_all(&built, &mut built.symbols());

    // The index names a section that is not there any more.
    let mut damaged = bytes;
    damaged[named + 1] = b'x';
    std::fs::write(&package, damaged).unwrap();
    let mut symbols = built.symbols();
    let names = built.mark(1, &mut symbols);
    assert!(!names.is_empty(), "lines are still there");
    let problems = &symbols.reports()[0].problems;
    let is_of_package = |problem: &Problem| matches!(problem, Problem::BadDebugInformation { path, .. } if *path == package);
    assert!(problems.iter().any(is_of_package), "{problems:?}");
}

#[test]
fn a_symbol_table_alone_gives_functions() {
    let built = build::c(&["-g"]);
    run(Command::new("strip").arg("-g").arg(&built.program));
    check_functions(&built, &mut built.symbols());
}

#[test]
fn without_a_symbol_table_exported_functions_have_names() {
    let built = build::c(&["-shared", "-fPIC"]);
    run(Command::new("strip").arg(&built.program));
    let mut symbols = built.symbols();
    assert_eq!(built.mark(4, &mut symbols), frames(&[("plain", "", 0)]));
    assert_eq!(built.mark(5, &mut symbols), [], "no symbol, no name");
    assert_eq!(
        (symbols.reports()[0].addresses, symbols.reports()[0].named),
        (2, 1)
    );
}

#[test]
fn a_stripped_program_has_no_names_and_this_is_reported() {
    let built = build::c(&["-g"]);
    run(Command::new("strip").arg(&built.program));
    let mut symbols = built.symbols();
    assert_eq!(built.mark(3, &mut symbols), []);
    let report = &symbols.reports()[0];
    assert_eq!((report.source, report.named), (NameSource::Nothing, 0));
    assert!(
        report
            .to_string()
            .contains("0 of 1 addresses named (nothing)"),
        "{report}"
    );
}

#[test]
fn names_of_rust_are_readable_with_inlined_methods_and_closures() {
    for flags in [
        &["-g"][..],
        &["-Cdebuginfo=line-tables-only"],
        &["-g", "-Csymbol-mangling-version=v0"],
        &["-g", "-Csplit-debuginfo=unpacked"],
    ] {
        println!("{flags:?}");
        let built = build::rust(flags);
        let mut symbols = built.symbols();
        let file = "program.rs";
        let turn = built.mark(1, &mut symbols);
        let call = line_of(RUST, "engine.turn();");
        assert_eq!(
            turn.last().unwrap(),
            &("program::drive".to_owned(), file.to_owned(), call)
        );
        let (function, file_name, at) = &turn[0];
        assert!(
            function.ends_with("turn") || function.ends_with("{impl#0}::turn"),
            "{function}"
        );
        assert_eq!(
            (file_name.as_str(), *at, turn.len()),
            (file, line(RUST, 1), 2)
        );
        assert_eq!(
            built.mark(2, &mut symbols),
            frames(&[("program::drive", file, line(RUST, 2))])
        );
        let closure = &built.mark(3, &mut symbols)[0];
        // Line tables alone do not contain the paths of inlined functions.
        let is_short = flags == ["-Cdebuginfo=line-tables-only"];
        assert!(
            closure.0.contains("closure") && (is_short || closure.0.contains("main")),
            "{closure:?}"
        );
        assert_eq!((closure.1.as_str(), closure.2), (file, line(RUST, 3)));
    }
}

/// The kernel's image in this process; `None` if the kernel provides none.
fn kernel_image() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
    let mut image = vec![0; usize::try_from(end - start).unwrap()];
    std::fs::File::open("/proc/self/mem")
        .unwrap()
        .read_exact_at(&mut image, start)
        .unwrap();
    Some(image)
}

#[test]
fn code_of_the_running_kernels_image_has_names() {
    let Some(image) = kernel_image() else { return };
    let file = object::File::parse(&*image).unwrap();
    let clock = file.dynamic_symbols().find(|symbol| {
        symbol
            .name()
            .is_ok_and(|name| name.contains("clock_gettime"))
    });
    let address = clock.unwrap().address() + 1;
    let mut symbols = Symbols::default();
    let id = file.build_id().unwrap().unwrap();
    let seen = build::seen(
        &symbols.resolve(
            ModuleKey {
                path: "[vdso]",
                build_id: id,
            },
            &[address],
        )[0],
    );
    assert!(seen[0].0.contains("clock_gettime"), "{seen:?}");

    let mut symbols = Symbols::default();
    let places = symbols.resolve(
        ModuleKey {
            path: "[vdso]",
            build_id: &[1],
        },
        &[address],
    );
    assert!(!places[0].is_named());
    assert!(
        matches!(symbols.reports()[0].problems[..], [Problem::Replaced(_)]),
        "the image of another kernel is not used"
    );
}
