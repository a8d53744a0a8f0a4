//! Pools that change while they are read again and again, for groups and for observers: nothing panics, work and what is told are
//! bounded. Random changes, and the regression corpus; what fuzzing finds (`fuzz/fuzz_targets/groups_and_follow.rs`, which holds
//! readers against the same laws) becomes a file of it.

#[path = "../../profiler-core/tests/hostile/changing.rs"]
mod changing;
#[path = "../../profiler-core/tests/hostile/recorded.rs"]
mod recorded;
#[path = "hostile/told.rs"]
mod told;

use std::path::Path;

use profiler_parent::observe::MarkerDecoder;
use recorded::{Recorded, recorded};
use test_support::own_process;

/// Inputs that are made up.
const TRIES: u64 = 300;

/// Gives the number of entries and of markers.
fn read(pool: &Recorded, input: &[u8]) -> (u64, u64) {
    let (mut decoder, mut markers) = (MarkerDecoder::default(), 0);
    let entries = changing::check(pool, input, |one| markers += u64::from(told::check(&mut decoder, one)));
    (entries, markers)
}

#[test]
fn a_pool_that_does_not_change_is_told_whole() {
    own_process!();
    let (entries, markers) = read(&recorded(), &[0]);
    assert!(entries > 500 && markers > 300, "{markers} markers of {entries} entries");
    let (few, _) = read(&recorded(), &[1]);
    assert!(few < entries, "a budget bounds an advance");
}

#[test]
fn t10_pools_that_change_under_their_readers_eyes_do_no_harm() {
    own_process!();
    let (pool, mut all) = (recorded(), 0);
    for number in 0..TRIES {
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 24) as u8
        };
        // Words that are large, small or like those that are there.
        let mut change = || {
            let mut bytes: [u8; 12] = std::array::from_fn(|_| next());
            let kept = 4 + usize::from(next() % 9);
            bytes[kept..].fill(0);
            bytes
        };
        let mut input = vec![(number % 7) as u8];
        (0..1 + number % 30).for_each(|_| input.extend(change()));
        all += read(&pool, &input).0;
    }
    assert!(all > 100 * TRIES, "{all} entries");
}

#[test]
fn t10_every_input_of_the_corpus_is_read_without_harm() {
    own_process!();
    let (pool, mut files) = (recorded(), 0);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/groups_and_follow");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        read(&pool, &std::fs::read(path).unwrap());
        files += 1;
    }
    assert!(files >= 5, "{files} files");
}
