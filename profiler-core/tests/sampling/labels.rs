//! Tests of labels and counters in the samples of the sampler.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{self};
use profiler_core::counter::Counter;
use profiler_core::internal::entry::Entry;
use profiler_core::label;
use profiler_core::sampler::Frame;
use profiler_core::session::Features;
use test_support::own_process;

use super::busy::{beside, innermost};
use super::read::{Session, until, wait_for_ticks};

#[inline(never)]
fn labelled(stop: &AtomicBool) -> u64 {
    let _label = label!("around the work");
    std::hint::black_box(innermost(stop)) + 1
}

/// A frame of a sample: the name of a label, or a code address.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Label(String),
    Code(u64),
}

fn samples_of(thread: u64) -> Vec<Vec<Seen>> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let mut all = Vec::new();
    let definitions = &snapshot.definitions;
    let seen = |frame: &Frame| match frame {
        Frame::Label(id) => Seen::Label(definitions.label(*id).unwrap().name.clone()),
        Frame::Code(id, relative) => Seen::Code(
            definitions
                .module(*id)
                .unwrap()
                .base
                .wrapping_add(*relative),
        ),
        Frame::Unknown(address) => Seen::Code(*address),
    };
    support::for_each_sample(&reader, &snapshot, |sample, frames| {
        if sample.foreign.unwrap().get() == thread {
            all.push(frames.iter().map(seen).collect());
        }
    });
    all
}

#[test]
fn a_label_is_between_the_function_that_opened_it_and_its_callee() {
    own_process!();
    let _session = Session::start(&[]);
    beside("labelled", labelled, |tid| {
        let samples = until(|| {
            let all = samples_of(tid.get());
            let of_work: Vec<_> = all.into_iter().filter(|frames| frames.len() > 3).collect();
            (of_work.len() > 50).then_some(of_work)
        });
        let label = Seen::Label("around the work".to_owned());
        let is_in = |seen: &Seen, function: usize| matches!(seen, Seen::Code(at) if (function as u64..function as u64 + 300).contains(at));
        let right = samples.iter().filter(|frames| {
            let Some(place) = frames.iter().position(|seen| *seen == label) else {
                return false;
            };
            is_in(&frames[place - 1], labelled as *const () as usize)
                && is_in(&frames[place + 1], innermost as *const () as usize)
                && frames.len() == place + 2
        });
        let right = right.count();
        // The first samples may be taken before the label is opened.
        assert!(
            right * 10 >= samples.len() * 9,
            "{right} of {}: {:?}",
            samples.len(),
            samples.last()
        );
    });
}

#[inline(never)]
fn inside_its_first_label(stop: &AtomicBool) -> u64 {
    std::hint::black_box(innermost(stop)) + 2
}

#[inline(never)]
fn opens_its_first_label(stop: &AtomicBool) -> u64 {
    let _label = label!("the first");
    std::hint::black_box(inside_its_first_label(stop)) + 1
}

#[test]
fn the_first_sample_inside_a_threads_first_label_shows_it() {
    own_process!();
    let _session = Session::start(&[]);
    let label = Seen::Label("the first".to_owned());
    // The function has a few dozen bytes, and its neighbours are larger.
    let start = inside_its_first_label as *const () as u64;
    let is_inside =
        |seen: &Seen| matches!(seen, Seen::Code(at) if (start..start + 32).contains(at));
    for _ in 0..5 {
        let has_trigger = AtomicBool::new(false);
        let work = |stop: &AtomicBool| {
            innermost(&has_trigger); // sampled, and without a label
            opens_its_first_label(stop)
        };
        beside("first label", work, |tid| {
            let samples = || samples_of(tid.get()).into_iter();
            until(|| samples().any(|frames| frames.len() > 2).then_some(()));
            has_trigger.store(true, Ordering::Relaxed);
            let inside = until(|| {
                let inside = samples().filter(|frames| frames.iter().any(is_inside));
                let inside: Vec<_> = inside.collect();
                (inside.len() >= 3).then_some(inside)
            });
            assert!(
                inside.iter().all(|frames| frames.contains(&label)),
                "{inside:?}"
            );
        });
    }
}

#[test]
fn without_stack_walking_samples_have_only_labels() {
    own_process!();
    let _session = Session::with(Features::CPU, &[]);
    beside("labels alone", labelled, |tid| {
        let label = [Seen::Label("around the work".to_owned())];
        until(|| {
            (samples_of(tid.get())
                .iter()
                .filter(|frames| **frames == label)
                .count()
                > 20)
                .then_some(())
        });
    });
}

static STEPS: Counter = Counter::new("Steps", "Test", "Steps that were taken");

#[test]
fn counters_are_written_when_they_change_and_at_the_tick_before() {
    own_process!();
    let _session = Session::with(
        Features::CPU
            .with(Features::PROCESS_CPU)
            .with(Features::MEMORY),
        &[],
    );
    let stop = AtomicBool::new(false);
    for step in 1..=3 {
        STEPS.add(10);
        wait_for_ticks(100); // several passes of the sampler
        stop.store(step == 3, Ordering::Relaxed);
    }
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let values = |name: &str| {
        let cell = snapshot
            .counters
            .iter()
            .find(|counter| counter.definition.name == name)
            .unwrap();
        let cell = cell.definition.cell;
        let mut all = Vec::new();
        support::for_each_entry(&reader, &snapshot, |entry| {
            if let Entry::Counters(counters) = entry {
                let own = counters.values().filter(|value| value.cell == cell);
                all.extend(own.map(|value| value.value));
            }
        });
        all
    };
    // On a busy machine two steps may be in one tick, or a tick may be late. The old value is
    // written again at the tick before a change, so no change looks gradual.
    let steps = values("Steps");
    assert!(steps.is_sorted() && steps.last() == Some(&30), "{steps:?}");
    assert!(
        steps.windows(2).any(|pair| pair[0] == pair[1]),
        "no value is repeated at the tick before a change: {steps:?}"
    );
    let cpu = values("processCPU");
    assert!(
        cpu.len() > 2 && cpu.is_sorted() && *cpu.last().unwrap() > 0,
        "{cpu:?}"
    );
    assert!(
        values("Resident memory")
            .iter()
            .any(|bytes| *bytes > 1 << 20)
    );
}
