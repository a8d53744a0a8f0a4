//! Children that stand still: a capture does not wait for them longer than it said, and their data
//! is there all the same.

use std::time::Duration;

use integration_tests::patience::Stopwatch;
use integration_tests::puppet::Puppet;
use integration_tests::session;

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const TIMEOUT: Duration = Duration::from_secs(1);
/// The promise: the progress timeout and this much.
const MARGIN: Duration = Duration::from_millis(500);
const FROZEN: &str = "recovered: frozen: made no progress";

#[test]
fn one_of_four_frozen() -> anyhow::Result<()> {
    capture_with_frozen(1)
}

#[test]
fn three_of_four_frozen() -> anyhow::Result<()> {
    capture_with_frozen(3)
}

/// The promise is a time: the capture ends within the timeout and the margin.
fn capture_with_frozen(count: usize) -> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(TIMEOUT))?;
    let mut puppets = Puppet::spawn_many(&session, CHILD, 4)?;
    for puppet in &mut puppets {
        puppet.ask("hold 3 500")?;
    }
    assert!(puppets[..count].iter().all(Puppet::freeze));
    let watch = Stopwatch::start();
    let report = session
        .session()?
        .capture()
        .format(profiler_parent::Format::Gecko)
        .save(session.path("frozen.json"))?;
    let took = watch.elapsed();
    assert!(took >= TIMEOUT && took <= TIMEOUT + MARGIN, "took {took:?}");
    let profile = integration_tests::profile::Profile::read(&report.path)?;
    for n in 0..4 {
        let name = format!("child-{n}");
        let process = profile.process(&name)?;
        assert_eq!(profile.verdict(&name)?, if n < count { FROZEN } else { "complete" });
        let books = process.books()?;
        assert_eq!(books.delivered, 1500, "{name}: {books:?}");
        assert!(process.numbers()?.values().all(|numbers| numbers.iter().copied().eq(0..500)), "{name}");
    }
    let frozen: Vec<_> = (0..count).map(|n| (format!("child-{n}"), FROZEN.to_owned())).collect();
    assert_eq!(profile.incomplete(), frozen);
    puppets.iter().for_each(|puppet| puppet.signal(libc::SIGCONT));
    Ok(())
}

#[test]
fn a_child_still_frozen_in_the_second_capture_is_read_at_once_and_complete_when_it_goes_on()
-> anyhow::Result<()> {
    let session = session::start(|builder| builder.progress_timeout(TIMEOUT))?;
    let mut puppet = Puppet::spawn(&session, CHILD, "sleeper", "init")?;
    puppet.ask("hold 2 500")?;
    assert!(puppet.freeze());
    for _ in 0..2 {
        let (_, profile) = session.capture()?;
        assert_eq!(profile.verdict("sleeper")?, FROZEN);
        assert_eq!(profile.process("sleeper")?.books()?.delivered, 1000);
    }
    puppet.signal(libc::SIGCONT);
    puppet.ask("mark 5")?;
    std::thread::sleep(Duration::from_millis(200)); // for its answer to the cancelled request
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdict("sleeper")?, "complete");
    assert_eq!(profile.process("sleeper")?.books()?.delivered, 1005);
    Ok(())
}

#[test]
fn pausing_does_not_wait_for_a_frozen_child_for_ever() -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let puppets = Puppet::spawn_many(&session, CHILD, 3)?;
    assert!(puppets[1].freeze());
    let watch = Stopwatch::start();
    assert_eq!(session.pause(), 1, "one has not confirmed");
    assert!(watch.elapsed() < Duration::from_secs(2), "the documented second, and some");
    puppets[1].signal(libc::SIGCONT);
    assert_eq!(session.resume(), 0);
    Ok(())
}

#[test]
fn reading_a_frozen_child_does_not_make_the_others_look_frozen() -> anyhow::Result<()> {
    let timeout = Duration::from_millis(400);
    let session = session::start(|builder| builder.progress_timeout(timeout))?;
    let mut puppets = Puppet::spawn_many(&session, CHILD, 4)?;
    for puppet in &mut puppets {
        puppet.tell("hold 2 20000")?;
    }
    for puppet in &mut puppets {
        puppet.line()?;
    }
    assert!(puppets[0].freeze());
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdict("child-0")?, FROZEN);
    for n in 1..4 {
        assert_eq!(profile.verdict(&format!("child-{n}"))?, "complete");
    }
    Ok(())
}
