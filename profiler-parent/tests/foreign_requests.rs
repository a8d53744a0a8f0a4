//! Requests that somebody else wrote: every one of the regression corpus is answered by the live page, and leaves it serving.
//! What fuzzing finds (`fuzz/fuzz_targets/live_request.rs`, which holds answers against the same laws) becomes one of them.

#![cfg(feature = "live")]

#[path = "hostile/asked.rs"]
mod asked;

use std::path::Path;
use test_support::own_process;

/// Files are named after the status of the first answer, `0` for none.
#[test]
fn l1_every_request_of_the_corpus_is_answered_and_leaves_the_page_serving() {
    own_process!();
    let page = asked::Asked::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/live_request");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "{} files", files.len());
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        let status = page.check(&std::fs::read(&path).unwrap()).unwrap_or(0);
        assert_eq!(name.split('-').next(), Some(status.to_string().as_str()), "{name}");
        page.check_serves();
    }
}
