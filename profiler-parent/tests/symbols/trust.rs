//! Which files are believed, and what is kept of them.

use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use profiler_parent::internal::symbols::{
    ModuleKey, NameSource, Problem, SymbolOptions, SymbolProgress, Symbols, Wanted,
};

use super::build::{self, run, seen};

#[test]
fn a_program_that_was_replaced_gives_no_names() {
    let built = build::c(&["-g"]);
    let (old, mark) = (built.build_id(), built.marks()[&3]);
    std::fs::copy(&build::c(&["-g", "-O2", "-DOTHER"]).program, &built.program).unwrap();
    assert_ne!(built.build_id(), old);
    let mut symbols = built.symbols();
    let places = symbols.resolve(ModuleKey { path: built.path(), build_id: &old }, &[mark]);
    assert_eq!(places[0].frames.len(), 0);
    assert!(matches!(symbols.reports()[0].problems[..], [Problem::Replaced(_)]));
    assert!(symbols.reports()[0].to_string().contains("was replaced"));
}

#[test]
fn a_program_that_was_deleted_is_found_again_only_if_it_is_the_same() {
    let built = build::c(&["-g"]);
    let (id, mark) = (built.build_id(), built.marks()[&4]);
    let deleted = format!("{} (deleted)", built.path());
    let key = ModuleKey { path: &deleted, build_id: &id };
    assert_eq!(seen(&built.symbols().resolve(key, &[mark])[0])[0].0, "plain");
    std::fs::remove_file(&built.program).unwrap();
    let mut symbols = built.symbols();
    assert_eq!(symbols.resolve(key, &[mark])[0].frames.len(), 0);
    assert!(matches!(symbols.reports()[0].problems[..], [Problem::Unreadable { .. }]));
}

#[test]
fn without_a_build_id_names_are_given_and_the_doubt_is_told() {
    let built = build::c(&["-g", "-Wl,--build-id=none"]);
    let mut symbols = built.symbols();
    assert_eq!(built.mark(4, &mut symbols)[0].0, "plain");
    assert!(matches!(symbols.reports()[0].problems[..], [Problem::Unverified(_)]));

    let other = build::c(&["-g"]);
    let key = ModuleKey { path: other.path(), build_id: &[] };
    assert_eq!(
        symbols.resolve(key, &[other.marks()[&4]])[0].frames.len(),
        0,
        "the process had none, the file has one"
    );
}

#[test]
fn a_file_in_another_root_is_found_by_its_build_id_only() {
    let built = build::c(&["-g"]);
    let (id, mark) = (built.build_id(), built.marks()[&4]);
    let inside = "/no/such/folder/program";
    let root = built.folder.path().join("root");
    std::fs::create_dir_all(root.join("no/such/folder")).unwrap();
    std::fs::copy(&built.program, root.join("no/such/folder/program")).unwrap();
    let symbols = || Symbols::new(built.options().root(&root));
    let name = |id: &[u8]| seen(&symbols().resolve(ModuleKey { path: inside, build_id: id }, &[mark])[0]);
    assert_eq!(name(&id)[0].0, "plain");
    assert_eq!(name(&[1, 2, 3]), []);
    assert_eq!(name(&[]), []);
}

#[test]
fn nothing_but_regular_files_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    for path in [fifo.to_str().unwrap(), "/dev/zero", "/", "/proc/self/fd"] {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.resolve(ModuleKey { path, build_id: &[] }, &[1])[0].frames.len(), 0);
        assert!(matches!(symbols.reports()[0].problems[..], [Problem::NotAFile(_)]), "{path}");
    }
}

#[test]
fn results_are_kept_for_later_captures_up_to_the_limit() {
    let built = build::c(&["-g"]);
    let (id, marks) = (built.build_id(), built.marks());
    let key = ModuleKey { path: built.path(), build_id: &id };
    let mut symbols = built.symbols();
    let first = symbols.resolve(key, &[marks[&1], marks[&4]]);
    let mut forgetful = Symbols::new(built.options().cache_limit(0));
    assert_eq!(forgetful.resolve(key, &[marks[&1], marks[&4]]), first);
    std::fs::remove_file(&built.program).unwrap();
    assert_eq!(symbols.resolve(key, &[marks[&4], marks[&1]]), [first[1].clone(), first[0].clone()]);
    assert!(symbols.cached_bytes() > 0);
    assert_eq!(forgetful.cached_bytes(), 0);
    assert_eq!(forgetful.resolve(key, &[marks[&1]])[0].frames.len(), 0, "it was not kept");
}

#[test]
fn of_too_much_debug_information_the_symbol_table_is_left() {
    // This program: its symbols and the indexes of its debug information are far smaller than the
    // debug information itself.
    let path = std::env::current_exe().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let size = |name: &str| file.section_by_name(name).map_or(0, |section| section.size());
    let small = [".symtab", ".strtab", ".debug_abbrev", ".debug_aranges"];
    let limit = (1 << 20) + small.into_iter().map(size).sum::<u64>();
    let main = file.symbol_by_name("main").unwrap().address();
    let key = ModuleKey { path: path.to_str().unwrap(), build_id: file.build_id().unwrap().unwrap() };
    let mut symbols = Symbols::new(SymbolOptions::default().file_limit(limit));
    assert_eq!(seen(&symbols.resolve(key, &[main])[0]), [("main".to_owned(), String::new(), 0)]);
    let report = &symbols.reports()[0];
    assert_eq!(report.source, NameSource::SymbolTable, "{report}");
    assert!(matches!(report.problems[..], [Problem::TooMuch(_)]), "{report}");
}

#[test]
fn all_modules_together_with_progress_and_the_same_file_once() {
    let (one, other) = (build::c(&["-g"]), build::c(&["-g", "-O2"]));
    let (one_id, other_id) = (one.build_id(), other.build_id());
    let wanted = |built: &build::Built, id, marks: &[u32]| Wanted {
        module: ModuleKey { path: Box::leak(built.path().to_owned().into_boxed_str()), build_id: id },
        addresses: marks.iter().map(|mark| built.marks()[mark]).collect(),
    };
    let all =
        [wanted(&one, &one_id, &[4, 3]), wanted(&other, &other_id, &[5]), wanted(&one, &one_id, &[5, 4])];
    let mut told = Vec::new();
    let places = one.symbols().resolve_all(&all, &mut |progress: SymbolProgress<'_>| {
        told.push((
            progress.modules_done,
            progress.modules,
            progress.addresses_done,
            progress.addresses,
            progress.next.to_owned(),
        ));
    });
    let names: Vec<Vec<_>> =
        places.iter().map(|places| places.iter().map(|place| seen(place)[0].0.clone()).collect()).collect();
    assert_eq!(names, [vec!["plain", "outer"], vec!["hidden"], vec!["hidden", "plain"]]);
    let expected = [
        (0, 2, 0, 5, one.path().to_owned()),
        (1, 2, 4, 5, other.path().to_owned()),
        (2, 2, 5, 5, String::new()),
    ];
    assert_eq!(told, expected);
}
