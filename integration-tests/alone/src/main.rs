//! An application that no parent starts, and that its environment lets record itself.
//!
//! `alone-application HOW WORD…`: with `init`, it calls `profiler_child::init()`, which is that of
//! `profiler-startup`; with `join`, the same, with a longer wait for a session; with `guard`, it
//! keeps the value of `Session::from_env()` until the end of `main`. It prints the outcome as one
//! line, records a marker, and obeys the words in order:
//!
//! ```text
//! threads        before all others: starts a thread, and only then begins
//! handle, ignore, block   before the beginning: treats SIGUSR2 so
//! line           waits for a line of standard input
//! mark NAME      records a marker with this name
//! signal         sends itself SIGUSR2
//! action         prints what SIGUSR2 does: default, ignored or handled
//! variables      prints the environment variables of the profiler
//! fork           forks a process, which ends in order, and waits for it
//! fork-signal    forks a process, which sends itself SIGUSR2, and prints the signal that ends it
//! run WORD…      runs this application again with the words, and waits for it
//! save, finish   as the functions of these names; prints the outcome
//! await-end      waits until the session has ended
//! exists FILE    prints whether the file exists
//! exit           ends the process by `exit`
//! ```

mod forks;
mod signals;

use std::io::BufRead;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use profiler_child::marker::{MarkerOptions, category};
use profiler_child::{label, scope, text_marker};
use profiler_parent::{CaptureError, CaptureReport, EnvSession, Session};

/// Longer than a session takes to answer on a slow machine.
const LONG: Duration = Duration::from_secs(120);

/// How the application has begun.
enum Begun {
    Init,
    Guard(Option<EnvSession>),
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut words = words.iter().map(String::as_str).peekable();
    let how = words.next().context("how to begin?")?;
    while let Some(before) = words.next_if(|word| is_before(word)) {
        prepare(before)?;
    }
    let mut begun = begin(how)?;
    work();
    while let Some(word) = words.next() {
        if word == "run" {
            return run(words.by_ref());
        }
        obey(&mut begun, word, &mut words)?;
    }
    Ok(())
}

fn is_before(word: &str) -> bool {
    ["threads", "handle", "ignore", "block"].contains(&word)
}

fn prepare(word: &str) -> anyhow::Result<()> {
    if word == "threads" {
        let wait = || std::thread::park();
        std::thread::Builder::new().spawn(wait)?;
        return Ok(());
    }
    signals::treat(word)
}

fn begin(how: &str) -> anyhow::Result<Begun> {
    match how {
        "init" => {
            println!("{:?}", profiler_child::init());
            Ok(Begun::Init)
        }
        "join" => {
            println!("{:?}", profiler_child::init_within(LONG));
            Ok(Begun::Init)
        }
        "guard" => {
            let started = Session::from_env();
            match &started {
                Ok(Some(session)) => println!("started: {:?}", session.write_at()),
                Ok(None) => println!("not asked for"),
                Err(error) => println!("error: {error}"),
            }
            Ok(Begun::Guard(started.ok().flatten()))
        }
        _ => bail!("{how} is no way to begin"),
    }
}

#[label::function]
fn work() {
    let _scope = scope!("all of work", turns = 3);
}

fn obey<'a>(
    begun: &mut Begun,
    word: &str,
    words: &mut impl Iterator<Item = &'a str>,
) -> anyhow::Result<()> {
    match word {
        "line" => drop(std::io::stdin().lock().read_line(&mut String::new())?),
        "mark" => {
            let name = words.next().context("which name?")?;
            text_marker!("mark", &category::OTHER, MarkerOptions::default(), name);
        }
        "signal" => signals::send()?,
        "action" => println!("{}", signals::action()?),
        "variables" => print_variables(),
        "fork" => {
            let status = forks::fork_and_end(begun)?;
            ensure!(status == 0, "{status}");
        }
        "fork-signal" => println!("{:?}", forks::fork_and_signal()?),
        "await-end" => begun.await_end()?,
        "exists" => println!(
            "{}",
            Path::new(words.next().context("which file?")?).exists()
        ),
        "save" => say(begun.save().map(Some)),
        "finish" => say(begun.finish()),
        "exit" => std::process::exit(0),
        _ => bail!("{word} is no word"),
    }
    Ok(())
}

impl Begun {
    fn save(&self) -> Result<CaptureReport, CaptureError> {
        match self {
            Self::Guard(Some(session)) => session.save(),
            _ => Err(CaptureError::SessionOver),
        }
    }

    fn await_end(&self) -> anyhow::Result<()> {
        let Self::Guard(Some(session)) = self else {
            bail!("no session")
        };
        let turns = LONG.as_millis();
        let has_ended = (0..turns).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            session.session().is_none()
        });
        ensure!(has_ended, "the session goes on");
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<CaptureReport>, CaptureError> {
        match self {
            Self::Init => profiler_child::finish(),
            Self::Guard(session) => session.take().map_or(Ok(None), EnvSession::finish),
        }
    }
}

fn say(written: Result<Option<CaptureReport>, CaptureError>) {
    match written {
        Ok(Some(report)) => println!("written: {}", report.path.display()),
        Ok(None) => println!("nothing written"),
        Err(error) => println!("error: {error}"),
    }
}

fn print_variables() {
    let all = std::env::vars().filter(|(name, _)| name.starts_with("MULTIPROCESS_PROFILER"));
    let mut names: Vec<_> = all.map(|(name, _)| name).collect();
    names.sort();
    println!("{}", names.join(" "));
}

/// Runs this application again.
fn run<'a>(words: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .args(words)
        .status()?;
    ensure!(status.success(), "{status}");
    Ok(())
}
