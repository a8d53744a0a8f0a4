//! The time that well-known programs of several processes take below `profiler record`, divided by
//! the time that they take without it.
//!
//! Called by the figures of the agent. A small program measures the program's own time, which does
//! not contain the time in which the command writes the profile. Each program runs alternately with
//! and without the command. The processor time in a profile is compared with the time that the
//! system has counted.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::measure::median;
use integration_tests::{programs, tools};

const ROUNDS: usize = 3;

/// Runs its arguments, and prints their duration and their processor time.
const WATCH: &str = include_str!("watch.c");

/// All figures of programs. Those that are not installed are left out.
pub(super) fn measure(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
    place.compile("watch", WATCH, &[])?;
    let all = [
        ("make", programs::make(&place)?),
        ("python_fork", programs::python(&place, "fork")?),
        ("python_spawn", programs::python(&place, "spawn")?),
        ("node", programs::node(&place)?),
        ("java", programs::java(&place)?),
        ("git", programs::git()?),
        ("bash", programs::bash()?),
    ];
    for (name, program) in all {
        let Some(program) = program else { continue };
        let mut with = Vec::new();
        let mut without = Vec::new();
        let mut shares = Vec::new();
        for _ in 0..ROUNDS {
            without.push(run(&place, None, &program)?.seconds);
            let profiler = tools::profiler()?;
            let recorded = run(&place, Some(profiler.as_path()), &program)?;
            with.push(recorded.seconds);
            shares.push(shares_of(&place, &recorded)?);
        }
        let (with, without) = (median(&with), median(&without));
        let seconds = Figure::new(format!("agent.programs.{name}.s"), without, "s");
        report.put(seconds);
        let ratio = Figure::new(format!("agent.programs.{name}.ratio"), with / without, "x");
        report.put(match most(name) {
            Some(most) => ratio.promised(Promise::AtMost(most)),
            None => ratio,
        });
        let percent = |share: fn(&Shares) -> f64| {
            let all: Vec<f64> = shares.iter().map(share).collect();
            100.0 * median(&all)
        };
        let covered = percent(|shares| shares.recorded);
        let coverage = Figure::new(format!("agent.coverage_pct.{name}"), covered, "%");
        report.put(match least_coverage(name) {
            Some(least) => coverage.promised(Promise::AtLeast(least)),
            None => coverage,
        });
        let with_stacks = percent(|shares| shares.with_stacks);
        let with_stacks = Figure::new(format!("agent.stacks_pct.{name}"), with_stacks, "%");
        report.put(with_stacks);
    }
    Ok(())
}

/// The promised ratio of a program.
fn most(name: &str) -> Option<f64> {
    Some(match name {
        "bash" => 1.15,
        "git" => 1.1,
        "make" | "node" => 1.03,
        "python_fork" | "java" => 1.05,
        _ => return None,
    })
}

/// The promised share of the processor time that is in samples, with or without stacks.
fn least_coverage(name: &str) -> Option<f64> {
    Some(match name {
        "make" => 97.0,
        "git" => 90.0,
        "bash" => 60.0,
        _ => return None,
    })
}

/// Shares of the processor time that the system has counted.
struct Shares {
    /// In samples.
    recorded: f64,
    /// In samples with stacks.
    with_stacks: f64,
}

/// The shares in the profile of a run.
fn shares_of(place: &Workplace, run: &Run) -> Result<Shares> {
    let mut command = Command::new(tools::profiler()?);
    command.args(["info", "--json", "figures.json"]);
    let output = command.current_dir(place.path()).output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let time = |name: &str| report["observed"][name].as_f64().context("no time");
    Ok(Shares {
        recorded: time("recorded_us")? / run.used_us,
        with_stacks: time("sampled_us")? / run.used_us,
    })
}

/// The times of a run of a program.
struct Run {
    seconds: f64,
    /// The processor time of all processes.
    used_us: f64,
}

/// Runs the program, below the command `profiler` if there is one.
fn run(place: &Workplace, profiler: Option<&std::path::Path>, program: &[String]) -> Result<Run> {
    let watch = place.path().join("watch");
    let mut command = match profiler {
        Some(profiler) => {
            let mut command = Command::new(profiler);
            command
                .args(["record", "-o", "figures.json", "--"])
                .arg(&watch);
            command.env("XDG_CACHE_HOME", tools::cache()?);
            command
        }
        None => Command::new(&watch),
    };
    let output = command
        .args(program)
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    let (time, used) = text.trim().split_once(' ').context("no time")?;
    Ok(Run {
        seconds: time.parse::<f64>()? / 1e9,
        used_us: used.parse()?,
    })
}
