//! Tests of the samples of threads that compute. Also code that runs a thread beside a test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use profiler_core::ids::ThreadId;
use profiler_core::session::{self, Features};
use test_support::own_process;

use super::read::{Seen, Session, samples, samples_of, until, wait_one_pass};

/// Computes until `stop` is set.
#[inline(never)]
pub(crate) fn innermost(stop: &AtomicBool) -> u64 {
    let mut sum = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
    }
    sum
}

#[inline(never)]
fn middle(stop: &AtomicBool) -> u64 {
    std::hint::black_box(innermost(stop)) + 1
}

#[inline(never)]
fn outer(stop: &AtomicBool) -> u64 {
    std::hint::black_box(middle(stop)) + 1
}

#[inline(never)]
fn deep(levels: u32, stop: &AtomicBool) -> u64 {
    let room = std::hint::black_box([u64::from(levels); 100]);
    let inner = if levels == 0 {
        innermost(stop)
    } else {
        deep(levels - 1, stop)
    };
    inner.wrapping_add(std::hint::black_box(room)[7])
}

/// Runs `body` while a thread with this name runs `work`.
pub(crate) fn beside(
    name: &str,
    work: impl FnOnce(&AtomicBool) -> u64 + Send,
    body: impl FnOnce(ThreadId),
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (id_sender, id_receiver) = mpsc::channel();
        let stopped = &stop;
        let worker = move || {
            id_sender.send(profiler_core::thread::current()).unwrap();
            work(stopped);
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, worker)
            .unwrap();
        let stop_in_the_end = Stop(&stop);
        body(id_receiver.recv().unwrap());
        drop(stop_in_the_end);
    });
}

/// Sets a flag on drop, so a thread also stops if a test panics.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_stack_of_a_busy_thread_is_its_functions_outermost_first() {
    own_process!();
    let _session = Session::start(&[]);
    beside("cruncher", outer, |thread| {
        let is_right = |sample: &Seen| {
            let places = [
                outer as *const (),
                middle as *const (),
                innermost as *const (),
            ]
            .map(|function| sample.place_of(function));
            matches!(places, [Some(a), Some(b), Some(c)] if a < b && b < c && c + 1 == sample.addresses.len())
                && !sample.failed
        };
        // The thread may be delayed before it reaches the innermost function; it stays there then.
        let samples = until(|| {
            let mut samples = samples_of(thread, 100);
            samples.drain(..samples.iter().position(is_right)?);
            (samples.len() >= 100).then_some(samples)
        });
        let right = samples.iter().filter(|sample| is_right(sample)).count();
        assert!(
            right * 100 >= samples.len() * 95,
            "{right} of {}: {:?}",
            samples.len(),
            samples.last()
        );
        assert!(
            samples
                .iter()
                .all(|sample| !sample.cut && sample.cpu_ns.is_some())
        );
        assert!(
            samples
                .iter()
                .map(|sample| sample.cpu_ns.unwrap())
                .sum::<u64>()
                > 10_000_000
        );
    });
}

#[test]
fn a_stack_deeper_than_the_copy_lacks_its_outer_part_and_is_marked_as_cut() {
    own_process!();
    let _session = Session::start(&[]);
    beside(
        "deep",
        |stop| deep(200, stop),
        |thread| {
            let samples = samples_of(thread, 50);
            let sample = samples
                .iter()
                .rev()
                .find(|sample| sample.addresses.len() > 3)
                .expect("a stack");
            assert!(sample.cut && !sample.failed, "{sample:?}");
            assert_eq!(
                sample.place_of(innermost as *const ()),
                Some(sample.addresses.len() - 1)
            );
        },
    );
}

#[test]
fn without_stacks_samples_have_processor_time_only() {
    own_process!();
    let _session = Session::with(Features::CPU, &[]);
    beside("cruncher", outer, |thread| {
        let samples = samples_of(thread, 20);
        assert!(
            samples
                .iter()
                .all(|sample| sample.addresses.is_empty() && sample.cpu_ns.is_some())
        );
    });
}

#[test]
fn nothing_is_sampled_without_a_request_or_during_a_pause() {
    own_process!();
    {
        let _session = Session::with(Features::NONE, &[]);
        assert!(!session::wait_one_periodic_sampling());
        assert_eq!(session::sampling_stats(), None);
    }
    let _session = Session::start(&[]);
    beside("cruncher", outer, |thread| {
        wait_one_pass();
        samples_of(thread, 1);
        session::pause_sampling();
        assert!(!session::wait_one_periodic_sampling());
        until(|| {
            let count = || samples().0[&thread.get()].len();
            let before = count();
            std::thread::sleep(std::time::Duration::from_millis(50));
            (before == count()).then_some(())
        });
        session::resume_sampling();
        wait_one_pass();
    });
}
