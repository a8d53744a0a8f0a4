//! Test of requests from other programs to the live page: the page answers every request of the
//! regression corpus, and continues to serve.
//!
//! The fuzz target `live_request` uses the same checks. An input that fuzzing finds is added to the
//! corpus.

#![cfg(feature = "live")]

#[path = "hostile/asked.rs"]
mod asked;

use std::path::Path;
use test_support::own_process;

/// The name of a file begins with the status of the first answer, or with `0` if there is none.
#[test]
fn l1_every_request_of_the_corpus_is_answered_and_the_page_still_serves() {
    own_process!();
    let page = asked::Asked::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/live_request");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 15, "{} files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        let status = page.check(&std::fs::read(&path).unwrap()).unwrap_or(0);
        assert_eq!(
            name.split('-').next(),
            Some(status.to_string().as_str()),
            "{name}"
        );
        page.check_serves();
    }
}
