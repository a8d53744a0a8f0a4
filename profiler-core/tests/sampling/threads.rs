//! Tests of the choice of threads to sample, and of the rows that get their samples.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use profiler_core::ids::ThreadId;
use profiler_core::{marker, thread};
use test_support::own_process;

use super::busy::{Stop, beside, innermost};
use super::read::{Session, overheads, samples, samples_of, until};

#[test]
fn a_thread_that_never_recorded_is_found_and_has_its_own_row() {
    own_process!();
    let _session = Session::start(&[]);
    beside("stranger", innermost, |stranger| {
        samples_of(stranger, 20);
        // The sampler may have found it before it had its name.
        until(|| {
            let (_, snapshot) = samples();
            let mut rows = snapshot.threads.iter();
            let row = rows.find(|row| row.tid == stranger)?;
            assert!(rows.all(|row| row.tid != stranger), "it has two rows");
            (row.name == "stranger").then_some(())
        });
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

/// A thread that neither records nor registers has a trigger after the second list of threads that
/// contains it, and a sample after some processor time.
#[test]
fn a_thread_is_found_by_the_second_list_of_the_sampler() {
    own_process!();
    let _session = Session::start(&[]);
    let next_list = || {
        std::thread::sleep(LONGEST_TIME_BETWEEN_LISTS);
        wait_for_passes(2); // a pass may have been at its end
    };
    for _ in 0..5 {
        beside("short", innermost, |short| {
            next_list();
            next_list();
            let found = cpu_ns(short);
            until(|| (cpu_ns(short) >= found + SOME_PROCESSOR_TIME_NS).then_some(()));
            wait_for_passes(2);
            let (samples, _) = samples();
            assert!(samples.contains_key(&short.get()), "{short:?}");
        });
    }
}

/// Waits until the sampler has made this number of further passes.
fn wait_for_passes(passes: usize) {
    let begun = overheads().len();
    until(|| (overheads().len() >= begun + passes).then_some(()));
}

/// `sampler/targets` lists the threads less often if a list is expensive, but at least this often.
const LONGEST_TIME_BETWEEN_LISTS: Duration = Duration::from_millis(500);

/// The longest period of the system's tick is 10 ms, and a trigger expires within one interval.
const SOME_PROCESSOR_TIME_NS: u64 = 40_000_000;

/// The processor time of a thread of this process.
fn cpu_ns(thread: ThreadId) -> u64 {
    let path = format!("/proc/self/task/{}/schedstat", thread.get());
    let text = std::fs::read_to_string(path).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
