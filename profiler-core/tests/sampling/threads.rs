//! Tests of the choice of threads to sample, and of the rows that get their samples.

use std::sync::atomic::AtomicBool;

use profiler_core::{marker, thread};
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{Session, samples, samples_of, until, wait_for_ticks};

#[test]
fn a_thread_that_never_recorded_is_found_and_has_its_own_row() {
    own_process!();
    let _session = Session::start(&[]);
    beside("stranger", innermost, |stranger| {
        samples_of(stranger, 20);
        let (_, snapshot) = samples();
        let rows: Vec<_> = snapshot
            .threads
            .iter()
            .filter(|row| row.tid == stranger)
            .collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].name, "stranger");
    });
}

#[test]
fn a_found_thread_that_records_later_keeps_its_row() {
    own_process!();
    let _session = Session::start(&[]);
    let record = AtomicBool::new(false);
    let work = |stop: &AtomicBool| {
        innermost(&record);
        thread::register("known by a better name");
        marker!("here I am");
        innermost(stop)
    };
    beside("late", work, |late| {
        let recording = Stop(&record); // also if the next line panics
        samples_of(late, 20);
        drop(recording);
        until(|| {
            let (_, snapshot) = samples();
            let rows: Vec<_> = snapshot
                .threads
                .iter()
                .filter(|row| row.tid == late)
                .collect();
            assert_eq!(rows.len(), 1, "{rows:?}");
            (rows[0].name == "known by a better name" && rows[0].committed() == 1).then_some(())
        });
        let before = samples_of(late, 1).len();
        samples_of(late, before + 20);
    });
}

#[test]
fn only_threads_that_match_a_filter_are_sampled() {
    own_process!();
    let _session = Session::start(&["chosen"]);
    beside("chosen one", innermost, |chosen| {
        beside("other", innermost, |other| {
            samples_of(chosen, 300); // by then the sampler has listed all threads several times
            let (samples, snapshot) = samples();
            assert!(!samples.contains_key(&other.get()));
            assert_eq!(samples.keys().collect::<Vec<_>>(), [&chosen.get()]);
            assert!(snapshot.threads.iter().all(|row| row.tid != other));
        });
    });
}

#[test]
fn the_samples_of_an_ended_thread_stay_in_its_own_row() {
    own_process!();
    let _session = Session::start(&[]);
    let mut ended = None;
    beside("short", innermost, |short| {
        samples_of(short, 20);
        // A thread that is found at its very start has the name of its creator until the next
        // check.
        until(|| {
            samples()
                .1
                .threads
                .iter()
                .any(|row| row.tid == short && row.name == "short")
                .then_some(())
        });
        ended = Some(short);
    });
    let ended = ended.unwrap();
    beside("next", innermost, |next| {
        samples_of(next, 300);
        let (samples, snapshot) = samples();
        assert!(samples[&ended.get()].len() >= 20);
        let row = snapshot
            .threads
            .iter()
            .find(|row| row.tid == ended)
            .expect("its row");
        assert_eq!(row.name, "short");
    });
}

/// Most programs have threads with short lives. A list of all threads at long intervals would miss
/// them.
#[test]
fn threads_that_live_for_some_milliseconds_are_found() {
    own_process!();
    let _session = Session::start(&[]);
    let mut all = Vec::new();
    for _ in 0..12 {
        beside("short", innermost, |short| {
            all.push(short.get());
            wait_for_ticks(25); // 25 ms on an idle machine
        });
    }
    let (samples, _) = samples();
    let found = all.iter().filter(|tid| samples.contains_key(tid)).count();
    assert!(found >= all.len() / 2, "{found} of {}", all.len());
}
