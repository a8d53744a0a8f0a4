//! Tests of sampling at safe points: the samples that an interpreter takes of itself are in the
//! pool, and a sampler that is off holds no resources. Rows X5 to X8 of `docs/features.md`.

#![cfg(not(loom))]
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{self};
use profiler_core::ids::{ByteLimit, ThreadId};
use profiler_core::marker::category;
use profiler_core::safepoint::{FunctionId, FunctionName, SafePointSampler, StackRoom};
use profiler_core::sampler::{Frame, MAX_FRAMES, define_label};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_core::time::Anchor;
use test_support::counting::{allocations_of, bytes_kept_by};
#[cfg(target_os = "linux")]
use test_support::forks::in_forked_child;
use test_support::own_process;

/// A session without other samplers. It stops on drop.
struct OnlySafePoints;

impl OnlySafePoints {
    fn new() -> Self {
        start(SessionParams::default().limit);
        Self
    }
}

fn start(limit: ByteLimit) {
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NO_SAMPLING);
    let params = SessionParams {
        features,
        limit,
        ..SessionParams::default()
    };
    session::start(
        params,
        StartOptions {
            name: "script".to_owned(),
            ..StartOptions::default()
        },
    )
    .unwrap();
}

impl Drop for OnlySafePoints {
    fn drop(&mut self) {
        session::stop();
    }
}

/// The number of a thread that does not exist in this process.
const ROW: ThreadId = ThreadId::new(0x7000_0001);
const MS: Duration = Duration::from_millis(1);

/// A sample: nanoseconds since the start of the session, processor time, and the names of the
/// frames, outermost first.
type Seen = (i64, Option<u64>, Vec<String>);

fn samples(row: ThreadId) -> Vec<Seen> {
    let reader = support::pool();
    let snapshot = reader.snapshot().unwrap();
    let converter = reader.header().clock.converter(Anchor::take());
    let mut all = Vec::new();
    let name = |frame: &Frame| match frame {
        Frame::Label(id) => snapshot.definitions.label(*id).unwrap().name.clone(),
        other => format!("{other:?}"),
    };
    support::for_each_sample(&reader, &snapshot, |sample, frames| {
        if sample.foreign == Some(row) {
            let names = frames.iter().map(name).collect();
            all.push((converter.since_start_ns(sample.at), sample.cpu_ns, names));
        }
    });
    all
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

fn named(name: &'static str) -> FunctionName<'static> {
    FunctionName {
        name,
        file: "script.lua",
        line: 3,
    }
}

fn push(stack: &mut StackRoom<'_>, id: u64, name: &'static str) {
    stack.push(FunctionId(id), || named(name));
}

#[test]
fn x5_a_long_native_stretch_is_one_sample_with_its_whole_time() {
    own_process!();
    let _session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(ROW, MS);
    assert!(sampler.start() && sampler.is_on());
    std::thread::sleep(50 * MS);
    sampler.poll(|stack| {
        push(stack, 1, "main");
        push(stack, 2, "native");
    });
    let all = samples(ROW);
    assert_eq!(all.len(), 2, "the start, and one sample: {all:?}");
    assert!(all[0].2.is_empty(), "the first sample only marks the start");
    assert_eq!(all[1].2, ["main", "native"]);
    assert!(all[1].0 - all[0].0 >= 50_000_000, "{all:?}");
}

#[test]
fn x6_a_pause_is_a_sample_without_a_stack() {
    own_process!();
    let _session = OnlySafePoints::new();
    let begin = now();
    let mut sampler = SafePointSampler::new(ROW, MS);
    sampler.start();
    std::thread::sleep(2 * MS);
    let before = now();
    sampler.suspend();
    std::thread::sleep(100 * MS);
    sampler.poll(|stack| push(stack, 1, "debugger"));
    sampler.resume();
    let paused = before.elapsed();
    std::thread::sleep(2 * MS);
    sampler.stop(|stack| push(stack, 2, "main"));
    let lived = begin.elapsed();
    let all = samples(ROW);
    let stacks: Vec<_> = all.iter().map(|(.., names)| names.join(";")).collect();
    assert_eq!(stacks, ["", "", "main"], "the debugger is not sampled");
    let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap();
    let slack = 1_000_000;
    let pause = all[1].0 - all[0].0;
    let own = all[2].0 - all[1].0;
    assert!(
        pause >= 100_000_000 - slack && pause <= ns(paused) + slack,
        "{pause}"
    );
    assert!(
        own >= 4_000_000 - slack,
        "{own}: its own time before and after the pause"
    );
    assert!(
        own <= ns(lived) - pause + slack,
        "{own}: the pause is not part of it"
    );
}

#[test]
fn x7_each_function_is_recorded_once_and_no_sample_is_lost_at_the_stop() {
    own_process!();
    let _session = OnlySafePoints::new();
    let mut name_requests: BTreeMap<u64, u32> = BTreeMap::new();
    let mut polls = 0;
    // With an interval of zero, every poll samples.
    let mut sampler = SafePointSampler::new(ROW, Duration::ZERO);
    for _ in 0..20 {
        assert!(sampler.start());
        for number in 0..13 {
            sampler.poll(|stack| {
                polls += 1;
                for id in [number % 3, 7] {
                    stack.push(FunctionId(id), || {
                        *name_requests.entry(id).or_default() += 1;
                        FunctionName {
                            name: if id == 7 { "leaf" } else { "caller" },
                            file: "f",
                            line: id as u32,
                        }
                    });
                }
            });
        }
        sampler.stop(|stack| push(stack, 9, "last"));
    }
    let all = samples(ROW);
    let of = |name: &str| {
        all.iter()
            .filter(|(.., names)| names.last().is_some_and(|last| last == name))
            .count()
    };
    assert_eq!(
        (of("leaf"), of("last")),
        (polls, 20),
        "also the last sample of each run"
    );
    assert!(polls >= 20, "{polls}");
    let reader = support::pool();
    let definitions = reader.definitions().unwrap();
    let mut labels: Vec<_> = definitions
        .labels()
        .into_iter()
        .map(|(_, label)| (label.name.as_str(), label.line))
        .collect();
    labels.sort_unstable();
    let mut unique = labels.clone();
    unique.dedup();
    assert_eq!(labels, unique, "each label is defined once over all runs");
    assert!(
        name_requests.values().all(|times| *times <= 20),
        "a name is requested more than once in a run: {name_requests:?}"
    );
}

/// Counts the threads of the profiler, and unnamed threads that this thread has started: they
/// inherit its name. Threads of the test harness have other names; they start and end at any time,
/// so they are not counted.
fn own_threads() -> usize {
    let name =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
    let own = name("/proc/thread-self".as_ref());
    let all = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    all.map(|task| name(&task.path()))
        .filter(|name| *name == own || name.starts_with("profiler"))
        .count()
}

#[test]
fn x8_nothing_is_held_while_it_is_off() {
    own_process!();
    let _session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(ROW, Duration::ZERO);
    let allocations = allocations_of(|| {
        sampler.poll(|stack| push(stack, 1, "main"));
        sampler.suspend();
        sampler.resume();
        sampler.stop(|stack| push(stack, 1, "main"));
    });
    assert_eq!(allocations, 0, "before the start nothing is allocated");
    let run = |sampler: &mut SafePointSampler| {
        assert!(sampler.start());
        sampler.poll(|stack| push(stack, 1, "main"));
        sampler.stop(|stack| push(stack, 2, "other"));
    };
    // The thread joins the session in its first run.
    run(&mut sampler);
    let before = own_threads();
    let kept = bytes_kept_by(|| (0..1000).for_each(|_| run(&mut sampler)));
    // A thread that changes chunks passes a few hundred bytes to the chunk manager. A leak would be
    // a thousand times as large.
    assert!(kept.abs() < 4000, "a run does not free its memory: {kept}");
    let mut tries = 0..12_000;
    while own_threads() != before && tries.next().is_some() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(own_threads(), before, "a thread is left");
    let allocations = allocations_of(|| sampler.poll(|stack| push(stack, 1, "main")));
    assert_eq!(allocations, 0, "after the stop nothing is allocated");
}

#[test]
fn a_sampler_stays_off_without_a_session_and_restarts_in_the_next_one() {
    own_process!();
    let session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(profiler_core::thread::current(), Duration::ZERO);
    assert!(sampler.start());
    session::stop();
    sampler.poll(|stack| push(stack, 1, "unseen"));
    let mut other = SafePointSampler::new(ROW, MS);
    assert!(!other.start() && !other.is_on());
    drop(session);
    let _session = OnlySafePoints::new();
    sampler.poll(|stack| push(stack, 1, "unseen"));
    let before = now();
    while before.elapsed() < MS {}
    sampler.poll(|stack| push(stack, 1, "seen"));
    let all = samples(profiler_core::thread::current());
    let (_, cpu, names) = all.last().unwrap();
    assert_eq!(names.last().map(String::as_str), Some("seen"));
    assert!(
        cpu.is_some_and(|ns| ns > 0),
        "its own thread's processor time is measured"
    );
}

/// Defines labels until there is no space for another. Returns their number.
fn fill_definitions() -> u64 {
    let mut number = 0;
    for prefix in ["x".repeat(200), String::new()] {
        while define_label(&format!("{prefix}{number}"), &category::OTHER, "", 1).is_some() {
            number += 1;
        }
    }
    number
}

#[test]
fn x7_a_pool_without_space_for_names_is_read_once_and_sampling_continues_without_names() {
    own_process!();
    let _session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(ROW, Duration::ZERO);
    assert!(sampler.start());
    session::stop();
    start(ByteLimit::new(4 << 20));
    let labels = fill_definitions();
    assert!(labels > 1000, "{labels}");
    sampler.poll(|stack| push(stack, 1, "unseen")); // notices the new session
    sampler.poll(|stack| push(stack, 1, "nameless"));
    let mut polls = 0;
    let mut nameless = |stack: &mut StackRoom<'_>| {
        polls += 1;
        push(stack, 1, "nameless");
    };
    let allocations = allocations_of(|| (0..20).for_each(|_| sampler.poll(&mut nameless)));
    assert!(
        allocations < labels,
        "{allocations} allocations: the definitions were read again"
    );
    let all = samples(ROW);
    let nameless = all
        .iter()
        .filter(|(.., names)| *names == ["Unknown(0)"])
        .count();
    assert!(polls > 0 && nameless >= polls, "{polls} {all:?}");
    let mut other = SafePointSampler::new(ROW, Duration::ZERO);
    assert!(other.start(), "a new sampler starts, too");
}

#[test]
fn x8_the_memory_for_a_deep_stack_is_bounded_and_the_innermost_functions_are_kept() {
    own_process!();
    const DEPTH: u64 = 1_000_000;
    let _session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(ROW, Duration::ZERO);
    assert!(sampler.start());
    let deep = |stack: &mut StackRoom<'_>| {
        (0..DEPTH).for_each(|_| push(stack, 1, "recursive"));
        push(stack, 2, "leaf");
    };
    let kept = bytes_kept_by(|| (0..2).for_each(|_| sampler.poll(deep)));
    assert!(kept < 500_000, "{kept} bytes are kept");
    let all = samples(ROW);
    let (.., names) = all.iter().find(|(.., names)| !names.is_empty()).unwrap();
    assert_eq!(names.len(), MAX_FRAMES);
    assert_eq!(names.iter().filter(|name| *name == "leaf").count(), 1);
    assert_eq!(names.last().map(String::as_str), Some("leaf"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_forked_child_samples_and_defines_nothing_and_is_not_harmed() {
    own_process!();
    let _session = OnlySafePoints::new();
    let mut sampler = SafePointSampler::new(profiler_core::thread::current(), Duration::ZERO);
    assert!(sampler.start());
    sampler.poll(|stack| push(stack, 1, "parent"));
    let in_child = || {
        sampler.poll(|stack| push(stack, 2, "child"));
        i32::from(define_label("child", &category::OTHER, "", 1).is_some())
    };
    // SAFETY: the child only polls and defines a label. The allocator of the C library works there.
    let status = unsafe { in_forked_child(in_child) };
    assert_eq!(status, 0, "the child was harmed, or defined something");
}
