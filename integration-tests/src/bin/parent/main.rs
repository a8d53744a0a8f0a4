//! A parent for tests in which the parent itself is killed or stopped.
//!
//! Started by `integration_tests::process_tree`, and by tests in which it is itself a process of
//! another session. If the variable TEST_PARENT_JOINS is set, it joins that session before it
//! starts its own.
//!
//! `parent LIMIT POOLS [IGNORED…]` starts a session with this memory limit, with its pools in the
//! directory POOLS unless that is `-`, and prints `ok DIRECTORY` (or `ok -`). After that, each line
//! on standard input is a command, which is answered with one line, `ok…` or `error …`:
//!
//! ```text
//! spawn NAME IN OUT PROGRAM [ARGUMENT…]   starts a child with these standard streams: ok PID
//! connected COUNT                         waits until COUNT children are connected
//! acknowledge THREADS OUT                 see `integration_tests::acks`
//! text TEXT                               records a text
//! run PROGRAM [ARGUMENT…]                 runs a program without the session, and waits for it
//! pid                                     ok PID
//! unrecorded                              why the session does not record this process: ok REASON
//! pause                                   pauses the session
//! capture FILE                            saves a profile
//! push ADDRESS SPOOL                      pushes what is recorded, four times a second
//! pushed                                  ok FAILED MISSED LOST: captures, entries, batches
//! end                                     ends the session in order
//! exit                                    ends this process in order
//! ```

use std::fs::File;
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use integration_tests::{acks, patience};
use profiler_core::ids::ByteLimit;
use profiler_core::marker::category;
use profiler_core::text_marker;
use profiler_parent::core::session::Features;
use profiler_parent::{ProcessState, ProfiledChild, Session};
use profiler_push::{PushDestination, PushOptions, Pusher};

struct Parent {
    /// Ends before the session.
    pusher: Option<Pusher>,
    session: Option<Session>,
    children: Vec<ProfiledChild>,
}

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let limit = arguments.next().context("which limit?")?.parse()?;
    let pools = arguments.next().context("where are the pools?")?;
    let mut builder = Session::builder()
        .features(Features::NONE)
        .name("parent")
        .memory_limit(ByteLimit::new(limit));
    if pools != "-" {
        builder = builder.pool_directory(pools);
    }
    if std::env::var_os("TEST_PARENT_JOINS").is_some() {
        let status = profiler_child::init_within(patience::LONG);
        ensure!(
            matches!(status, profiler_child::Status::Recording),
            "{status:?}"
        );
    }
    let session = builder.start()?;
    let directory = session
        .pool_directory()
        .map_or("-".to_owned(), |path| path.display().to_string());
    say(&format!("ok {directory}"))?;
    let mut parent = Parent {
        pusher: None,
        session: Some(session),
        children: Vec::new(),
    };
    for line in std::io::stdin().lock().lines() {
        say(&parent
            .obey(&line?)
            .unwrap_or_else(|error| format!("error {error:#}")))?;
    }
    Ok(())
}

impl Parent {
    fn obey(&mut self, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["spawn", name, input, output, program, arguments @ ..] => {
                return self.spawn(name, input, output, Command::new(program).args(arguments));
            }
            ["connected", count] => self.connected(count.parse()?)?,
            ["acknowledge", threads, out] => acks::flood(threads.parse()?, &append(out)?)?,
            ["text", text] => text_marker!("text", &category::OTHER, Default::default(), *text),
            ["run", program, arguments @ ..] => run(program, arguments)?,
            ["pid"] => return Ok(format!("ok {}", std::process::id())),
            ["address"] => {
                let variables = self.session()?.environment()?;
                let (_, value) = variables.first().context("no address")?;
                return Ok(format!("ok {value}"));
            }
            ["unrecorded"] => {
                let why = self.session()?.why_unrecorded();
                let why = why.map_or_else(|| "-".to_owned(), |why| why.to_string());
                return Ok(format!("ok {why}"));
            }
            ["pause"] => {
                let session = self.session()?;
                ensure!(
                    patience::until(|| session.pause().is_complete()),
                    "not paused"
                );
            }
            ["capture", file] => drop(self.session()?.capture().save(file)?),
            ["push", address, spool] => {
                let options = PushOptions::to(PushDestination::parse(address)?);
                let options = options.period(Duration::from_millis(250)).spool(spool);
                self.pusher = Some(Pusher::start(self.session()?, &options)?);
            }
            ["pushed"] => {
                let report = self.pusher.as_ref().context("it does not push")?.report();
                let lost: u64 = report.destinations.iter().map(|to| to.lost.batches).sum();
                let (failed, missed) = (report.failed_captures, report.missed_entries);
                return Ok(format!("ok {failed} {missed} {lost}"));
            }
            ["end"] => self.session = None,
            ["exit"] => {
                self.session = None;
                std::process::exit(0)
            }
            _ => bail!("unknown: {line}"),
        }
        Ok("ok".to_owned())
    }

    fn spawn(
        &mut self,
        name: &str,
        input: &str,
        output: &str,
        command: &mut Command,
    ) -> anyhow::Result<String> {
        let command = std::mem::replace(command, Command::new(""));
        let mut command = command;
        command.stdin(File::open(input)?).stdout(append(output)?);
        let child = self.session()?.spawn(name, command)?;
        let pid = child.id();
        self.children.push(child);
        Ok(format!("ok {pid}"))
    }

    fn connected(&self, count: usize) -> anyhow::Result<()> {
        let session = self.session()?;
        let connected = || {
            let all = session.processes();
            all.iter()
                .filter(|process| process.state == ProcessState::Connected)
                .count()
                == count
        };
        ensure!(patience::until(connected), "not all connect");
        Ok(())
    }

    fn session(&self) -> anyhow::Result<&Session> {
        self.session.as_ref().context("the session was ended")
    }
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}

fn append(path: &str) -> anyhow::Result<File> {
    Ok(File::options().append(true).create(true).open(path)?)
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
