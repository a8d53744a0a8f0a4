//! Programs with habits that the profiler must not change: `host HABIT ARGUMENT…`.
//!
//! Run by the tests `exits` and `own_signal`. A habit that returns prints one line.

mod interrupted;
mod own_signal;

use anyhow::{Result, bail};
use integration_tests::exits;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["exit", way, run] => exits::play(way, run.parse()?),
        ["interrupted", times] => interrupted::run(times.parse()?),
        ["own-signal", order, flags] => own_signal::run(order.parse()?, flags == "restart"),
        _ => bail!("usage: host exit WAY RUN | interrupted TIMES | own-signal ORDER FLAGS"),
    }
}
