//! Checks that 10,000 children leave nothing behind in a session that continues.
//!
//! The session runs in a separate process with its own temporary directory. It keeps only a short
//! time window, so that the memory of dead children is freed soon. Its resources after the first
//! children are compared with its resources after the last; both times all children have ended. If
//! the machine needs more than two minutes for 10,000 children, fewer are started and the figures'
//! names state the number. `FIGURES_CHURN_S` allows more time.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use integration_tests::own::Possessions;
use integration_tests::patience::{Stopwatch, until};
use profiler_core::marker;
use profiler_parent::Session;
use profiler_parent::core::session::Features;

use super::at_length;
use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

const CYCLES: u64 = 10_000;
const SECONDS: u64 = 120;
const WARM_UP: u64 = 100;
/// Children at the same time.
const SIDE_BY_SIDE: u64 = 4;
/// The time window that the session keeps.
const WINDOW: Duration = Duration::from_millis(50);

pub(super) fn measure(report: &mut Report) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let before = files_elsewhere();
    let seconds = at_length("FIGURES_CHURN_S", SECONDS);
    let mut session = role("session")?;
    session
        .args([CYCLES.to_string(), seconds.to_string()])
        .env("TMPDIR", directory.path())
        .env_remove("XDG_RUNTIME_DIR");
    let output = session.stderr(Stdio::inherit()).output()?;
    ensure!(
        output.status.success(),
        "the session ended with {}",
        output.status
    );
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<i64> = text
        .split_ascii_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let &[cycles, descriptors, mappings, threads] = &numbers[..] else {
        anyhow::bail!("the session printed {text:?}")
    };
    let left = std::fs::read_dir(directory.path())?.count()
        + files_elsewhere().difference(&before).count();
    let name = if cycles.cast_unsigned() < CYCLES {
        eprintln!("churn: {cycles} cycles in {seconds} s; FIGURES_CHURN_S gives more time");
        format!("churn_{cycles}")
    } else {
        "churn".to_owned()
    };
    let deltas = [
        ("fd_delta", descriptors, "descriptors"),
        ("mapping_delta", mappings, "mappings"),
        ("thread_delta", threads, "threads"),
        ("files_left", i64::try_from(left)?, "files"),
    ];
    for (what, delta, unit) in deltas {
        let figure = Figure::new(format!("{name}.{what}"), delta as f64, unit);
        report.put(figure.promised(Promise::AtMost(0.0)));
    }
    Ok(())
}

/// Returns the profiler's files in directories that `TMPDIR` does not redirect.
fn files_elsewhere() -> BTreeSet<std::path::PathBuf> {
    let all = ["/dev/shm", "/tmp", "/var/tmp"]
        .into_iter()
        .flat_map(std::fs::read_dir)
        .flatten()
        .flatten();
    let is_ours = |path: &std::path::PathBuf| {
        path.starts_with("/dev/shm") || path.to_string_lossy().contains("profiler")
    };
    all.map(|entry| entry.path()).filter(is_ours).collect()
}

/// `session CYCLES SECONDS`: starts at most CYCLES children in at most SECONDS seconds. Prints
/// their number, and how many descriptors, mappings and threads were added.
pub(super) fn play_session(words: &[String]) -> Result<()> {
    let number = |at: usize| {
        words
            .get(at)
            .context("a number is missing")?
            .parse::<u64>()
            .context("no number")
    };
    let cycles = number(0)?;
    let time = Duration::from_secs(number(1)?);
    let session = Session::builder()
        .features(Features::NONE)
        .duration(WINDOW)
        .start()?;
    run(&session, WARM_UP)?;
    let before = settled(&session)?;
    let watch = Stopwatch::start();
    let mut done = 0;
    while done < cycles && watch.elapsed() < time {
        let batch = WARM_UP.min(cycles - done);
        run(&session, batch)?;
        done += batch;
    }
    let after = settled(&session)?;
    let [descriptors, mappings, threads] =
        [0, 1, 2].map(|which: usize| after[which] - before[which]);
    println!("{done} {descriptors} {mappings} {threads}");
    Ok(())
}

/// Starts `count` children, [`SIDE_BY_SIDE`] at a time, and waits for each.
fn run(session: &Session, count: u64) -> Result<()> {
    for begin in (0..count).step_by(SIDE_BY_SIDE as usize) {
        let mut children = Vec::new();
        for _ in begin..count.min(begin + SIDE_BY_SIDE) {
            let mut command: Command = role("brief")?;
            command.stdin(Stdio::null());
            children.push(session.spawn("brief", command)?);
        }
        for child in &mut children {
            ensure!(child.wait()?.success(), "a child failed");
        }
    }
    Ok(())
}

/// Returns the descriptors, file mappings and threads of this process when everything of the ended
/// children is gone.
fn settled(session: &Session) -> Result<[i64; 3]> {
    let is_empty = || {
        session
            .processes()
            .iter()
            .skip(1)
            .all(|process| process.true_bytes == 0)
    };
    ensure!(
        until(is_empty),
        "the memory of the ended children is not freed"
    );
    let count = || {
        let Possessions {
            threads,
            descriptors,
            ..
        } = Possessions::count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let of_files = maps.lines().filter(|line| line.contains('/')).count();
        [descriptors, of_files, threads].map(|count| i64::try_from(count).unwrap_or(i64::MAX))
    };
    // The threads for the last children end a moment later, so the lowest of several counts is
    // used.
    let mut last = count();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        last = count()
            .into_iter()
            .zip(last)
            .map(|(now, last)| now.min(last))
            .collect::<Vec<_>>()
            .try_into()
            .map_err(|_| anyhow::anyhow!("three numbers"))?;
    }
    Ok(last)
}

/// `brief`: records a little and ends.
pub(super) fn play_brief(_: &[String]) -> Result<()> {
    profiler_child::init();
    let record = || (0..20).for_each(|_| marker!("brief"));
    record();
    std::thread::Builder::new()
        .spawn(record)?
        .join()
        .map_err(|_| anyhow::anyhow!("a thread panicked"))
}
