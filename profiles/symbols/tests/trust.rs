//! Tests of which files are trusted, and of the cache of their results.

use std::process::Command;

use profiler_symbols::{ModuleKey, NameSource, Problem, SymbolProgress, Symbols, Wanted};

use super::build::{self, run, seen};

#[test]
fn a_program_that_was_replaced_gives_no_names() {
    let built = build::c(&["-g"]);
    let old = built.build_id();
    let mark = built.marks()[&3];
    std::fs::copy(&build::c(&["-g", "-O2", "-DOTHER"]).program, &built.program).unwrap();
    assert_ne!(built.build_id(), old);
    let mut symbols = built.symbols();
    let places = symbols.resolve(
        ModuleKey {
            path: built.path(),
            build_id: &old,
        },
        &[mark],
    );
    assert_eq!(places[0].frames.len(), 0);
    assert!(matches!(
        symbols.reports()[0].problems[..],
        [Problem::Replaced(_)]
    ));
    assert!(symbols.reports()[0].to_string().contains("was replaced"));
}

#[test]
fn a_deleted_program_is_read_at_its_old_path_if_a_file_is_there() {
    let built = build::c(&["-g"]);
    let id = built.build_id();
    let mark = built.marks()[&4];
    let deleted = format!("{} (deleted)", built.path());
    let key = ModuleKey {
        path: &deleted,
        build_id: &id,
    };
    assert_eq!(
        seen(&built.symbols().resolve(key, &[mark])[0])[0].0,
        "plain"
    );
    std::fs::remove_file(&built.program).unwrap();
    let mut symbols = built.symbols();
    assert_eq!(symbols.resolve(key, &[mark])[0].frames.len(), 0);
    assert!(matches!(
        symbols.reports()[0].problems[..],
        [Problem::Unreadable { .. }]
    ));
}

#[test]
fn without_a_build_id_names_are_given_and_reported_as_unverified() {
    let built = build::c(&["-g", "-Wl,--build-id=none"]);
    let mut symbols = built.symbols();
    assert_eq!(built.mark(4, &mut symbols)[0].0, "plain");
    assert!(matches!(
        symbols.reports()[0].problems[..],
        [Problem::Unverified(_)]
    ));

    let other = build::c(&["-g"]);
    let key = ModuleKey {
        path: other.path(),
        build_id: &[],
    };
    assert_eq!(
        symbols.resolve(key, &[other.marks()[&4]])[0].frames.len(),
        0,
        "the process had no build id, but the file has one"
    );
}

#[test]
fn a_file_in_another_root_needs_the_right_build_id() {
    let built = build::c(&["-g"]);
    let id = built.build_id();
    let mark = built.marks()[&4];
    let inside = "/no/such/folder/program";
    let root = built.folder.path().join("root");
    std::fs::create_dir_all(root.join("no/such/folder")).unwrap();
    std::fs::copy(&built.program, root.join("no/such/folder/program")).unwrap();
    let symbols = || Symbols::new(built.options().root(&root));
    let name = |id: &[u8]| {
        seen(
            &symbols().resolve(
                ModuleKey {
                    path: inside,
                    build_id: id,
                },
                &[mark],
            )[0],
        )
    };
    assert_eq!(name(&id)[0].0, "plain");
    assert_eq!(name(&[1, 2, 3]), []);
    assert_eq!(name(&[]), []);
}

#[test]
fn only_regular_files_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    for path in [fifo.to_str().unwrap(), "/dev/zero", "/", "/proc/self/fd"] {
        let mut symbols = Symbols::default();
        assert_eq!(
            symbols.resolve(
                ModuleKey {
                    path,
                    build_id: &[]
                },
                &[1]
            )[0]
            .frames
            .len(),
            0
        );
        assert!(
            matches!(symbols.reports()[0].problems[..], [Problem::NotAFile(_)]),
            "{path}"
        );
    }
}

#[test]
fn results_are_cached_for_later_captures_up_to_the_limit() {
    let built = build::c(&["-g"]);
    let id = built.build_id();
    let marks = built.marks();
    let key = ModuleKey {
        path: built.path(),
        build_id: &id,
    };
    let mut symbols = built.symbols();
    let first = symbols.resolve(key, &[marks[&1], marks[&4]]);
    let mut forgetful = Symbols::new(built.options().cache_limit(0));
    assert_eq!(forgetful.resolve(key, &[marks[&1], marks[&4]]), first);
    std::fs::remove_file(&built.program).unwrap();
    assert_eq!(
        symbols.resolve(key, &[marks[&4], marks[&1]]),
        [first[1].clone(), first[0].clone()]
    );
    assert!(symbols.cached_bytes() > 0);
    assert_eq!(forgetful.cached_bytes(), 0);
    assert_eq!(
        forgetful.resolve(key, &[marks[&1]])[0].frames.len(),
        0,
        "the result was not cached"
    );
}

#[test]
fn debug_information_above_the_limit_is_skipped_and_the_symbol_table_is_used() {
    // All of the program but its debug information is far smaller than 1 MiB.
    let built = build::c(&["-g", "-DLONG_TEXT"]);
    let mut symbols = built.symbols();
    assert!(built.mark(4, &mut symbols)[0].1.ends_with("program.c"));
    let report = &symbols.reports()[0];
    assert_eq!(report.source, NameSource::DebugInformation, "{report}");
    let mut symbols = Symbols::new(built.options().file_limit(1 << 20));
    assert_eq!(
        built.mark(4, &mut symbols),
        [("plain".to_owned(), String::new(), 0)]
    );
    let report = &symbols.reports()[0];
    assert_eq!(report.source, NameSource::SymbolTable, "{report}");
    assert!(
        matches!(report.problems[..], [Problem::TooMuch(_)]),
        "{report}"
    );
}

#[test]
fn modules_are_resolved_with_progress_and_the_same_file_only_once() {
    let first = build::c(&["-g"]);
    let other = build::c(&["-g", "-O2"]);
    let first_id = first.build_id();
    let other_id = other.build_id();
    let wanted = |built: &build::Built, id, marks: &[u32]| Wanted {
        module: ModuleKey {
            path: Box::leak(built.path().to_owned().into_boxed_str()),
            build_id: id,
        },
        addresses: marks.iter().map(|mark| built.marks()[mark]).collect(),
    };
    let all = [
        wanted(&first, &first_id, &[4, 3]),
        wanted(&other, &other_id, &[5]),
        wanted(&first, &first_id, &[5, 4]),
    ];
    let mut reported = Vec::new();
    let places = first
        .symbols()
        .resolve_all(&all, &mut |progress: SymbolProgress<'_>| {
            reported.push((
                progress.modules_done,
                progress.modules,
                progress.addresses_done,
                progress.addresses,
                progress.next.to_owned(),
            ));
        });
    let names: Vec<Vec<_>> = places
        .iter()
        .map(|places| {
            places
                .iter()
                .map(|place| seen(place)[0].0.clone())
                .collect()
        })
        .collect();
    assert_eq!(
        names,
        [
            vec!["plain", "outer"],
            vec!["hidden"],
            vec!["hidden", "plain"]
        ]
    );
    let expected = [
        (0, 2, 0, 5, first.path().to_owned()),
        (1, 2, 4, 5, other.path().to_owned()),
        (2, 2, 5, 5, String::new()),
    ];
    assert_eq!(reported, expected);
}
