//! `profiler push` after a recording with `--push`: it sends the batches that are left in the
//! spool, and refuses to send the profile to an engine that has a part of it.

use std::net::TcpListener;

use anyhow::ensure;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::relay::{Fault, Relay};
use integration_tests::tools;
use rustix::process::Signal;

use crate::command_record_support::{PLAIN, Recording};
use crate::pushing_support::{MAIN, accepted_marks, batches, is_spooled};

/// The name of the helper's process.
const HELPER: &str = "child";

#[test]
fn x23_the_command_sends_the_spool_of_a_killed_recording() -> anyhow::Result<()> {
    own_process!();
    let silent = TcpListener::bind("127.0.0.1:0")?; // accepts, and never answers
    let silent = (silent.local_addr()?, silent);
    let place = tempfile::tempdir()?;
    let spool = place.path().join("spool");
    let in_spool = spool.to_string_lossy();
    let address = format!("clickhouse://{}/x", silent.0);
    let options = [
        "-o",
        "out.json",
        "--push",
        &address,
        "--push-period",
        "0.2",
        "--push-spool",
        &in_spool,
    ];
    let mut recording = Recording::of_helper(&options)?;
    recording.ask("mark 40")?;
    ensure!(until(|| is_spooled(&spool, 39)), "{:?}", batches(&spool));
    recording.kill()?;
    let relay = Relay::start(None)?;
    let address = format!("clickhouse://{}/x", relay.address());
    let push = ["push", "--spool", &in_spool, "--to", &address];
    // A wrong address or token loses nothing.
    relay.fail("", &[Fault::Status(401)]);
    let refused = tools::run(&push)?;
    ensure!(refused.code == Some(1), "{refused:?}");
    ensure!(refused.out.contains("401"), "{refused:?}");
    ensure!(relay.count() == 1, "more is sent");
    let waiting = batches(&spool).len();

    let said = tools::succeed(&push)?;
    let all: Vec<_> = (0..40).map(|number| (MAIN, number)).collect();
    ensure!(accepted_marks(&relay, HELPER)? == all, "not each once");
    ensure!(
        batches(&spool).len() == waiting,
        "the other engine lacks them"
    );
    ensure!(said.error.contains("--replace"), "{said:?}");

    let requests = relay.count();
    let said = tools::succeed(&[&push[..], &["--replace"]].concat())?;
    ensure!(said.out.starts_with("pushed 0 batches"), "{said:?}");
    ensure!(relay.count() == requests, "sent again");
    ensure!(batches(&spool).is_empty(), "{:?}", batches(&spool));
    Ok(())
}

#[test]
fn x24_an_engine_that_has_a_part_of_a_profile_gets_the_profile_only_with_again()
-> anyhow::Result<()> {
    own_process!();
    let relay = Relay::start(None)?;
    let address = format!("clickhouse+http://{}/x", relay.address());
    let options = ["-o", "out.json", "--push", &address, "--push-period", "0.2"];
    let mut recording = Recording::of_helper(&options)?;
    recording.ask("mark 40")?;
    recording.tell("exit 0")?;
    let ended = recording.end()?;
    let profile = ended.path("out.json");
    let profile = profile.to_string_lossy();
    let all: Vec<_> = (0..40).map(|number| (MAIN, number)).collect();
    ensure!(accepted_marks(&relay, HELPER)? == all, "not each once");

    let requests = relay.count();
    let short = address.replace("+http", "");
    let push = ["push", &profile, "--to", &short];
    let refused = tools::run(&push)?;
    ensure!(refused.code == Some(2), "{refused:?}");
    ensure!(refused.error.contains("--again"), "{refused:?}");
    ensure!(relay.count() == requests, "it was sent");

    let other = Relay::start(None)?;
    let to_other = format!("clickhouse://{}/x", other.address());
    tools::succeed(&["push", &profile, "--to", &to_other])?;
    ensure!(accepted_marks(&other, HELPER)? == all, "not each once");
    tools::succeed(&[&push[..], &["--again"]].concat())?;
    ensure!(relay.count() > requests, "it was not sent");
    Ok(())
}

#[test]
fn x25_a_signal_ends_the_sending_and_the_profile_is_written() -> anyhow::Result<()> {
    own_process!();
    let silent = TcpListener::bind("127.0.0.1:0")?; // accepts, and never answers
    let address = format!("otlp+http://{}", silent.local_addr()?);
    let place = tempfile::tempdir()?;
    let spool = place.path().join("spool");
    let in_spool = spool.to_string_lossy();
    let options = [
        &PLAIN[..],
        &["--push", &address, "--push-spool", &in_spool],
        &["--push-timeout", "600", "--push-period", "600"],
    ]
    .concat();
    let mut recording = Recording::of_helper(&options)?;
    recording.ask("mark 40")?;
    recording.tell("exit 3")?;
    recording.until_told("Ctrl-C skips this")?;
    rustix::process::kill_process(recording.pid()?, Signal::INT)?;
    let ended = recording.end()?;
    ensure!(ended.code == Some(3), "{}", ended.error);
    ensure!(ended.error.contains("1 not sent"), "{}", ended.error);
    ended.check(HELPER, &[(MAIN, 40)])?;
    ensure!(!batches(&spool).is_empty(), "nothing waits");
    Ok(())
}
