//! The helper process of the tests: begins in a chosen way, then does what it is told.
//!
//! `child BEGINNING`: how the profiler begins is one of [`begin::BEGINNINGS`]; the first line on
//! standard output says what came of it. Then each line on standard input is a command of one of
//! the [`FAMILIES`], answered with one line, `ok…` or `error …`, unless the command ends the
//! process. At the end of input the process exits with code 0.
//!
//! A new mode is a row in a table: a beginning in [`begin`], [`limits`], [`part_liar`] or [`record`], or a
//! command in one of the families.

mod begin;
mod books;
mod end;
mod files;
mod forks;
mod groups;
mod limits;
mod malicious_channel;
mod pairs;
mod part_liar;
mod pool_corruptor;
mod record;
mod sandbox;
mod spans;
mod sprawl;
mod traps;
mod visit;

use std::io::{BufRead, Write};

use anyhow::{Context, bail};

/// A command's words, without its name.
type Words<'a> = &'a [&'a str];
/// What carries out the command of that name; `None` if it is not one of the family's.
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
    books::obey,
    sandbox::obey,
    spans::obey,
    sprawl::obey,
    groups::obey,
    files::obey,
    visit::obey,
];

fn main() -> anyhow::Result<()> {
    let beginning = std::env::args().nth(1).context("how to begin?")?;
    if beginning == "inventory" {
        return forks::print_inventory();
    }
    let others = [limits::begin, part_liar::begin, record::begin];
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
    let Some((name, rest)) = words.split_first() else { bail!("an empty line") };
    FAMILIES.iter().find_map(|family| family(name, rest)).with_context(|| format!("unknown: {line}"))?
}

fn stay_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// The word at `place`, as a number.
fn number(words: Words<'_>, place: usize) -> anyhow::Result<u64> {
    let word = words.get(place).with_context(|| format!("word {place} is missing"))?;
    word.parse().with_context(|| format!("not a number: {word}"))
}
