//! Tests of the live flame graph of pools that contain any bytes and change while they are read.
//! The inputs are random changes and the regression corpus.
//!
//! The fuzz target `flame_samples` uses the same checks. An input that fuzzing finds is added to
//! the corpus.

#[path = "../../../profiles/gecko/tests/hostile/recorded.rs"]
mod recorded;
#[path = "hostile/sampled.rs"]
mod sampled;

use std::path::Path;

use profiler_core::ids::ByteLimit;
use profiler_core::sampler::{Frame, Sample, SampleWriter};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_flame::ForeignSamples;
use recorded::recorded;
use serde_json::Value;
use test_support::changes::random_changes;
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

/// Records samples with a processor time of one microsecond each. Returns the number of samples
/// that were recorded; the others were dropped.
fn record_samples(function: u64, count: u64) -> u64 {
    let mut writer = SampleWriter::new();
    let thread = profiler_core::thread::current();
    let frames = [Frame::Unknown(function)];
    let mut record = || {
        let sample = Sample {
            at: Timestamp::now(),
            cpu_ns: Some(1000),
            frames: &frames,
            cut: false,
            failed: false,
        };
        writer.sample(thread, &sample)
    };
    (0..count).map(|_| u64::from(record())).sum()
}

/// The time of all samples that were read, and the names of their functions.
fn read_so_far(samples: &ForeignSamples) -> (Value, Vec<String>) {
    let answer = samples.answer("window=start&rows=all");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let functions = answer["functions"].as_array().unwrap().iter();
    let names = functions.map(|function| function["name"].as_str().unwrap().to_owned());
    let names = names.collect();
    (answer, names)
}

#[test]
fn l2_the_newest_samples_of_a_large_pool_are_read_first_and_all_of_them_once() {
    own_process!();
    // A chunk has at most 1 MiB, and a sample more than 50 bytes.
    const HALF: u64 = 50_000;
    let params = SessionParams {
        limit: ByteLimit::new(64 << 20),
        features: Features::NONE,
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    let older = record_samples(0x1000, HALF);
    let newer = record_samples(0x2000, HALF);
    let samples = ForeignSamples::new(session::pool_file().unwrap());
    samples.advance();
    let (answer, names) = read_so_far(&samples);
    assert_eq!(
        (&answer["is_behind"], names),
        (&true.into(), vec!["0x2000".to_owned()])
    );
    assert!(answer["total_ns"].as_u64() <= Some(newer * 1000));
    // Recorded meanwhile.
    let latest = record_samples(0x3000, 10);
    let is_behind = || {
        samples.advance();
        read_so_far(&samples).0["is_behind"] == true
    };
    let passes = (0..1000).take_while(|_| is_behind()).count();
    assert!(passes < 1000, "the pool has no end");
    let all = older + newer + latest;
    let (answer, _) = read_so_far(&samples);
    assert_eq!(
        (&answer["samples"], &answer["total_ns"]),
        (&all.into(), &(all * 1000).into())
    );
    session::stop();
}

#[test]
fn l2_pools_that_change_while_they_are_read_do_no_harm() {
    own_process!();
    let pool = recorded();
    let mut all = 0;
    for number in 0..TRIES {
        let input = random_changes(number, number % 30);
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
