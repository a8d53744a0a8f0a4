//! Files that somebody else wrote: every one of the regression corpus is imported or exported without harm, and true documents
//! that are changed in many places, too. What fuzzing finds (`fuzz/fuzz_targets/{cpuprofile_import,profile_export}.rs`, which hold
//! files against the same laws) becomes a file of the corpus.

#[path = "hostile/edits.rs"]
mod edits;
#[path = "hostile/exported.rs"]
mod exported;
#[path = "hostile/imported.rs"]
mod imported;
#[path = "hostile/pprof.rs"]
mod pprof;
#[path = "hostile/room.rs"]
mod room;

use std::path::{Path, PathBuf};

use room::Room;
use test_support::own_process;

const CPUPROFILE: &str = include_str!("corpus/cpuprofile_import/plain.json");
const PROFILES: [&str; 3] = [
    include_str!("corpus/profile_export/processed.json"),
    include_str!("corpus/profile_export/gecko.json"),
    include_str!("corpus/profile_export/weighted.json"),
];
/// Edited documents that each test tries.
const TRIES: u64 = 400;

/// The files of a corpus, in order.
fn corpus(of: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(of);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Bytes that are the same in every run, and others for every number.
fn bytes(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let len = 5 + number as usize % 40;
    // Not one that begins a text of its own.
    std::iter::once((number % 90) as u8).chain((1..len).map(|_| next())).collect()
}

/// Runs `check` for each file: those named `bad-…` are refused, all others taken.
fn check_corpus(of: &str, most: usize, check: impl Fn(&[u8], &Room) -> Option<u64>) {
    let (files, room) = (corpus(of), Room::new());
    assert!(files.len() >= most, "{} files", files.len());
    for (path, bytes) in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        assert_eq!(check(&bytes, &room).is_none(), name.starts_with("bad-"), "{name}");
    }
}

#[test]
fn x9_every_file_of_the_corpus_is_imported_or_refused_without_harm() {
    own_process!();
    check_corpus("cpuprofile_import", 8, imported::check);
}

#[test]
fn x1_every_file_of_the_corpus_is_exported_or_refused_without_harm() {
    own_process!();
    check_corpus("profile_export", 10, exported::check);
}

#[test]
fn x9_documents_that_are_nearly_right_are_imported_or_refused_without_harm() {
    own_process!();
    let room = Room::new();
    let taken = (0..TRIES).filter(|number| {
        let text = edits::text_of(&bytes(*number), &[CPUPROFILE]);
        imported::check(&text, &room).is_some()
    });
    let taken = taken.count() as u64;
    assert!(taken > TRIES / 20 && taken < TRIES, "{taken} were taken");
}

#[test]
fn x1_documents_that_are_nearly_right_are_exported_or_refused_without_harm() {
    own_process!();
    let room = Room::new();
    let taken = (0..TRIES).filter(|number| {
        let text = edits::text_of(&bytes(*number), &PROFILES);
        exported::check(&text, &room).is_some()
    });
    let taken = taken.count() as u64;
    assert!(taken > TRIES / 20 && taken < TRIES, "{taken} were taken");
}
