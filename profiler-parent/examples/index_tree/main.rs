//! Example: indexes the words of a directory tree with many processes, and profiles them.
//!
//! ```text
//! cargo run --release -p profiler-parent --example index_tree -- [DIR] [--workers N] [--out FILE]
//! ```
//!
//! The parent walks DIR and hands its files to workers, which are the same executable. Each worker
//! counts the words of its files on two threads and sends them to the parent. The parent merges
//! them, prints the most frequent words, and saves one profile of all processes. Exit code 0:
//! success; 1: something failed, or a worker died; 2: the request cannot be carried out.

mod crew;
mod expect;
mod frames;
mod link;
mod markers;
mod options;
mod parent;
mod report;
mod walk;
mod words;
mod worker;

use std::process::ExitCode;

use options::{Command, Refusal};

fn main() -> ExitCode {
    let ended = match options::read() {
        Ok(Command::Parent(options)) => parent::run(&options),
        Ok(Command::Worker) => worker::run(),
        Err(stop) => return stop.explain(),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("index_tree: {}", sentence(&error));
        ExitCode::from(if error.is::<Refusal>() { 2 } else { 1 })
    })
}

/// The text of an error and its causes. Most errors already contain the text of their cause, which
/// is not repeated.
fn sentence(error: &anyhow::Error) -> String {
    error
        .chain()
        .skip(1)
        .map(ToString::to_string)
        .fold(error.to_string(), |sentence, cause| {
            if sentence.ends_with(&cause) {
                sentence
            } else {
                format!("{sentence}: {cause}")
            }
        })
}
