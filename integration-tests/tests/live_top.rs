//! Test of `profiler record --live` and `profiler top`, which shows its live page in a terminal:
//! row L1 of `docs/features.md`.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::Context;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::tools;

use crate::live_support::{CHILD, Page, row};

/// `profiler record --live` with the helper as its program. Killed when dropped.
struct Recording {
    command: Child,
    url: String,
    errors: BufReader<ChildStderr>,
    _directory: tempfile::TempDir,
}

impl Recording {
    fn start() -> anyhow::Result<Self> {
        Self::of(&["--name", "helper", "--", CHILD, "init"])
    }

    /// Records with these further arguments.
    fn of(words: &[&str]) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut command = Command::new(tools::profiler()?);
        command.args(["record", "-o", "out.json.gz", "--live", "127.0.0.1:0"]);
        command.args(words);
        command.current_dir(directory.path()).process_group(0);
        command.env("XDG_CACHE_HOME", tools::cache()?);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut command = pipes.spawn()?;
        let mut errors = BufReader::new(command.stderr.take().context("no pipe")?);
        let mut line = String::new();
        errors.read_line(&mut line)?;
        let url = line
            .trim()
            .strip_prefix("profiler: live at ")
            .with_context(|| line.clone())?
            .to_owned();
        Ok(Self {
            command,
            url,
            errors,
            _directory: directory,
        })
    }

    /// Gives the helper a command.
    fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        Ok(writeln!(
            self.command.stdin.as_mut().context("no pipe")?,
            "{command}"
        )?)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.command.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.command.wait();
    }
}

/// The exit code of `profiler top` if the address is in a variable or on standard input (`way`),
/// where other users cannot read it.
fn top_without_argument(url: &str, way: &str) -> anyhow::Result<Option<i32>> {
    let mut command = Command::new(tools::profiler()?);
    command
        .args(["top", "--once"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    if way == "variable" {
        command.env("PROFILER_LIVE_URL", url)
    } else {
        command.arg("-")
    };
    let mut running = command.spawn()?;
    writeln!(
        running.stdin.take().context("no pipe")?,
        "{}",
        if way == "input" { url } else { "" }
    )?;
    Ok(running.wait()?.code())
}

#[test]
fn l1_profiler_top_shows_the_live_page_of_profiler_record() -> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::start()?;
    recording.tell("work-for plugin checker 6 1500")?;
    recording.tell("work-for tenant acme 40 10")?;
    let page = Page::parse(&recording.url)?;
    page.until("groups.json?top=all", |table| {
        ["checker", "acme"]
            .iter()
            .all(|name| row(table, name).is_some())
            && row(table, "acme").is_some_and(|row| row["ticks"] == 40)
    })?;
    let url = recording.url.clone();
    let top = |options: &[&str]| tools::run(&[&["top", "--once", url.as_str()], options].concat());
    for way in ["variable", "input"] {
        assert_eq!(top_without_argument(&recording.url, way)?, Some(0), "{way}");
    }
    let said = top(&["--sort", "ticks", "--processes"])?;
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""));
    let line = |name: &str| said.out.lines().position(|line| line.starts_with(name));
    assert!(
        line("acme") < line("checker") && line("acme").is_some(),
        "{}",
        said.out
    );
    assert!(
        line("helper").is_some() && line("profiler ").is_some(),
        "{}",
        said.out
    );
    assert!(
        !said.out.contains('\x1b'),
        "the output contains escape sequences, although it is a pipe"
    );
    assert!(
        top(&["--find", "chec", "-n", "1"])?
            .out
            .contains("1 of 1 groups")
    );
    recording.tell("sample hot-function 40 1000")?;
    page.until("flame.json?window=start&find=hot-function", |answer| {
        answer["found_ns"] == 40_000_000
    })?;
    let functions = top(&["--functions", "--window", "start", "--find", "hot-func"])?;
    assert_eq!((functions.code, functions.error.as_str()), (Some(0), ""));
    let is_row = |line: &str| line.contains("40.0 ms") && line.ends_with("hot-function");
    assert!(functions.out.lines().any(is_row), "{}", functions.out);
    assert_eq!(top(&["--functions", "--sort", "wall"])?.code, Some(2));
    assert_eq!(top(&["--sort", "self"])?.code, Some(2));
    let wrong = tools::run(&[
        "top",
        "--once",
        &format!("http://{}/{}/", page.address, "0".repeat(32)),
    ])?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.error.contains("there is no live page"), "{wrong:?}");
    recording.tell("exit 0")?;
    assert!(
        until(|| recording
            .command
            .try_wait()
            .is_ok_and(|status| status.is_some())),
        "the command does not end"
    );
    let mut rest = String::new();
    recording.errors.read_to_string(&mut rest)?;
    assert!(rest.contains("profiler: wrote out.json.gz"), "{rest}");
    assert!(
        rest.contains(&format!("PROFILER_LIVE_URL={} profiler top", recording.url)),
        "{rest}"
    );
    assert_eq!(
        tools::run(&["top", "--once", &recording.url])?.code,
        Some(2),
        "the page is still served"
    );
    Ok(())
}

#[test]
fn profiler_top_shows_which_process_waits_for_which_process() -> anyhow::Result<()> {
    own_process!();
    let recording = Recording::of(&["--", "sh", "-c", "sleep 1000 | cat"])?;
    let page = Page::parse(&recording.url)?;
    page.until("waits.json?window=start", |answer| {
        let rows = answer["rows"].as_array().into_iter().flatten();
        let mut of_cat = rows.filter(|row| row["name"] == "cat");
        of_cat.any(|row| {
            row["whom"]
                .as_str()
                .is_some_and(|whom| whom.starts_with("sleep ["))
        })
    })?;
    let url = recording.url.as_str();
    let said = tools::run(&["top", "--once", "--waits", "--find", "cat", url])?;
    assert_eq!((said.code, said.error.as_str()), (Some(0), ""));
    let is_row = |line: &str| {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        line.contains(") pipe sleep [") && line.contains(" cat (")
    };
    assert!(said.out.lines().any(is_row), "{}", said.out);
    let refused = tools::run(&["top", "--once", "--waits", "--sort", "wall", url])?;
    assert_eq!(refused.code, Some(2));
    Ok(())
}
