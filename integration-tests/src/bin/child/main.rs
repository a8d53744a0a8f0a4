//! The helper process of the tests: begins in a chosen way, and then obeys commands.
//!
//! `child BEGINNING`: the argument selects how the profiler begins, as one of [`begin::BEGINNINGS`]
//! or of the other families. The first line on standard output is the resulting status. After that,
//! each line on standard input is a command of one of the [`FAMILIES`]. The process answers it with
//! one line, `ok…` or `error …`, unless the command ends the process. At the end of the input, the
//! process exits with code 0.
//!
//! A new mode is a row in a table: a beginning in [`begin`], [`limits`], [`part_liar`], [`record`]
//! or [`joins`], or a command in one of the families.

mod begin;
mod counts;
mod end;
mod files;
mod forks;
mod generated;
mod groups;
mod joins;
mod limits;
mod malicious_channel;
mod pairs;
mod part_liar;
mod pool_corruptor;
mod record;
mod requests;
mod samples;
mod sandbox;
mod spans;
mod sprawl;
mod traces;
mod traps;
mod visit;
mod workers;

use std::io::{BufRead, Write};

use anyhow::{Context, bail};

/// A command's words, without its name.
type Words<'a> = &'a [&'a str];
/// Carries out the command with this name. Returns `None` if the family has no such command.
type Family = fn(&str, Words<'_>) -> Option<anyhow::Result<String>>;

const FAMILIES: &[Family] = &[
    record::obey,
    end::obey,
    pairs::obey,
    forks::obey,
    traps::obey,
    limits::obey,
    pool_corruptor::obey,
    malicious_channel::obey,
    counts::obey,
    sandbox::obey,
    spans::obey,
    traces::obey,
    sprawl::obey,
    groups::obey,
    files::obey,
    samples::obey,
    generated::obey,
    requests::obey,
    visit::obey,
    joins::obey,
    workers::obey,
];

fn main() -> anyhow::Result<()> {
    let beginning = std::env::args().nth(1).context("how to begin?")?;
    if beginning == "inventory" {
        return forks::print_inventory();
    }
    let others = [
        limits::begin,
        part_liar::begin,
        record::begin,
        joins::begin,
        sandbox::begin,
    ];
    let other = others.iter().find_map(|family| family(&beginning));
    let status = other.unwrap_or_else(|| begin::begin(&beginning))?;
    say(&status)?;
    for line in std::io::stdin().lock().lines() {
        let answer = obey(&line?).unwrap_or_else(|error| format!("error {error:#}"));
        say(&answer)?;
    }
    Ok(())
}

fn obey(line: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some((name, arguments)) = words.split_first() else {
        bail!("an empty line")
    };
    FAMILIES
        .iter()
        .find_map(|family| family(name, arguments))
        .with_context(|| format!("unknown: {line}"))?
}

fn stay_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Returns the word at `place` as a number.
fn number(words: Words<'_>, place: usize) -> anyhow::Result<u64> {
    let word = words
        .get(place)
        .with_context(|| format!("word {place} is missing"))?;
    word.parse()
        .with_context(|| format!("not a number: {word}"))
}
