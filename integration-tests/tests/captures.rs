//! Tests of captures: repeated, concurrent, during recording, and with errors.
//!
//! They check that every capture contains all committed entries, that a child that dies between two
//! captures is in both, and that the events of a capture name all children.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::{KILLED, Profile};
use integration_tests::session;
use profiler_core::ids::ByteLimit;
use profiler_core::marker;
use profiler_core::marker::{MarkerOptions, category};
use profiler_core::sampler::ModuleDefinition;
use profiler_core::time::Timestamp;
use profiler_parent::capture::{CodeNames, Symbols};
use profiler_parent::{Capture, CaptureError, CaptureEvent};
use serde_json::Value;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn a_second_capture_has_later_entries_and_those_of_children_that_died_since() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 2)?;
    helpers[0].ask("hold 2 200")?;
    helpers[1].ask("hold 2 200")?;
    let (_, first) = session.capture()?;
    assert_eq!(first.process("child-1")?.counts()?.delivered, 400);
    helpers[0].ask("mark 50")?;
    helpers[1].ask("mark 70")?;
    helpers[1].end("kill")?;
    for (_, later) in session.capture_both()? {
        later.holds("child-0", "complete", 450)?;
        later.holds("child-1", KILLED, 470)?;
    }
    Ok(())
}

#[test]
fn captures_while_recording_goes_on_are_whole() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(4 << 20)))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 3)?;
    HelperProcess::ask_all(&mut helpers, "flood 2 2000")?;
    for _ in 0..3 {
        let before = session.recorded();
        HelperProcess::ask_all(&mut helpers, "mark 1")?;
        assert!(
            until(|| session.recorded() > before + 5_000),
            "the flood stands still"
        );
        for (_, profile) in session.capture_both()? {
            for n in 0..3 {
                let name = format!("child-{n}");
                let process = profile.process(&name)?;
                assert_eq!(profile.verdict(&name)?, "complete");
                let numbers = process.numbers()?;
                assert!(
                    numbers
                        .values()
                        .all(|numbers| numbers.is_sorted_by(|a, b| a < b)),
                    "{name}"
                );
                let counts = process.counts()?;
                assert_eq!(
                    counts.delivered,
                    numbers.values().map(|n| n.len() as u64).sum::<u64>(),
                    "{name}"
                );
                assert!(counts.delivered > 0, "{name}");
            }
        }
    }
    Ok(())
}

#[test]
fn captures_at_the_same_time_queue() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 2)?;
    HelperProcess::ask_all(&mut helpers, "hold 2 500")?;
    let paths = ["a.json", "b.json", "c.json"].map(|name| session.path(name));
    let session = session.session()?;
    std::thread::scope(|scope| {
        let captures = paths.each_ref().map(|path| {
            let capture = session.capture();
            scope.spawn(move || capture.save(path))
        });
        captures
            .into_iter()
            .try_for_each(|capture| capture.join().expect("no panic").map(drop))
    })?;
    for path in &paths {
        let profile = Profile::read(path)?;
        for name in ["child-0", "child-1"] {
            profile.holds(name, "complete", 1000)?;
        }
    }
    Ok(())
}

#[test]
fn the_events_of_a_capture_count_the_requests_and_name_every_settled_child() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let helpers = HelperProcess::spawn_many(&session, CHILD, 2)?;
    let capture = session.gecko_capture()?;
    let events = capture.events();
    capture.save(session.path("events.json"))?;
    let events: Vec<_> = events.collect();
    assert_eq!(events[0], CaptureEvent::Asked(2));
    let settled = |event: &CaptureEvent| match event {
        CaptureEvent::Settled { pid, .. } => Some(pid.get()),
        _ => None,
    };
    let mut settled: Vec<u32> = events.iter().filter_map(settled).collect();
    settled.sort_unstable();
    let mut pids: Vec<u32> = helpers.iter().map(HelperProcess::pid).collect();
    pids.sort_unstable();
    assert_eq!(settled, pids);
    Ok(())
}

/// Symbols that save a capture of their own.
struct Nested(Option<Capture>, PathBuf, Sender<Result<(), CaptureError>>);

impl Symbols for Nested {
    fn begin(&mut self, _modules: usize) {
        let capture = self.0.take().expect("called once");
        self.2.send(capture.save(&self.1).map(drop)).unwrap();
    }

    fn resolve(
        &mut self,
        _module: &ModuleDefinition,
        _addresses: &[u64],
        _found: &mut dyn FnMut(u64, &CodeNames<'_>),
    ) {
    }
}

#[test]
fn a_capture_inside_the_symbols_of_another_one_is_an_error() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let (sender, inner) = std::sync::mpsc::channel();
    let nested = Nested(
        Some(session.session()?.capture()),
        session.path("inner.json"),
        sender,
    );
    let outer = session.session()?.capture().symbols(nested);
    outer.save(session.path("outer.json"))?;
    let refused = inner.recv()?;
    assert!(
        matches!(refused, Err(CaptureError::WithinCapture)),
        "{refused:?}"
    );
    session.capture()?; // later captures work
    Ok(())
}

#[test]
fn intervals_that_end_before_they_begin_or_after_the_capture_are_cut() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let now = Timestamp::now();
    let times = [
        (now, Timestamp::from_raw(1)),
        (now, Timestamp::from_raw(u64::MAX)),
        (Timestamp::from_raw(u64::MAX), now),
    ];
    for (start, end) in times {
        let options = MarkerOptions::interval(start, end);
        marker!("odd interval", &category::OTHER, options);
    }
    for (report, _) in session.capture_both()? {
        let profile: Value = serde_json::from_reader(std::fs::File::open(&report.path)?)?;
        let end = latest_time(&profile);
        // The session has existed for less than a day.
        anyhow::ensure!(end > 0.0 && end < 86_400_000.0, "{end} ms");
    }
    Ok(())
}

/// The largest number in the columns and rows of a profile that have times of markers.
fn latest_time(profile: &Value) -> f64 {
    let threads = profile["threads"].as_array().into_iter().flatten();
    let of_thread = |thread: &Value| -> Vec<f64> {
        let markers = &thread["markers"];
        let ends = markers["endTime"].as_array().into_iter().flatten();
        let column = markers["schema"]["endTime"].as_u64().unwrap_or(0) as usize;
        let rows = markers["data"].as_array().into_iter().flatten();
        let of_rows = rows.filter_map(|row| row[column].as_f64());
        ends.filter_map(Value::as_f64).chain(of_rows).collect()
    };
    threads.flat_map(of_thread).fold(0.0, f64::max)
}

#[test]
fn a_capture_that_cannot_be_written_is_an_error_and_the_next_one_works() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    helper.ask("mark 10")?;
    let error = session
        .session()?
        .capture()
        .save(session.path("no/such/directory.json"))
        .unwrap_err();
    assert!(matches!(error, CaptureError::Output(_)), "{error}");
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdict("child")?, "complete");
    Ok(())
}
