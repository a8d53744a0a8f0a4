//! Kills children at random moments and reports what was lost. See `integration_tests::kills`.
//!
//! `kills COUNT [SEED]` prints a line every ten seconds and a verdict at the end. Exit code 0:
//! nothing was lost. 1: something was lost, or the run failed. 2: invalid arguments. The seed
//! repeats the random choices, but not the exact moments of the kills.

use std::process::ExitCode;
use std::time::Duration;

use integration_tests::kills::{self, judge::Tally, rng::Rng, wild};
use integration_tests::patience::Stopwatch;

const LINE_EVERY: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    if let Some(code) = wild::run_if_asked() {
        return code;
    }
    let numbers: Option<Vec<u64>> = std::env::args()
        .skip(1)
        .map(|word| word.parse().ok())
        .collect();
    let (count, seed) = match numbers.as_deref() {
        Some(&[count]) => (count, Rng::seed()),
        Some(&[count, seed]) => (count, seed),
        _ => {
            eprintln!("usage: kills COUNT [SEED]");
            return ExitCode::from(2);
        }
    };
    match kill(count, seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("kills: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn kill(count: u64, seed: u64) -> anyhow::Result<bool> {
    println!("seed {seed}");
    let watch = Stopwatch::start();
    let mut next = LINE_EVERY;
    let tally = kills::run(&std::env::current_exe()?, count, seed, |tally| {
        if watch.elapsed() >= next {
            next = watch.elapsed() + LINE_EVERY;
            println!("{:5} s  {}", watch.elapsed().as_secs(), line(tally));
        }
    })?;
    println!("{:5} s  {}", watch.elapsed().as_secs(), line(&tally));
    tally
        .complaints
        .iter()
        .for_each(|complaint| eprintln!("{complaint}"));
    let kept = tally.broken == 0;
    println!(
        "{}",
        if kept {
            "verdict: nothing committed was lost"
        } else {
            "verdict: BROKEN"
        }
    );
    Ok(kept)
}

fn line(tally: &Tally) -> String {
    format!(
        "{} kills ({} before the first entry, {} inside one, {} also in profiles): {} delivered, {} evicted, \
         {} dropped, {} unfinished; {} lost, {} torn, {} doubled, {} broken",
        tally.kills,
        tally.before_first,
        tally.inside_entry,
        tally.in_profiles,
        tally.delivered,
        tally.evicted,
        tally.dropped,
        tally.unfinished,
        tally.committed_lost,
        tally.torn,
        tally.duplicates,
        tally.broken,
    )
}
