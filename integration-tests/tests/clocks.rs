//! Tests of the common clock of all processes.
//!
//! Processes exchange numbers over pipes, and record a marker before each send and after each
//! receive. In the profile no receive comes before its send, with either clock.

use std::collections::HashMap;
use std::thread;

use integration_tests::helper_process::HelperProcess;
use integration_tests::pairs;
use integration_tests::profile::Profile;
use integration_tests::session::{self, TestSession};
use integration_tests::{own_process, own_process_tests};
use profiler_parent::SessionBuilder;
use profiler_parent::core::time::{ClockKind, clock_kind, use_clock};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const ROUNDS: u64 = 500;

own_process_tests! {
    no_receive_comes_before_its_send: exchange(|builder| builder);
    no_receive_comes_before_its_send_with_the_fallback_clock:
        exchange(|builder| builder.clock(ClockKind::Monotonic));
}

#[test]
fn a_forced_clock_is_forced_for_its_session_alone() -> anyhow::Result<()> {
    own_process!();
    let best = clock_kind();
    drop(
        SessionBuilder::default()
            .clock(ClockKind::Monotonic)
            .start()?,
    );
    let session = SessionBuilder::default().start()?;
    let kind = clock_kind();
    drop(session);
    use_clock(best);
    assert_eq!(kind, best);
    Ok(())
}

/// Exchanges numbers between two children and between the parent and a child, and checks the
/// order of the markers.
fn exchange(build: impl FnOnce(SessionBuilder) -> SessionBuilder) -> anyhow::Result<()> {
    let session = session::start(build)?;
    let mut first = HelperProcess::spawn(&session, CHILD, "first", "init")?;
    let mut second = HelperProcess::spawn(&session, CHILD, "second", "init")?;
    ping_between(&session, &mut first, &mut second)?;
    ping_with(&session, &mut first)?;
    for (_, profile) in session.capture_both()? {
        assert_eq!(reversed(&profile)?, Vec::<String>::new());
    }
    Ok(())
}

fn ping_between(
    session: &TestSession,
    first: &mut HelperProcess,
    second: &mut HelperProcess,
) -> anyhow::Result<()> {
    let [there, back] = pairs::make_pipes(["there", "back"].map(|name| session.path(name)))?;
    let words = |verb: &str| format!("{verb} {} {} 10 {ROUNDS}", there.display(), back.display());
    second.tell(&words("pong"))?;
    first.ask(&words("ping"))?;
    assert_eq!(second.line()?, "ok");
    Ok(())
}

fn ping_with(session: &TestSession, child: &mut HelperProcess) -> anyhow::Result<()> {
    let [there, back] = pairs::make_pipes(["down", "up"].map(|name| session.path(name)))?;
    child.tell(&format!(
        "pong {} {} 20 {ROUNDS}",
        there.display(),
        back.display()
    ))?;
    thread::scope(|scope| {
        scope
            .spawn(|| pairs::ping(&there, &back, 20, ROUNDS))
            .join()
            .expect("no panic")
    })?;
    assert_eq!(child.line()?, "ok");
    Ok(())
}

/// The pairs whose receive comes before their send. Fails if a pair is missing.
fn reversed(profile: &Profile) -> anyhow::Result<Vec<String>> {
    let times = |name: &str| -> HashMap<(u64, u64), f64> {
        let marks = profile
            .processes
            .iter()
            .flat_map(|process| process.named(name));
        let key =
            |data: &serde_json::Value| Some((data["channel"].as_u64()?, data["number"].as_u64()?));
        marks
            .filter_map(|mark| Some((key(&mark.data)?, mark.time)))
            .collect()
    };
    let sent = times("send");
    let received = times("receive");
    assert_eq!(
        (sent.len(), received.len()),
        (4 * ROUNDS as usize, 4 * ROUNDS as usize)
    );
    let reversed = sent
        .iter()
        .filter(|(key, sent)| received.get(key).is_none_or(|received| received < *sent));
    Ok(reversed
        .map(|(key, sent)| format!("{key:?}: sent {sent}, received {:?}", received.get(key)))
        .collect())
}
