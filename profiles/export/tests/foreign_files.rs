//! Tests of files from other programs: the files of the regression corpus, and valid documents with
//! random edits. Each is parsed, imported, merged or exported, or refused without harm.
//!
//! The fuzz targets `json_parser`, `cpuprofile_import`, `profile_merge`, `profile_export` use the
//! same checks. An input that fuzzing finds is added to the corpus.

#[path = "hostile/deep.rs"]
mod deep;
#[path = "hostile/edits.rs"]
mod edits;
#[path = "hostile/exported.rs"]
mod exported;
#[path = "hostile/imported.rs"]
mod imported;
#[path = "hostile/merged.rs"]
mod merged;
#[path = "hostile/otlp.rs"]
mod otlp;
#[path = "hostile/parsed.rs"]
mod parsed;
#[path = "hostile/perfetto.rs"]
mod perfetto;
#[path = "hostile/pprof.rs"]
mod pprof;
#[path = "hostile/room.rs"]
mod room;

use std::path::{Path, PathBuf};

use room::Room;
use test_support::own_process;

const CPUPROFILE: &str = include_str!("corpus/cpuprofile_import/plain.json");
const PROFILES: [&str; 4] = [
    include_str!("corpus/profile_export/processed.json"),
    include_str!("corpus/profile_export/gecko.json"),
    include_str!("corpus/profile_export/trace.json"),
    include_str!("corpus/profile_export/weighted.json"),
];
const MERGED: [&str; 2] = [
    include_str!("corpus/profile_merge/plain.json"),
    include_str!("corpus/profile_merge/hosts.json"),
];
/// Number of edited documents that each test tries.
const TRIES: u64 = 400;

/// The files of the corpus with this name, in order.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(name);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// Pseudorandom bytes: the same in every run, and different for every number.
fn bytes(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    let len = 5 + number as usize % 40;
    // The first byte must not be one that begins a complete text.
    std::iter::once((number % 90) as u8)
        .chain((1..len).map(|_| next()))
        .collect()
}

/// Runs `check` for each file. Files named `bad-…` must be refused, all others taken.
fn check_corpus(name: &str, at_least: usize, check: impl Fn(&[u8], &Room) -> Option<u64>) {
    let files = corpus(name);
    let room = Room::new();
    assert!(files.len() >= at_least, "{} files", files.len());
    for (path, bytes) in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        assert_eq!(
            check(&bytes, &room).is_none(),
            name.starts_with("bad-"),
            "{name}"
        );
    }
}

#[test]
fn every_text_of_the_corpus_is_read_as_serde_json_reads_it() {
    check_corpus("json_parser", 20, |text, _| parsed::check(text));
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
fn x9_edited_documents_are_imported_or_refused_without_harm() {
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
fn x1_edited_documents_are_exported_or_refused_without_harm() {
    own_process!();
    let room = Room::new();
    let taken = (0..TRIES).filter(|number| {
        let text = edits::text_of(&bytes(*number), &PROFILES);
        exported::check(&text, &room).is_some()
    });
    let taken = taken.count() as u64;
    assert!(taken > TRIES / 20 && taken < TRIES, "{taken} were taken");
}

#[test]
fn x1_what_is_written_of_a_deep_chain_does_not_become_its_square() {
    own_process!();
    deep::check(&Room::new());
}

#[test]
fn every_file_of_the_corpus_is_merged_or_refused_without_harm() {
    own_process!();
    check_corpus("profile_merge", 8, merged::check);
}

#[test]
fn twenty_thousand_members_and_hosts_are_merged_or_refused_without_harm() {
    own_process!();
    let room = Room::new();
    let [plain, _] = MERGED.map(str::trim_end);
    let open = plain.strip_suffix('}').unwrap();
    let members = format!("{open}{}}}", r#","later":0"#.repeat(20_000));
    assert!(merged::check(members.as_bytes(), &room).is_some());
    let hosts = format!(r#""hosts":[{}"#, "{},".repeat(20_000));
    let hosts = plain.replace(r#""hosts":["#, &hosts);
    assert!(hosts.len() > 60_000, "there are no hosts");
    assert!(merged::check(hosts.as_bytes(), &room).is_none());
}

#[test]
fn edited_documents_are_merged_or_refused_without_harm() {
    own_process!();
    let room = Room::new();
    let taken = (0..TRIES).filter(|number| {
        let text = edits::text_of(&bytes(*number), &MERGED);
        merged::check(&text, &room).is_some()
    });
    let taken = taken.count() as u64;
    assert!(taken > TRIES / 20 && taken < TRIES, "{taken} were taken");
}
