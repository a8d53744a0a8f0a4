//! `profiler record --push` and `profiler push`: files that are pushed twice, secrets, and a real
//! agent.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use integration_tests::clickhouse::Cluster;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::relay::{Fault, Relay};
use integration_tests::{session, tools};
use profiler_export::FleetTable;

use crate::command_record_support::Recording;
use crate::otlp::{Agent, agent_program};
use crate::pushing_support::{CHILD, none_is_sent_after_its_answer, store};

/// The rows of each table, without those that are there twice.
fn rows(cluster: &Cluster) -> anyhow::Result<Vec<u64>> {
    let count = |table: FleetTable| {
        let answer = cluster.execute(&format!("SELECT count() FROM {} FINAL", table.name()))?;
        Ok(answer.trim().parse()?)
    };
    FleetTable::ALL.into_iter().map(count).collect()
}

#[test]
fn x20_a_file_that_is_pushed_twice_is_in_the_store_once() -> anyhow::Result<()> {
    own_process!();
    let Some(cluster) = Cluster::start()? else {
        return Ok(());
    };
    let relay = Relay::start(Some(cluster.port()))?;
    let session = session::start(|builder| builder)?;
    let mut worker = HelperProcess::spawn(&session, CHILD, "worker", "init")?;
    worker.ask("mark 100")?;
    worker.ask("sample-for basket parse 300 50")?;
    let file = session.path("profile.json.gz");
    session.session()?.capture().save(&file)?;
    let mut stored = Vec::new();
    let mut requests = Vec::new();
    let file = file.to_string_lossy();
    // The second time as a user without a password.
    for user in [&[][..], &["--push-user", "default"]] {
        let address = store(&relay);
        let said = tools::succeed(&[&["push", &file, "--to", &address], user].concat())?;
        ensure!(said.out.starts_with("pushed 1 batch in "), "{said:?}");
        stored.push(rows(&cluster)?);
        requests.push(relay.count());
    }
    let [once, twice] = stored.as_slice() else {
        anyhow::bail!("not pushed twice")
    };
    ensure!(once == twice, "{once:?} and {twice:?} rows");
    let all = FleetTable::ALL.into_iter().zip(once);
    for (table, rows) in all {
        let must_have = matches!(
            table,
            FleetTable::Spans | FleetTable::Samples | FleetTable::Stacks | FleetTable::Processes
        );
        ensure!(*rows > 0 || !must_have, "no row in {}", table.name());
    }
    let all = relay.requests();
    let keys = |range: std::ops::Range<usize>| -> BTreeSet<String> {
        let requests = all.get(range).unwrap_or_default().iter();
        requests.map(|request| request.key().to_owned()).collect()
    };
    let first = requests.first().copied().unwrap_or_default();
    ensure!(
        keys(0..first) == keys(first..all.len()),
        "other identifiers"
    );
    Ok(())
}

/// Whether the arguments of a process of this machine contain a text.
fn is_an_argument(text: &str) -> anyhow::Result<bool> {
    for process in fs::read_dir("/proc")? {
        // It may have ended.
        let arguments = fs::read(process?.path().join("cmdline")).unwrap_or_default();
        if contains(&arguments, text) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Checks that no file below a directory contains a text.
fn is_in_no_file(directory: &Path, text: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            is_in_no_file(&path, text)?;
        } else {
            ensure!(!contains(&fs::read(&path)?, text), "{}", path.display());
        }
    }
    Ok(())
}

#[test]
fn x21_a_secret_is_in_the_header_of_each_request_and_nowhere_else() -> anyhow::Result<()> {
    own_process!();
    let secret = format!("hunter{}", std::process::id());
    let keeper = tempfile::tempdir()?;
    let token = keeper.path().join("token");
    fs::write(&token, format!("{secret}\n"))?;
    let relay = Relay::start(None)?;
    relay.fail("", &[Fault::Echo, Fault::Status(503)]);
    let address = format!("otlp+http://{}", relay.address());
    let options = [
        "-o",
        "out.json",
        "--format",
        "gecko",
        "--push",
        &address,
        "--push-token-file",
        &token.to_string_lossy(),
        "--push-period",
        "0.2",
        "--push-spool",
        "spool",
    ];
    let mut recording = Recording::of_helper(&options)?;
    recording.ask("spans 2 30")?;
    ensure!(until(|| relay.count() > 2), "nothing is pushed");
    ensure!(!is_an_argument(&secret)?, "it is an argument");
    recording.tell("exit 0")?;
    let ended = recording.end()?;
    ensure!(ended.error.contains("1 refused"), "{}", ended.error);
    ensure!(!ended.error.contains(&secret), "{}", ended.error);
    let profile = ended.path("out.json");
    is_in_no_file(profile.parent().context("no directory")?, &secret)?;
    let wanted = format!("Bearer {secret}");
    for request in relay.requests() {
        ensure!(
            request.header("authorization") == Some(&wanted),
            "{}",
            request.head
        );
        ensure!(!contains(&request.body, &secret) && !request.target.contains(&secret));
    }
    none_is_sent_after_its_answer(&relay)
}

#[test]
fn x22_a_real_agent_accepts_what_is_pushed_during_a_recording() -> anyhow::Result<()> {
    own_process!();
    let Some(program) = agent_program()? else {
        return Ok(());
    };
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("log");
    let agent = Agent::start(&program, &log)?;
    let address = format!("otlp+http://{}", agent.address());
    let options = [
        "-o",
        "out.json",
        "--push",
        &address,
        "--push-period",
        "0.2",
        "--push-timeout",
        "120",
    ];
    let mut recording = Recording::of_helper(&options)?;
    let text = || fs::read_to_string(&log).unwrap_or_default();
    let spans = || text().matches("Name           : work").count();
    for round in 1..=3 {
        recording.ask("spans 2 30")?;
        ensure!(until(|| spans() >= round * 120), "{} spans", spans());
    }
    recording.tell("exit 0")?;
    let ended = recording.end()?;
    let said = &ended.error;
    for text in ["refused", "lost", "not sent"] {
        ensure!(!said.contains(text), "{said}");
    }
    ensure!(said.contains("profiler: pushed "), "{said}");
    ensure!(
        said.contains("it does not take profiles (status 404"),
        "{said}"
    );
    ensure!(spans() == 360, "{} spans", spans());
    ensure!(
        text().contains("profiler.entries.recorded"),
        "no metrics: {}",
        text()
    );
    Ok(())
}
