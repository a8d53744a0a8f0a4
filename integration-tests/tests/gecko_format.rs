//! Tests of the Gecko format. Each process writes its own part. If a process writes none, the parent
//! reads its memory.
//!
//! `processed` tests the default format, `faults_json` parts that are malformed, `frozen` children
//! that do not answer in time, and `captures` the events of a capture. Where children do something
//! for a capture in this format, their tests capture in both.

use anyhow::ensure;
use integration_tests::helper_process::HelperProcess;
use integration_tests::marks;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::{Process, Profile, Thread};
use integration_tests::samples::Sample;
use integration_tests::session::{self, TestSession};
use profiler_core::session::Features;
use profiler_parent::groups::Probes;
use profiler_parent::{CaptureEvent, Format};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const KILLED: &str = "recovered: ended by signal 9 (SIGKILL)";

/// Starts the children of a scene: one lives, one exited, one was killed, and one was killed before
/// it was connected. No process records any more.
fn children(session: &TestSession) -> anyhow::Result<Vec<HelperProcess>> {
    let names = ["alive", "exited", "killed"];
    let helpers = names.map(|name| HelperProcess::spawn(session, CHILD, name, "init"));
    let mut helpers: Vec<HelperProcess> = helpers.into_iter().collect::<anyhow::Result<_>>()?;
    for helper in &mut helpers {
        helper.ask("hold 3 500")?;
        helper.ask("mark 50")?;
    }
    helpers[1].end("exit 0")?;
    helpers[2].end("kill")?;
    let mut command = std::process::Command::new(CHILD);
    command.arg("die-in-init");
    session.spawn("hasty", command)?.wait()?;
    (0..100).for_each(|sequence| marks::record(0, sequence));
    Ok(helpers)
}

fn verdicts_are_right(profile: &Profile) -> anyhow::Result<()> {
    for (name, expected) in [
        ("parent", "complete"),
        ("alive", "complete"),
        ("exited", "complete"),
        ("killed", KILLED),
        ("hasty", KILLED),
    ] {
        assert_eq!(profile.verdict(name)?, expected, "{name}");
    }
    let incomplete = ["killed", "hasty"].map(|name| (name.to_owned(), KILLED.to_owned()));
    let mut found = profile.incomplete();
    found.sort_unstable_by_key(|(name, _)| std::cmp::Reverse(name.clone()));
    assert_eq!(found, incomplete);
    Ok(())
}

#[test]
fn the_parts_of_all_processes_are_there_whichever_process_wrote_them() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let _helpers = children(&session)?;
    let (_, profile) = session.capture_gecko()?;
    let parts = profile.json["processes"].as_array().map_or(0, Vec::len);
    assert_eq!((parts, profile.processes.len()), (4, 5));
    verdicts_are_right(&profile)?;
    for name in ["alive", "exited", "killed"] {
        let process = profile.process(name)?;
        let numbers = process.numbers()?;
        assert!((0..3).all(|thread| numbers[&thread].iter().copied().eq(0..500)));
        assert_eq!(process.counts()?.delivered, 1550, "{name}");
    }
    assert!(profile.parent().numbers()?[&0].iter().copied().eq(0..100));
    Ok(())
}

#[test]
fn only_the_children_that_live_are_asked_for_a_part() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let helpers = children(&session)?;
    let alive = helpers[0].pid();
    let capture = session.session()?.capture();
    let capture = capture.format(Format::Gecko);
    let events = capture.events();
    capture.save(session.path("events.json"))?;
    let events: Vec<CaptureEvent> = events.collect();
    assert!(events.contains(&CaptureEvent::Asked(1)), "{events:?}");
    for event in &events {
        if let CaptureEvent::Progress { pid, .. } = event {
            assert_eq!(pid.get(), alive, "{events:?}");
        }
    }
    Ok(())
}

/// What a thread has, in a form that can be compared and sorted.
fn contents(thread: &Thread) -> String {
    let marks = thread.marks.iter().map(|mark| (&mark.name, &mark.data));
    let samples = thread.samples.all.iter();
    let samples = samples.map(|sample| (sample.cpu_ns, thread.samples.stack(sample)));
    format!(
        "{} {:?} {:?} {:?}",
        thread.name,
        thread.counts,
        marks.collect::<Vec<_>>(),
        samples.collect::<Vec<_>>()
    )
}

/// All times of a process in milliseconds, the earliest first.
fn times(process: &Process) -> Vec<f64> {
    let of_thread = |thread: &Thread| {
        let marks = thread.marks.iter().map(|mark| mark.time);
        let samples = thread.samples.all.iter().map(|sample: &Sample| sample.time);
        marks.chain(samples).collect::<Vec<_>>()
    };
    let mut all: Vec<f64> = process.threads.iter().flat_map(of_thread).collect();
    let pauses = process.pauses.iter();
    all.extend(pauses.flat_map(|(start, end)| [Some(*start), *end].into_iter().flatten()));
    all.sort_unstable_by(f64::total_cmp);
    all
}

/// The sums of the counters of groups: time and number of entries. Counters of the system, such as
/// the resident memory, change from capture to capture.
fn counters(process: &Process) -> Vec<(&str, f64, u64)> {
    let all = process.counters.iter();
    let known = all.filter(|counter| counter.category == "Group");
    let sums = known.map(|counter| {
        let changes = counter.changes.iter();
        let sum = changes.clone().map(|row| (row.count * 1e6).round()).sum();
        (&*counter.name, sum, changes.map(|row| row.number).sum())
    });
    sums.collect()
}

fn are_equal(one: &Process, other: &Process) {
    assert_eq!((one.pid, &one.name), (other.pid, &other.name));
    assert_eq!(one.total, other.total, "{}", one.name);
    assert_eq!(one.pauses.len(), other.pauses.len(), "{}", one.name);
    assert_eq!(counters(one), counters(other), "{}", one.name);
    let [threads, others] = [one, other].map(|process| {
        let mut all: Vec<String> = process.threads.iter().map(contents).collect();
        all.sort_unstable();
        all
    });
    assert_eq!(threads, others, "{}", one.name);
    // The clock is compared with the system's clock at each capture.
    let (times, others) = (times(one), times(other));
    assert_eq!(times.len(), others.len());
    for (time, other) in times.iter().zip(&others) {
        assert!((time - other).abs() < 0.01, "{}: {time} {other}", one.name);
    }
}

/// Also a test of [`Profile`], which reads both formats.
#[test]
fn both_formats_have_the_same_threads_markers_samples_counters_and_verdicts() -> anyhow::Result<()>
{
    own_process!();
    let features = Features::STACK_WALK
        .with(Features::CPU)
        .with(Features::NO_SAMPLING);
    let session = session::start(|builder| builder.features(features))?;
    let _monitor = session.monitor(Probes::ALL);
    let mut sampled = HelperProcess::spawn(&session, CHILD, "sampled", "init")?;
    let all_measure = || {
        let snapshot = session.groups();
        let mut processes = snapshot.processes.iter();
        processes.all(|process| process.probes == Probes::ALL)
    };
    ensure!(until(all_measure), "not all measure");
    assert!(sampled.ask("sample f 5 100")?.starts_with("ok"));
    assert!(sampled.ask("sample-for plugin g 3 50")?.starts_with("ok"));
    let _helpers = children(&session)?;
    ensure!(session.all_pause(), "not paused");
    let [(_, processed), (_, gecko)] = session.capture_both()?;
    verdicts_are_right(&processed)?;
    verdicts_are_right(&gecko)?;
    assert_eq!(processed.processes.len(), 6);
    assert_eq!(gecko.processes.len(), 6);
    for process in &processed.processes {
        are_equal(process, gecko.process(&process.name)?);
    }
    let sampled = processed.process("sampled")?;
    let of = |name: &str| {
        let threads = sampled.threads.iter();
        let found = threads.map(|thread| thread.samples.of(|frame| frame == name).1);
        found.sum::<usize>()
    };
    assert_eq!((of("f"), of("g"), of("main")), (5, 3, 0));
    assert!(!counters(sampled).is_empty());
    Ok(())
}
