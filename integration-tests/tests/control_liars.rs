//! Tests of children that record correctly and send false messages on their control channel.
//!
//! A child that lies loses at most its channel, with either transport. The profile contains all its
//! entries and tells what was wrong. The parent, an honest child and the next capture are unharmed,
//! and no thread or descriptor remains. The lies are in `src/bin/child/malicious_channel.rs`.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::{Possessions, no_profiler_thread_remains};
use integration_tests::patience::{patiently, until};
use integration_tests::profile::{FROZEN, KILLED, Profile};
use integration_tests::reports::state_of;
use integration_tests::session::{self, TestSession};
use integration_tests::{own_process, own_process_tests};
use profiler_parent::core::session::Features;
use profiler_parent::{ProcessState, Session};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// Starts the liar.
type Spawn = fn(&Session, &str, &str, &str) -> anyhow::Result<HelperProcess>;
/// The commands that make the liar lie. [`PID`] stands for the number of an honest child.
type Lie = &'static [&'static str];

const PID: &str = "PID";
const TRUSTED: Spawn = HelperProcess::spawn_as;
const UNTRUSTED: Spawn = HelperProcess::spawn_untrusted;

/// What happens to a liar.
enum Outcome {
    /// Its channel is closed, for this reason.
    Closed(&'static str),
    /// It remains connected, and has these verdicts in two captures; `|` separates alternatives.
    Heard([&'static str; 2]),
}

const NEVER: Outcome = Outcome::Heard(["recovered: never connected"; 2]);
const MUTE: Outcome = Outcome::Heard([FROZEN; 2]);
/// An untrusted child writes no part: the parent reads its pool and does not need its answers.
const UNAFFECTED: Outcome = Outcome::Heard(["complete"; 2]);
/// One of two verdicts: a child reports progress without end only while it gets a processor.
const LATE: Outcome = Outcome::Heard([
    "recovered: not finished at the deadline|recovered: frozen: made no progress",
    FROZEN,
]);
const GONE: Outcome = Outcome::Closed("the other side is gone");
const TWICE: Outcome = Outcome::Closed("the other side sent a second Hello");
const WRONG_TOKEN: Outcome =
    Outcome::Closed("the process that connected does not know this child's token");
const VERSION_11: Outcome =
    Outcome::Closed("the other side speaks version 11 of the protocol, this side version 10");
const OF_ANOTHER: Outcome = Outcome::Closed("the other side sent the hello of another process");
const FLOOD: Outcome = Outcome::Closed("the other side sent answers to no request");
const GARBAGE: Outcome =
    Outcome::Closed("the other side speaks version 61183 of the protocol, this side version 10");
const LARGE_FRAME: Outcome = Outcome::Closed("the other side sent a frame too large");
const LARGE_PACKET: Outcome = Outcome::Closed("the other side sent a packet too large");
const ATTACHED: Outcome = Outcome::Closed("the other side sent a packet of another kind");
const STRANGER: Outcome = Outcome::Closed("the other side sent a packet of another process");

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
        no_profiler_thread_remains()?;
        left.push(Possessions::count().descriptors);
    }
    ensure!(
        left[1..].iter().all(|count| *count <= left[0]),
        "descriptors stay open: {left:?}"
    );
    Ok(())
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
    for command in lie {
        liar.ask(&command.replace(PID, &honest.pid().to_string()))?;
    }
    let verdicts = match outcome {
        Outcome::Closed(why) => {
            ensure!(
                until(
                    || state_of(&session, "liar") == ProcessState::Disconnected((*why).to_owned())
                ),
                "{:?}",
                state_of(&session, "liar")
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

own_process_tests! {
    a_child_that_never_says_hello: tell(&[], &NEVER, &NEVER);
    a_child_that_says_hello_and_nothing_more: tell(&["hello"], &MUTE, &UNAFFECTED);
    a_child_that_says_hello_twice: tell(&["hello", "hello-again"], &TWICE, &TWICE);
    a_child_with_a_wrong_token: tell(&["hello-wrong-token"], &WRONG_TOKEN, &WRONG_TOKEN);
    a_child_that_speaks_another_version: tell(&["hello-wrong-version"], &VERSION_11, &VERSION_11);
    a_child_that_says_it_is_another_child: tell(&["hello-as PID 1"], &MUTE, &OF_ANOTHER);
    a_child_that_closes_its_channel_and_lives_on: tell(&["hello", "close"], &GONE, &GONE);
    a_child_that_reports_progress_without_end:
        tell(&["hello", "progress-for-ever"], &LATE, &UNAFFECTED);
    a_child_that_answers_requests_that_were_not_made:
        tell(&["hello", "unasked 10"], &MUTE, &UNAFFECTED);
    a_child_that_answers_without_end: tell(&["hello", "updates-for-ever"], &FLOOD, &FLOOD);
    a_child_that_sends_garbage: tell(&["garbage"], &GARBAGE, &GARBAGE);
    a_child_that_sends_more_than_a_frame_may_hold: tell(&["oversize"], &LARGE_FRAME, &LARGE_PACKET);
    a_child_that_sends_descriptors: tell(&["attach"], &ATTACHED, &ATTACHED);
}

#[test]
fn a_fork_that_speaks_for_an_untrusted_child() -> anyhow::Result<()> {
    own_process!();
    // Only the transport of untrusted children detects it.
    patiently(|timeout| scene(UNTRUSTED, &["fork-speaks"], &STRANGER, timeout))?;
    no_profiler_thread_remains()
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

/// The number of open sockets of this process: its ends of the channels to children.
fn own_sockets() -> usize {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = links.filter_map(|link| std::fs::read_link(link.path()).ok());
    targets
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Runs a session whose liar records 1000 entries, lets `die` end the liar, and checks that the
/// parent closes its end of the channel and recovers the entries.
fn dies(
    spawn: Spawn,
    die: impl FnOnce(&TestSession, HelperProcess, &dyn Fn() -> bool) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    session.environment()?; // makes the socket of the session's address
    let before = own_sockets();
    let is_closed = || until(|| own_sockets() == before);
    let mut liar = spawn(&session, CHILD, "liar", "liar")?;
    liar.ask("record 2 500")?;
    die(&session, liar, &is_closed)?;
    let (_, profile) = session.capture()?;
    profile.holds("liar", KILLED, 1000)?;
    ensure!(
        is_closed(),
        "the parent keeps the channel: {before} sockets, now {}",
        own_sockets()
    );
    Ok(())
}

#[test]
fn a_dead_child_whose_fork_holds_the_channel_open() -> anyhow::Result<()> {
    own_process!();
    for spawn in [TRUSTED, UNTRUSTED] {
        dies(spawn, |session, mut liar, is_closed| {
            let answer = liar.ask("fork-holds")?;
            let fork: i32 = answer.trim_start_matches("ok ").parse()?;
            ensure!(
                until(|| state_of(session, "liar") == ProcessState::Connected),
                "{:?}",
                state_of(session, "liar")
            );
            liar.end("kill")?;
            let ended = is_closed();
            // SAFETY: the fork waits for a signal and is ended only here, so its number still names
            // it.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(fork, libc::SIGKILL);
            }
            ensure!(ended, "the parent keeps the channel");
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_child_that_dies_before_hello_leaves_what_it_recorded() -> anyhow::Result<()> {
    own_process!();
    for spawn in [TRUSTED, UNTRUSTED] {
        dies(spawn, |_, mut liar, _| liar.end("kill").map(drop))?;
    }
    Ok(())
}
