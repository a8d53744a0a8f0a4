//! Test of the answers of foreign servers: the reader takes whole rows, and reports everything else.
//!
//! The fuzz target `fleet_answer` uses the same checks. An input that fuzzing finds is added to the
//! corpus.

#![cfg(feature = "push")]

#[path = "hostile/answered.rs"]
mod answered;

use std::path::Path;

/// The name of a file begins with the number of its rows, or with `error`.
#[test]
fn every_answer_of_the_corpus_is_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/fleet_answer");
    let files = std::fs::read_dir(folder).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 8, "{} files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let read = answered::check(&std::fs::read(&path).unwrap());
        let told = read
            .as_ref()
            .map_or_else(|_| "error".to_owned(), u64::to_string);
        assert_eq!(
            name.split('-').next(),
            Some(told.as_str()),
            "{name}: {read:?}"
        );
    }
}
