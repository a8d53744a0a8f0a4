//! Two processes that exchange numbers over named pipes, with a marker before each send and after
//! each receive.
//!
//! Used by the helper process and by tests. In a profile with one clock, no receive comes before
//! its send.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::Serialize;

/// Payload of both markers.
#[derive(Debug, Serialize)]
struct Pair {
    channel: u64,
    number: u64,
}

impl ProfilerMarker for Pair {
    const TYPE_NAME: &'static str = "Pair";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_format("channel", Format::Integer)
            .key_format("number", Format::Integer)
    }
}

/// Makes a named pipe.
///
/// # Errors
/// When the system cannot make it.
pub fn make_pipe(path: &Path) -> anyhow::Result<()> {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
        .with_context(|| format!("cannot make the pipe {}", path.display()))
}

/// Makes two named pipes, and returns their paths.
///
/// # Errors
/// As [`make_pipe`].
pub fn make_pipes(paths: [PathBuf; 2]) -> anyhow::Result<[PathBuf; 2]> {
    paths.iter().try_for_each(|path| make_pipe(path))?;
    Ok(paths)
}

/// Sends `rounds` numbers on `channel`, and waits after each one until it comes back on `channel +
/// 1`.
///
/// # Errors
/// When the pipes cannot be used.
pub fn ping(out: &Path, back: &Path, channel: u64, rounds: u64) -> anyhow::Result<()> {
    let mut out = File::options().write(true).open(out)?;
    let mut back = File::open(back)?;
    for number in 0..rounds {
        send(&mut out, channel, number)?;
        receive(&mut back, channel + 1)?;
    }
    Ok(())
}

/// Receives each number of [`ping`] on `channel`, and sends it back on `channel + 1`.
///
/// # Errors
/// When the pipes cannot be used.
pub fn pong(incoming: &Path, back: &Path, channel: u64, rounds: u64) -> anyhow::Result<()> {
    let mut incoming = File::open(incoming)?;
    let mut back = File::options().write(true).open(back)?;
    for _ in 0..rounds {
        let number = receive(&mut incoming, channel)?;
        send(&mut back, channel + 1, number)?;
    }
    Ok(())
}

fn send(out: &mut File, channel: u64, number: u64) -> anyhow::Result<()> {
    marker!(
        "send",
        &category::OTHER,
        MarkerOptions::default(),
        &Pair { channel, number }
    );
    Ok(out.write_all(&number.to_ne_bytes())?)
}

fn receive(incoming: &mut File, channel: u64) -> anyhow::Result<u64> {
    let mut number = [0; 8];
    incoming.read_exact(&mut number)?;
    let number = u64::from_ne_bytes(number);
    marker!(
        "receive",
        &category::OTHER,
        MarkerOptions::default(),
        &Pair { channel, number }
    );
    Ok(number)
}
