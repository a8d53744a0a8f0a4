//! Tests of pools that change while they are read repeatedly, for groups and for observers: no
//! reader panics, and the work and the delivered data are bounded. The inputs are random changes
//! and the regression corpus.
//!
//! The fuzz target `groups_and_follow` uses the same checks. An input that fuzzing finds is added
//! to the corpus.

#[path = "../../profiler-core/tests/hostile/changing.rs"]
mod changing;
#[path = "../../profiles/gecko/tests/hostile/recorded.rs"]
mod recorded;
#[path = "hostile/told.rs"]
mod told;

use std::path::Path;

use profiler_parent::observe::MarkerDecoder;
use recorded::{Recorded, recorded};
use test_support::changes::random_changes;
use test_support::own_process;

/// Number of random inputs.
const TRIES: u64 = 300;

/// Reads a pool with an input. Returns the numbers of delivered entries and markers.
fn read(pool: &Recorded, input: &[u8]) -> (u64, u64) {
    let mut decoder = MarkerDecoder::default();
    let mut markers = 0;
    let entries = changing::check(pool, input, |entry| {
        markers += u64::from(told::check(&mut decoder, entry))
    });
    (entries, markers)
}

#[test]
fn all_entries_of_a_pool_that_does_not_change_are_delivered() {
    own_process!();
    let (entries, markers) = read(&recorded(), &[0]);
    assert!(
        entries > 500 && markers > 300,
        "{markers} markers of {entries} entries"
    );
    let (few, _) = read(&recorded(), &[1]);
    assert!(few < entries, "a budget bounds an advance");
}

#[test]
fn t10_pools_that_change_while_they_are_read_do_no_harm() {
    own_process!();
    let pool = recorded();
    let mut all = 0;
    for number in 0..TRIES {
        let mut input = vec![(number % 7) as u8];
        input.extend(random_changes(number, 1 + number % 30));
        all += read(&pool, &input).0;
    }
    assert!(all > 100 * TRIES, "{all} entries");
}

#[test]
fn t10_every_input_of_the_corpus_is_read_without_harm() {
    own_process!();
    let pool = recorded();
    let mut files = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/groups_and_follow");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        read(&pool, &std::fs::read(path).unwrap());
        files += 1;
    }
    assert!(files >= 5, "{files} files");
}
