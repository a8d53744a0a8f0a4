//! Tests of what a profile says about waits: for whom a thread waits, what the other side does
//! meanwhile, and the critical path.

use std::process::Command;

use anyhow::{Context, ensure};
use integration_tests::known_holders::{KnownHolders, KnownPath, KnownRun};
use integration_tests::{own_process, tools};
use serde_json::Value;

#[test]
fn each_wait_has_the_process_or_thread_that_can_end_it() -> anyhow::Result<()> {
    own_process!();
    let known = KnownHolders::of(&KnownRun::of_holders(400, 1)?)?;
    ensure!(known.functions.len() == 16, "{known:?}");
    for (function, times) in &known.functions {
        // The first look at a wait may come before its holder is known.
        ensure!(times.right_ms > times.all_ms / 2.0, "{function}: {times:?}");
        ensure!(times.wrong_ms == 0.0, "{function}: {times:?}");
    }
    Ok(())
}

#[test]
fn a_wait_shows_what_the_other_side_did_meanwhile() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(3)?;
    let report = run.waits(&[])?;
    let threads = report["threads"].as_array().context("threads")?;
    let rows = threads
        .iter()
        .filter_map(|thread| thread["waits"].as_array());
    let is_labelled = |row: &&Value| row["place"] == "parent_collects" && row["for"].is_string();
    let row = rows.flatten().find(is_labelled).context("no wait")?;
    let meanwhile = row["meanwhile"].to_string();
    ensure!(meanwhile.contains("worker_sleeps"), "{meanwhile}");
    ensure!(meanwhile.contains("runs"), "{meanwhile}");
    Ok(())
}

#[test]
fn the_critical_path_leads_through_the_worker_and_sums_to_the_wall_time() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(5)?;
    let path = run.waits(&["--path", "known"])?;
    let parts = path["parts"].as_array().context("parts")?;
    let sum: f64 = parts.iter().filter_map(|part| part["ms"].as_f64()).sum();
    let length = path["ms"].as_f64().context("a length")?;
    ensure!((sum - length).abs() < 0.01, "{sum} of {length}");
    // A busy machine disturbs the samples; `figures -- known_waits` measures what is promised.
    let known = KnownPath::of(&run)?;
    ensure!(known.error_pct() < 25.0, "{known:?} {parts:?}");
    Ok(())
}

#[test]
fn a_profile_without_the_named_process_gets_a_clear_answer() -> anyhow::Result<()> {
    own_process!();
    let run = KnownRun::of_path(1)?;
    let profile = run.profile()?;
    for (words, said) in [
        (
            ["--process", "nothing"],
            "the profile has no process nothing",
        ),
        (
            ["--path", "nothing"],
            "the profile has no process or marker interval nothing",
        ),
    ] {
        let mut command = Command::new(tools::profiler()?);
        let output = command.args(["waits", &profile]).args(words).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2), "{text}");
        ensure!(text.contains(said), "{text}");
    }
    Ok(())
}
