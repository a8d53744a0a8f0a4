//! Tests of children that are stopped by a signal.
//!
//! A capture in the Gecko format waits for stopped children for its progress timeout, completes
//! while they are stopped, and contains their data. A pause does not wait for them. The figure
//! `gather.stopped_extra_s` measures how long stopped children delay a capture.

use std::time::Duration;

use integration_tests::helper_process::HelperProcess;
use integration_tests::own::state_of;
use integration_tests::patience::{Stopwatch, patiently, until};
use integration_tests::profile::FROZEN;
use integration_tests::session;
use integration_tests::{own_process, own_process_tests};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

own_process_tests! {
    one_of_four_frozen: patiently(|timeout| capture_with_frozen(1, timeout));
    three_of_four_frozen: patiently(|timeout| capture_with_frozen(3, timeout));
}

/// Captures while `count` of four children are stopped. The capture ends because of the progress
/// timeout; the overall deadline is much later.
fn capture_with_frozen(count: usize, timeout: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(timeout))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    HelperProcess::ask_all(&mut helpers, "hold 3 500")?;
    assert!(helpers[..count].iter().all(HelperProcess::freeze));
    let watch = Stopwatch::start();
    let (_, profile) = session.capture_gecko()?;
    assert!(
        watch.elapsed() >= timeout,
        "the capture did not wait for its timeout"
    );
    assert!(
        helpers[..count]
            .iter()
            .all(|helper| state_of(helper.pid()) == Some('T'))
    );
    for n in 0..4 {
        let name = format!("child-{n}");
        let process = profile.process(&name)?;
        match n < count {
            true => assert_eq!(profile.verdict(&name)?, FROZEN),
            false => profile.is_complete(&name)?,
        }
        let counts = process.counts()?;
        assert_eq!(counts.delivered, 1500, "{name}: {counts:?}");
        process.numbers_up_to(500, 3)?;
    }
    let frozen: Vec<_> = (0..count)
        .map(|n| (format!("child-{n}"), FROZEN.to_owned()))
        .collect();
    assert_eq!(profile.incomplete(), frozen);
    helpers
        .iter()
        .for_each(|helper| helper.signal(libc::SIGCONT));
    Ok(())
}

#[test]
fn a_child_that_is_frozen_in_two_captures_is_read_and_complete_when_it_goes_on()
-> anyhow::Result<()> {
    own_process!();
    patiently(captures_of_a_child_that_is_frozen_and_goes_on)
}

fn captures_of_a_child_that_is_frozen_and_goes_on(timeout: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(timeout))?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "sleeper", "init")?;
    helper.ask("hold 2 500")?;
    assert!(helper.freeze());
    for _ in 0..2 {
        let (_, profile) = session.capture_gecko()?;
        profile.holds("sleeper", FROZEN, 1000)?;
    }
    helper.signal(libc::SIGCONT);
    helper.ask("mark 5")?;
    // The child first answers the cancelled requests, so the first capture may be too early.
    let mut profile = session.capture_gecko()?.1;
    until(|| {
        let is_complete = profile.is_complete("sleeper").is_ok();
        if let (false, Ok((_, next))) = (is_complete, session.capture_gecko()) {
            profile = next;
        }
        is_complete
    });
    profile.is_complete("sleeper")?;
    assert_eq!(profile.process("sleeper")?.counts()?.delivered, 1005);
    Ok(())
}

#[test]
fn pausing_returns_although_a_child_is_frozen() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let helpers = HelperProcess::spawn_many(&session, CHILD, 3)?;
    assert!(helpers[1].freeze());
    assert!(
        until(|| session.pause().unconfirmed() == 1),
        "not exactly the frozen child is unconfirmed"
    );
    assert_eq!(
        state_of(helpers[1].pid()),
        Some('T'),
        "it is not frozen any more"
    );
    helpers[1].signal(libc::SIGCONT);
    assert!(session.all_resume());
    Ok(())
}

#[test]
fn reading_a_frozen_child_does_not_make_the_others_look_frozen() -> anyhow::Result<()> {
    own_process!();
    patiently(one_child_is_frozen_after_all_have_recorded_much)
}

fn one_child_is_frozen_after_all_have_recorded_much(timeout: Duration) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(timeout))?;
    let mut helpers = HelperProcess::spawn_many(&session, CHILD, 4)?;
    for helper in &mut helpers {
        helper.tell("hold 2 20000")?;
    }
    for helper in &mut helpers {
        helper.line()?;
    }
    assert!(helpers[0].freeze());
    let (_, profile) = session.capture_gecko()?;
    assert_eq!(profile.verdict("child-0")?, FROZEN);
    for n in 1..4 {
        profile.is_complete(&format!("child-{n}"))?;
    }
    Ok(())
}
