//! Commands that send and receive numbers over named pipes, with markers: see
//! `integration_tests::pairs`.

use std::path::Path;

use anyhow::Context;
use integration_tests::pairs;

use crate::{Words, number};

/// `ping OUT BACK CHANNEL ROUNDS` and `pong IN BACK CHANNEL ROUNDS` exchange ROUNDS numbers over
/// the named pipes.
pub(crate) fn obey(name: &str, words: Words<'_>) -> Option<anyhow::Result<String>> {
    let act = match name {
        "ping" => pairs::ping,
        "pong" => pairs::pong,
        _ => return None,
    };
    Some(run(act, words))
}

fn run(
    act: fn(&Path, &Path, u64, u64) -> anyhow::Result<()>,
    words: Words<'_>,
) -> anyhow::Result<String> {
    let path = |place: usize| words.get(place).map(Path::new).context("a path is missing");
    act(path(0)?, path(1)?, number(words, 2)?, number(words, 3)?)?;
    Ok("ok".to_owned())
}
