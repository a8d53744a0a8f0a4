//! The time that well-known programs of several processes take below `profiler record`, divided by
//! the time that they take without it.
//!
//! Called by the figures of the agent. A shell measures the program's own time, which does not
//! contain the time in which the command writes the profile. Each program runs alternately with and
//! without the command.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::foreign::Workplace;
use integration_tests::measure::median;
use integration_tests::{programs, tools};

const ROUNDS: usize = 3;

/// Runs its arguments, and prints for how many nanoseconds they ran.
const WATCH: &str = "a=$(date +%s%N); \"$@\" >/dev/null 2>&1; b=$(date +%s%N); echo $((b - a))";

/// All figures of programs. Those that are not installed are left out.
pub(super) fn measure(report: &mut Report) -> Result<()> {
    let place = Workplace::new()?;
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
        for _ in 0..ROUNDS {
            without.push(seconds(&place, None, &program)?);
            with.push(seconds(
                &place,
                Some(tools::profiler()?.as_path()),
                &program,
            )?);
        }
        let (with, without) = (median(&with), median(&without));
        let seconds = Figure::new(format!("agent.programs.{name}.s"), without, "s");
        report.put(seconds);
        let ratio = Figure::new(format!("agent.programs.{name}.ratio"), with / without, "x");
        report.put(match most(name) {
            Some(most) => ratio.promised(Promise::AtMost(most)),
            None => ratio,
        });
        let percent = coverage_pct(&place)?;
        let coverage = Figure::new(format!("agent.coverage_pct.{name}"), percent, "%");
        report.put(match least_coverage(name) {
            Some(least) => coverage.promised(Promise::AtLeast(least)),
            None => coverage,
        });
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

/// The promised share of the processor time that is in samples with stacks.
fn least_coverage(name: &str) -> Option<f64> {
    Some(match name {
        "make" => 97.0,
        "git" => 90.0,
        "bash" => 60.0,
        _ => return None,
    })
}

/// The share of the processor time of the last recording that is in samples with stacks.
fn coverage_pct(place: &Workplace) -> Result<f64> {
    let mut command = Command::new(tools::profiler()?);
    command.args(["info", "--json", "figures.json"]);
    let output = command.current_dir(place.path()).output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let time = |name: &str| report["observed"][name].as_f64().context("no time");
    Ok(100.0 * time("sampled_us")? / time("used_us")?)
}

/// How long the program runs, below the command `profiler` if there is one.
fn seconds(
    place: &Workplace,
    profiler: Option<&std::path::Path>,
    program: &[String],
) -> Result<f64> {
    let mut command = match profiler {
        Some(profiler) => {
            let mut command = Command::new(profiler);
            command.args(["record", "-o", "figures.json", "--", "sh"]);
            command.env("XDG_CACHE_HOME", tools::cache()?);
            command
        }
        None => Command::new("sh"),
    };
    command.args(["-c", WATCH, "sh"]).args(program);
    let output = command
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    let nanoseconds: f64 = text.trim().parse().context(text)?;
    Ok(nanoseconds / 1e9)
}
