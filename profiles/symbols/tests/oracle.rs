//! Tests that compare our results with the `addr2line` crate, for the addresses of some programs.

use std::borrow::Cow;
use std::path::Path;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};
use profiler_symbols::{ModuleKey, Symbols};

use super::build;

/// The file and line of each frame, innermost first.
type Lines = Vec<(Option<String>, u32)>;

fn expected_lines(path: &Path, addresses: &[u64]) -> Vec<Lines> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let section = |name: &str| {
        let section = file
            .section_by_name(name)
            .map(|section| section.uncompressed_data().unwrap());
        section.unwrap_or(Cow::Borrowed(&[])).into_owned()
    };
    let sections =
        addr2line::gimli::DwarfSections::load(|id| Ok::<_, ()>(section(id.name()))).unwrap();
    let dwarf: Dwarf<_> = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let context = addr2line::Context::from_dwarf(dwarf).unwrap();
    let lines_of = |address: &u64| {
        let mut lines = Lines::new();
        let mut frames = context.find_frames(*address).skip_all_loads().unwrap();
        while let Some(frame) = frames.next().unwrap() {
            let location = frame.location;
            let file = location
                .as_ref()
                .and_then(|location| Some(location.file?.to_owned()));
            lines.push((
                file,
                location.and_then(|location| location.line).unwrap_or(0),
            ));
        }
        lines
    };
    addresses.iter().map(lines_of).collect()
}

fn check(path: &Path, addresses: &[u64]) {
    let bytes = std::fs::read(path).unwrap();
    let id = object::File::parse(&*bytes)
        .unwrap()
        .build_id()
        .unwrap()
        .unwrap_or_default()
        .to_vec();
    let key = ModuleKey {
        path: path.to_str().unwrap(),
        build_id: &id,
    };
    let mut symbols = Symbols::default();
    let ours = symbols.resolve(key, addresses);
    assert_eq!(symbols.reports()[0].problems, []);
    let expected = expected_lines(path, addresses);
    let mut with_lines = 0;
    for ((address, ours), expected) in addresses.iter().zip(ours).zip(expected) {
        let lines: Lines = ours
            .frames
            .iter()
            .map(|frame| (frame.file.as_deref().map(str::to_owned), frame.line))
            .collect();
        if expected.is_empty() {
            // A symbol table may still have a name.
            assert!(
                lines.len() <= 1 && lines.iter().all(|(file, _)| file.is_none()),
                "{address:#x} {lines:?}"
            );
        } else {
            assert_eq!(lines, expected, "{address:#x}");
            with_lines += 1;
        }
    }
    assert!(with_lines > 20, "{with_lines} addresses have lines");
}

#[test]
fn every_address_of_a_c_program_has_the_same_lines() {
    for flags in [&["-g"][..], &["-g", "-gdwarf-4"]] {
        let built = build::c(flags);
        check(&built.program, &built.code());
    }
}

#[test]
fn addresses_of_a_rust_program_have_the_same_lines() {
    let built = build::rust(&["-g"]);
    check(
        &built.program,
        &built.code().into_iter().step_by(7).collect::<Vec<_>>(),
    );
}

#[test]
fn addresses_of_this_test_program_have_the_same_lines() {
    let program = std::env::current_exe().unwrap();
    let this = build::Built {
        folder: tempfile::tempdir().unwrap(),
        program,
    };
    check(
        &this.program,
        &this.code().into_iter().step_by(997).collect::<Vec<_>>(),
    );
}
