//! Tests of children that record correctly and send false messages on their control channel.
//!
//! A child that lies loses at most its channel, with either transport. The profile contains all its
//! entries and tells what was wrong. The parent, an honest child and the next capture are unharmed,
//! and no thread or descriptor remains. The lies are in `src/bin/child/malicious_channel.rs`.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::{Possessions, thread_names};
use integration_tests::own_process;
use integration_tests::patience::{patiently, until};
use integration_tests::profile::{FROZEN, Profile};
use integration_tests::session;
use profiler_parent::core::session::Features;
use profiler_parent::{ProcessState, Session};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// The reason that the session gives for a closed channel.
const GONE: &str = "the other side is gone";

/// An untrusted child writes no part: the parent reads its pool and does not need its answers.
const UNAFFECTED: Outcome = Outcome::Heard(["complete"; 2]);

/// One of two verdicts: a child reports progress without end only while it gets a processor.
const LATE_OR_FROZEN: &str =
    "recovered: not finished at the deadline|recovered: frozen: made no progress";

/// Starts the liar.
type Spawn = fn(&Session, &str, &str, &str) -> anyhow::Result<HelperProcess>;
/// Makes the liar lie. The second argument is an honest child of the same session.
type Lie = fn(&mut HelperProcess, &HelperProcess) -> anyhow::Result<()>;

const TRUSTED: Spawn = HelperProcess::spawn_as;
const UNTRUSTED: Spawn = HelperProcess::spawn_untrusted;

/// What happens to a liar.
enum Outcome {
    /// Its channel is closed, for this reason.
    Closed(&'static str),
    /// It remains connected, and has these verdicts in two captures; `|` separates alternatives.
    Heard([&'static str; 2]),
}

/// Tells the lie over both transports, and checks each time that no thread or descriptor remains.
fn tell(lie: Lie, trusted: &Outcome, untrusted: &Outcome) -> anyhow::Result<()> {
    // The first scene also opens descriptors that a process opens only once.
    let mut left = Vec::new();
    for (spawn, outcome) in [
        (TRUSTED, trusted),
        (UNTRUSTED, untrusted),
        (TRUSTED, trusted),
    ] {
        patiently(|timeout| scene(spawn, lie, outcome, timeout))?;
        ensure!(until(no_thread_left), "{:?}", thread_names());
        left.push(Possessions::count().descriptors);
    }
    ensure!(
        left[1..].iter().all(|count| *count <= left[0]),
        "descriptors stay open: {left:?}"
    );
    Ok(())
}

fn no_thread_left() -> bool {
    thread_names()
        .iter()
        .all(|name| !name.starts_with("profiler-"))
}

/// Runs a session with a liar and an honest child, which must answer within the timeout.
fn scene(spawn: Spawn, lie: Lie, outcome: &Outcome, timeout: Duration) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let builder = Session::builder()
        .features(Features::NONE)
        .name("parent")
        .progress_timeout(timeout);
    let session = builder.overall_deadline(3 * timeout).start()?;
    let mut honest = HelperProcess::spawn(&session, CHILD, "honest", "init")?;
    let mut liar = spawn(&session, CHILD, "liar", "liar")?;
    ensure!(liar.status == "Recording", "{}", liar.status);
    liar.ask("record 2 500")?;
    lie(&mut liar, &honest)?;
    let verdicts = match outcome {
        Outcome::Closed(why) => {
            ensure!(
                until(|| state_of(&session) == ProcessState::Disconnected((*why).to_owned())),
                "{:?}",
                state_of(&session)
            );
            [
                format!("recovered: refused: {why}"),
                format!("recovered: refused: {why}"),
            ]
        }
        Outcome::Heard(verdicts) => verdicts.map(str::to_owned),
    };
    for (verdict, recorded) in verdicts.iter().zip([1000, 2000]) {
        honest.ask("record 2 500")?;
        check(
            &capture(&session, directory.path())?,
            verdict,
            1000,
            recorded,
        )?;
    }
    liar.ask("record 2 100")?; // its own work continues
    ensure!(liar.end("exit 0")?.success(), "the liar itself was harmed");
    check(
        &capture(&session, directory.path())?,
        "complete",
        1200,
        2000,
    )
}

fn state_of(session: &Session) -> ProcessState {
    let found = session
        .processes()
        .into_iter()
        .find(|process| process.name == "liar");
    found.expect("the liar").state
}

fn capture(session: &Session, directory: &Path) -> anyhow::Result<Profile> {
    Profile::read(
        &session
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(directory.join("profile.json"))?
            .path,
    )
}

/// Checks the liar's verdict and that the profile contains every entry of both children. On a busy
/// machine entries may be dropped, which must be counted.
fn check(profile: &Profile, verdict: &str, liar: u64, honest: u64) -> anyhow::Result<()> {
    profile.is_complete("honest")?;
    let found = profile.verdict("liar")?;
    ensure!(
        verdict.split('|').any(|verdict| verdict == found),
        "liar: {found} instead of {verdict}"
    );
    for (name, count) in [("liar", liar), ("honest", honest)] {
        let process = profile.process(name)?;
        let counts = process.counts()?;
        let total = &process.total;
        ensure!(
            total.recorded == count && total.evicted == 0,
            "{name}: {total:?}"
        );
        let threads = process.numbers()?;
        let found: usize = threads.values().map(Vec::len).sum();
        ensure!(
            counts.delivered == found as u64,
            "{name}: {found} of {counts:?}"
        );
        ensure!(
            total.delivered == counts.delivered,
            "{name}: {total:?}, {counts:?}"
        );
        let is_right = |numbers: &Vec<u64>| {
            numbers.is_sorted_by(|a, b| a < b)
                && numbers.last().is_none_or(|last| *last < count / 2)
        };
        ensure!(
            threads.values().all(is_right),
            "{name}: a number is doubled or wrong"
        );
    }
    Ok(())
}

/// Tells a lie that only the transport of untrusted children detects.
fn tell_untrusted(lie: Lie, outcome: &Outcome) -> anyhow::Result<()> {
    patiently(|timeout| scene(UNTRUSTED, lie, outcome, timeout))?;
    ensure!(until(no_thread_left), "{:?}", thread_names());
    Ok(())
}

/// Gives the helper several commands in turn.
fn run_commands(words: &str, helper: &mut HelperProcess) -> anyhow::Result<()> {
    words
        .split("; ")
        .try_for_each(|command| helper.ask(command).map(drop))
}

#[test]
fn a_child_that_never_says_hello() -> anyhow::Result<()> {
    own_process!();
    let silent = Outcome::Heard(["recovered: never connected"; 2]);
    tell(|_, _| Ok(()), &silent, &silent)
}

/// A capture right after a start finds children that already record and have not yet sent their
/// hello.
#[test]
fn a_child_that_is_about_to_say_hello_is_waited_for() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let session = Session::builder().features(Features::NONE).start()?;
    // On a busy machine a child may be too late, so one of ten is enough.
    for number in 0..10 {
        let name = format!("late {number}");
        let mut late = HelperProcess::spawn_as(&session, CHILD, &name, "liar")?;
        let report = std::thread::scope(|scope| {
            let capture = session.capture();
            let path = directory.path().join("profile.json");
            let capturing = scope.spawn(move || capture.save(path));
            std::thread::sleep(Duration::from_millis(50));
            late.ask("hello")?;
            anyhow::Ok(capturing.join().expect("no panic")?)
        })?;
        let found = report.processes.iter().find(|process| process.name == name);
        if found.is_some_and(|process| process.verdict == profiler_parent::Verdict::Complete) {
            return Ok(());
        }
    }
    anyhow::bail!("the capture waited for no child")
}

#[test]
fn a_child_that_says_hello_and_nothing_more() -> anyhow::Result<()> {
    own_process!();
    tell(
        |liar, _| run_commands("hello", liar),
        &Outcome::Heard([FROZEN; 2]),
        &UNAFFECTED,
    )
}

#[test]
fn a_child_that_says_hello_twice() -> anyhow::Result<()> {
    own_process!();
    let twice = Outcome::Closed("the other side sent a second Hello");
    tell(
        |liar, _| run_commands("hello; hello-again", liar),
        &twice,
        &twice,
    )
}

#[test]
fn a_child_with_a_wrong_token() -> anyhow::Result<()> {
    own_process!();
    let refused = Outcome::Closed("the process that connected does not know this child's token");
    tell(
        |liar, _| run_commands("hello-wrong-token", liar),
        &refused,
        &refused,
    )
}

#[test]
fn a_child_that_speaks_another_version() -> anyhow::Result<()> {
    own_process!();
    let refused =
        Outcome::Closed("the other side speaks version 9 of the protocol, this side version 8");
    tell(
        |liar, _| run_commands("hello-wrong-version", liar),
        &refused,
        &refused,
    )
}

#[test]
fn a_child_that_says_it_is_another_child() -> anyhow::Result<()> {
    own_process!();
    let lie: Lie = |liar, honest| run_commands(&format!("hello-as {} 1", honest.pid()), liar);
    let refused = Outcome::Closed("the other side sent the hello of another process");
    tell(lie, &Outcome::Heard([FROZEN; 2]), &refused)
}

#[test]
fn a_child_that_closes_its_channel_and_lives_on() -> anyhow::Result<()> {
    own_process!();
    tell(
        |liar, _| run_commands("hello; close", liar),
        &Outcome::Closed(GONE),
        &Outcome::Closed(GONE),
    )
}

#[test]
fn a_child_that_reports_progress_without_end() -> anyhow::Result<()> {
    own_process!();
    let late = Outcome::Heard([LATE_OR_FROZEN, FROZEN]);
    tell(
        |liar, _| run_commands("hello; progress-for-ever", liar),
        &late,
        &UNAFFECTED,
    )
}

#[test]
fn a_child_that_answers_requests_that_were_not_made() -> anyhow::Result<()> {
    own_process!();
    tell(
        |liar, _| run_commands("hello; unasked 10", liar),
        &Outcome::Heard([FROZEN; 2]),
        &UNAFFECTED,
    )
}

#[test]
fn a_child_that_answers_without_end() -> anyhow::Result<()> {
    own_process!();
    let flood = Outcome::Closed("the other side sent answers to no request");
    tell(
        |liar, _| run_commands("hello; updates-for-ever", liar),
        &flood,
        &flood,
    )
}

#[test]
fn a_child_that_sends_garbage() -> anyhow::Result<()> {
    own_process!();
    let garbage =
        Outcome::Closed("the other side speaks version 61183 of the protocol, this side version 8");
    tell(|liar, _| run_commands("garbage", liar), &garbage, &garbage)
}

#[test]
fn a_child_that_sends_more_than_a_frame_may_hold() -> anyhow::Result<()> {
    own_process!();
    let oversize = Outcome::Closed("the other side sent a packet too large");
    let of_a_frame = Outcome::Closed("the other side sent a frame too large");
    tell(
        |liar, _| run_commands("oversize", liar),
        &of_a_frame,
        &oversize,
    )
}

#[test]
fn a_child_that_sends_descriptors() -> anyhow::Result<()> {
    own_process!();
    let attached = Outcome::Closed("the other side sent a packet of another kind");
    tell(|liar, _| run_commands("attach", liar), &attached, &attached)
}

#[test]
fn a_fork_that_speaks_for_an_untrusted_child() -> anyhow::Result<()> {
    own_process!();
    let stranger = Outcome::Closed("the other side sent a packet of another process");
    tell_untrusted(|liar, _| run_commands("fork-speaks", liar), &stranger)
}

/// The number of open sockets of this process: its ends of the channels to children.
fn own_sockets() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

#[test]
fn a_dead_child_whose_fork_holds_the_channel_open() -> anyhow::Result<()> {
    own_process!();
    for spawn in [TRUSTED, UNTRUSTED] {
        let session = session::start(|builder| builder)?;
        session.environment()?; // makes the socket of the session's address
        let before = own_sockets();
        let mut liar = spawn(&session, CHILD, "liar", "liar")?;
        liar.ask("record 2 500")?;
        let answer = liar.ask("fork-holds")?;
        let fork: i32 = answer.trim_start_matches("ok ").parse()?;
        ensure!(
            until(|| state_of(&session) == ProcessState::Connected),
            "{:?}",
            state_of(&session)
        );
        liar.end("kill")?;
        let ended = until(|| own_sockets() == before);
        // SAFETY: the fork waits for a signal and is ended only here, so its number still names it.
        #[allow(unsafe_code)]
        unsafe {
            libc::kill(fork, libc::SIGKILL);
        }
        ensure!(
            ended,
            "the parent keeps the channel: {before} sockets, now {}",
            own_sockets()
        );
        let (_, profile) = session.capture()?;
        assert_eq!(
            profile.verdict("liar")?,
            "recovered: crashed with signal 9 (SIGKILL)"
        );
        assert_eq!(profile.process("liar")?.counts()?.delivered, 1000);
    }
    Ok(())
}

#[test]
fn a_child_that_dies_before_hello_leaves_what_it_recorded() -> anyhow::Result<()> {
    own_process!();
    for spawn in [TRUSTED, UNTRUSTED] {
        let session = session::start(|builder| builder)?;
        session.environment()?; // makes the socket of the session's address
        let before = own_sockets();
        let mut liar = spawn(&session, CHILD, "liar", "liar")?;
        liar.ask("record 2 500")?;
        liar.end("kill")?;
        let (_, profile) = session.capture()?;
        assert_eq!(
            profile.verdict("liar")?,
            "recovered: crashed with signal 9 (SIGKILL)"
        );
        assert_eq!(profile.process("liar")?.counts()?.delivered, 1000);
        ensure!(
            until(|| own_sockets() == before),
            "{before} sockets, now {}",
            own_sockets()
        );
    }
    Ok(())
}
