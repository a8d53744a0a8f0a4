//! Tests of the live flame graph of pools that contain any bytes and change while they are read.
//! The inputs are random changes and the regression corpus.
//!
//! The fuzz target `flame_samples` uses the same checks. An input that fuzzing finds is added to
//! the corpus.

#![cfg(feature = "live")]

#[path = "hostile/sampled.rs"]
mod sampled;

use std::path::Path;

use crate::foreign_pools::{changes, recorded};

use recorded::recorded;
use test_support::own_process;

/// Number of random inputs.
const TRIES: u64 = 200;

#[test]
fn all_samples_of_a_pool_that_does_not_change_are_read() {
    own_process!();
    // `recorded` writes 80 samples of its own.
    let read = sampled::check(&recorded(), &[]);
    assert!(read >= 80, "{read} samples");
}

#[test]
fn l2_pools_that_change_while_they_are_read_do_no_harm() {
    own_process!();
    let pool = recorded();
    let mut all = 0;
    for number in 0..TRIES {
        let input = changes(number, number % 30);
        all += sampled::check(&pool, &input);
    }
    assert!(all > 10 * TRIES, "{all} samples");
}

#[test]
fn l2_every_input_of_the_corpus_is_read_without_harm() {
    own_process!();
    let pool = recorded();
    let mut files = 0;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/flame_samples");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        println!("{}", path.display());
        sampled::check(&pool, &std::fs::read(path).unwrap());
        files += 1;
    }
    assert!(files >= 5, "{files} files");
}
