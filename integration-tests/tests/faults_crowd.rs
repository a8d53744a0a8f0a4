//! Tests of many threads, markers and children at once.
//!
//! Counts are exact and the memory limit holds. Threads and descriptors are returned to the system,
//! and `spawn` fails with the reason if the system has no more.

use std::process::{Command, Stdio};
use std::time::Duration;

use integration_tests::fixture::Fixture;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::Possessions;
use integration_tests::own_process;
use integration_tests::patience::{LONG, Stopwatch, until};
use integration_tests::profile::{KILLED, Profile};
use integration_tests::reports::captured;
use integration_tests::session::{self, TestSession};
use profiler_core::ids::ByteLimit;
use profiler_parent::{Format, ProcessState, ProfiledChild};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn ten_thousand_short_lived_threads_are_counted_exactly() -> anyhow::Result<()> {
    own_process!();
    const THREADS: u64 = 10_000;
    for limit in [4 << 20, 256 << 20] {
        let mut scene = Fixture::set(CHILD, |builder| builder.memory_limit(ByteLimit::new(limit)))?;
        let mut helper = scene.child("churn", "init")?;
        helper.ask(&format!("churn {THREADS} 3"))?;
        helper.ask("mark 10")?;
        let (report, profile) = match limit {
            // The new threads evict entries of the other processes, so these are not checked.
            4_194_304 => TestSession::capture(&scene)?,
            _ => scene.capture()?,
        };
        let counts = captured(&report, "churn").counts;
        assert_eq!(counts.recorded(), THREADS * 3 + 10, "{counts:?}");
        assert_eq!(counts.unfinished, 0);
        let process = profile.process("churn")?;
        let logged = process.counts()?;
        assert_eq!(
            logged.delivered, counts.delivered,
            "{logged:?} and {counts:?}"
        );
        let there = process
            .named("numbered")
            .map(|mark| mark.number())
            .collect::<anyhow::Result<Vec<_>>>()?;
        assert_eq!(there.len() as u64, counts.delivered);
        let distinct: std::collections::BTreeSet<_> = there.iter().collect();
        assert_eq!(distinct.len(), there.len(), "a marker is delivered twice");
        // The allowance grows only as fast as the parent answers. Entries beyond it are dropped and
        // counted.
        assert!(
            limit == 4 << 20 || counts.delivered > THREADS * 2,
            "{counts:?}"
        );
        assert!(helper.end("exit 0")?.success());
    }
    Ok(())
}

/// Ten threads record at full speed for `PROFILER_FLOOD_SECONDS` seconds, by default 2.
#[test]
fn a_flood_from_ten_threads_stays_within_the_limit_and_is_counted_exactly() -> anyhow::Result<()> {
    own_process!();
    const LIMIT: u64 = 32 << 20;
    let seconds = std::env::var("PROFILER_FLOOD_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2);
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut flood = HelperProcess::spawn(&session, CHILD, "flood", "init")?;
    let mut quiet = HelperProcess::spawn(&session, CHILD, "quiet", "init")?;
    flood.ask("flood 10")?;
    let watch = Stopwatch::start();
    let mut rounds = 0;
    while watch.elapsed() < Duration::from_secs(seconds) || rounds < 5 {
        let processes = session.processes();
        let held: u64 = processes.iter().map(|process| process.true_bytes).sum();
        assert!(held <= LIMIT, "{held}");
        assert!(
            processes.iter().all(|process| process.excess_bytes == 0),
            "{processes:?}"
        );
        assert!(
            until(|| session.resume_sampling().is_complete()),
            "a process does not answer"
        );
        assert_eq!(quiet.ask("mark 10")?, "ok");
        rounds += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    for format in [Format::Processed, Format::Gecko] {
        let capture = session.session()?.capture().format(format);
        capture.save(session.path("amid.json"))?;
    }
    flood.ask("calm")?;
    let all: u64 = flood.ask("flooded")?.trim_start_matches("ok ").parse()?;
    let (report, profile) = session.capture()?;
    for name in ["flood", "quiet"] {
        let counts = captured(&report, name).counts;
        assert_eq!(
            counts.recorded(),
            if name == "flood" { all } else { rounds * 10 },
            "{name}: {counts:?}"
        );
        assert_eq!(profile.verdict(name)?, "complete");
        profile.process(name)?.counts()?;
    }
    println!("{all} markers in {seconds} s");
    Ok(())
}

/// A child without pipes, which records a hundred markers and lives until it is killed.
#[derive(Debug)]
struct Member(ProfiledChild);

impl Member {
    fn spawn(session: &TestSession, n: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(CHILD);
        command
            .arg("record-and-stay")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self(session.spawn(&format!("child-{n}"), command)?))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn connected(session: &TestSession) -> usize {
    session
        .processes()
        .iter()
        .filter(|process| process.state == ProcessState::Connected)
        .count()
}

/// Captures in both formats until all markers of these children are in both profiles.
fn check_crowd(session: &TestSession, names: impl Iterator<Item = usize>) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let all: Vec<usize> = names.collect();
    until(|| {
        let Ok(captured) = session.capture_both() else {
            return false;
        };
        let is_wrong = |n: &&usize| captured.iter().any(|(_, profile)| !is_whole(profile, **n));
        wrong = all.iter().filter(is_wrong).copied().collect();
        wrong.is_empty()
    });
    anyhow::ensure!(wrong.is_empty(), "not complete: {wrong:?}");
    Ok(())
}

/// Whether the profile has all markers of a child and calls it complete.
fn is_whole(profile: &Profile, n: usize) -> bool {
    let name = format!("child-{n}");
    let numbers = profile.process(&name).and_then(|process| process.numbers());
    let whole = numbers.is_ok_and(|numbers| {
        numbers
            .get(&1000)
            .is_some_and(|found| found.iter().copied().eq(0..100))
    });
    whole
        && profile
            .verdict(&name)
            .is_ok_and(|verdict| verdict == "complete")
}

#[test]
fn two_hundred_children_at_once_are_complete_and_leave_nothing() -> anyhow::Result<()> {
    own_process!();
    const CHILDREN: usize = 200;
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(256 << 20))
            .progress_timeout(LONG)
    })?;
    session.environment()?;
    session.capture()?; // all threads of the session have started
    let before = Possessions::count_named()?;
    let children = (0..CHILDREN)
        .map(|n| Member::spawn(&session, n))
        .collect::<anyhow::Result<Vec<_>>>()?;
    assert!(until(|| connected(&session) == CHILDREN));
    let with = Possessions::count();
    println!(
        "{} descriptors per child",
        (with.descriptors - before.descriptors) as f64 / CHILDREN as f64
    );
    check_crowd(&session, 0..CHILDREN)?;
    drop(children);
    let has_ended = |state: &ProcessState| matches!(state, ProcessState::Exited(_));
    assert!(until(|| session
        .processes()
        .iter()
        .filter(|process| has_ended(&process.state))
        .count()
        == CHILDREN));
    let (_, profile) = session.capture()?;
    for n in 0..CHILDREN {
        assert_eq!(profile.verdict(&format!("child-{n}"))?, KILLED);
    }
    assert!(
        until(|| Possessions::count().threads <= before.threads),
        "{before:?}, {:?}",
        Possessions::count()
    );
    println!("{before:?}, {with:?}, then {:?}", Possessions::count());
    Ok(())
}

/// Sets the limit of descriptors of this process, and returns the previous limit.
fn limit_descriptors(most: u64) -> anyhow::Result<libc::rlimit> {
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes only to `before`, which lives until it returns.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) };
    anyhow::ensure!(failed == 0, "no limit");
    let now = libc::rlimit {
        rlim_cur: most.min(before.rlim_max),
        ..before
    };
    // SAFETY: the call only reads `now`, which lives until it returns.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &now) };
    anyhow::ensure!(failed == 0, "cannot set the limit");
    Ok(before)
}

#[test]
fn a_parent_without_descriptors_says_so_and_loses_no_child() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| {
        builder
            .memory_limit(ByteLimit::new(64 << 20))
            .progress_timeout(LONG)
    })?;
    session.capture()?;
    let before = limit_descriptors(128)?;
    let mut children = Vec::new();
    let mut errors = Vec::new();
    for n in 0..60 {
        match Member::spawn(&session, n) {
            Ok(child) => children.push((n, child)),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    println!(
        "{} children with 128 descriptors; {}",
        children.len(),
        errors.first().expect("an error")
    );
    assert!(
        errors
            .iter()
            .all(|error| error.contains("Too many open files")),
        "{errors:?}"
    );
    assert_eq!(
        session.processes().len(),
        children.len() + 1,
        "a child that was not started is in the list"
    );
    // The descriptors may suffice for a child, and not for its recording.
    let is_profiled = |(_, member): &(usize, Member)| member.0.is_profiled();
    let (children, unprofiled): (Vec<_>, Vec<_>) = children.into_iter().partition(is_profiled);
    // With descriptors again, every child that was started is complete, or the session tells why it
    // is not: a child that connected while no descriptor was free was refused.
    limit_descriptors(before.rlim_cur)?;
    let is_refused = |n: usize| {
        let state = session
            .processes()
            .into_iter()
            .find(|process| process.name == format!("child-{n}"));
        matches!(
            state.map(|process| process.state),
            Some(ProcessState::Disconnected(_))
        )
    };
    let refused = || children.iter().filter(|(n, _)| is_refused(*n)).count();
    assert!(
        until(|| connected(&session) + refused() == children.len()),
        "{:?}",
        session.processes()
    );
    assert!(refused() < children.len() / 2, "{:?}", session.processes());
    check_crowd(
        &session,
        children.iter().map(|(n, _)| *n).filter(|n| !is_refused(*n)),
    )?;
    let (_, profile) = session.capture()?;
    for (n, _) in children.iter().filter(|(n, _)| is_refused(*n)) {
        let verdict = profile.verdict(&format!("child-{n}"))?;
        assert!(verdict.contains("refused: "), "{verdict}");
    }
    for (n, _) in &unprofiled {
        let verdict = profile.verdict(&format!("child-{n}"))?;
        assert!(verdict.contains("Too many open files"), "{verdict}");
    }
    Ok(())
}

#[test]
fn spawn_fails_with_too_many_open_files_at_every_missing_descriptor() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    session.capture()?;
    let before = limit_descriptors(128)?;
    // Takes all descriptors, and releases one at a time until there are enough for a child.
    let mut taken: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    let mut errors = Vec::new();
    let child = loop {
        match Member::spawn(&session, errors.len()) {
            Ok(child) => break child,
            Err(error) => errors.push(format!("{error:#}")),
        }
        anyhow::ensure!(taken.pop().is_some(), "128 are not enough: {errors:?}");
    };
    limit_descriptors(before.rlim_cur)?;
    drop((taken, child));
    assert!(
        errors.len() > 2
            && errors
                .iter()
                .all(|error| error.contains("Too many open files")),
        "{errors:?}"
    );
    Ok(())
}

#[test]
fn the_dead_keep_no_more_than_a_share_of_the_descriptors() -> anyhow::Result<()> {
    own_process!();
    const CHILDREN: usize = 80;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(256 << 20)))?;
    session.environment()?;
    session.capture()?;
    let limit = limit_descriptors(128)?;
    let before = Possessions::count().descriptors;
    for n in 0..CHILDREN {
        let mut helper = HelperProcess::spawn(&session, CHILD, &format!("child-{n}"), "init")?;
        helper.ask("mark 100")?;
        assert!(helper.end("exit 0")?.success());
    }
    assert!(
        until(|| Possessions::count().descriptors <= before + 32),
        "{}",
        Possessions::count().descriptors
    );
    let (report, profile) = session.capture()?;
    limit_descriptors(limit.rlim_cur)?;
    for n in 0..CHILDREN {
        let name = format!("child-{n}");
        let is_kept = n >= CHILDREN - 32;
        let counts = captured(&report, &name).counts;
        assert_eq!(
            (counts.recorded(), counts.delivered),
            (100, if is_kept { 100 } else { 0 }),
            "{name}"
        );
        assert_eq!(
            profile.verdict(&name)? == "complete",
            is_kept,
            "{name}: {}",
            profile.verdict(&name)?
        );
    }
    Ok(())
}
