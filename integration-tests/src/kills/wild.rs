//! The child that is killed: records on several threads until it is killed.
//!
//! Run by the program that starts such children, when its arguments select this role; see
//! [`run_if_asked`]. The child ends only when it is killed or its parent is gone.

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;
use std::time::Duration;

use anyhow::Context;

use super::board::{self, Board, Row, WRITERS};
use super::entry;

/// The argument that makes a program run as such a child.
const ROLE: &str = "--wild";
/// Number of entries of a writer that ends.
const FLEETING: u64 = 300;
/// Number of entries between two pauses.
const BREATH: u64 = 64;
/// Time between two checks whether the parent lives.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How a child behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nature {
    /// Threads that write at the same time.
    pub threads: u32,
    /// Microseconds of pause after every few entries; 0 for full speed.
    pub pause_us: u64,
    /// Whether some entries are larger than a small chunk.
    pub big: bool,
    /// Whether threads end after a few entries, and new threads take their places.
    pub fleeting: bool,
}

impl Nature {
    fn to_words(self) -> [String; 4] {
        [
            u64::from(self.threads),
            self.pause_us,
            u64::from(self.big),
            u64::from(self.fleeting),
        ]
        .map(|word| word.to_string())
    }

    fn from_words(words: &[String]) -> Option<Self> {
        let mut words = words.iter().map(|word| word.parse::<u64>().ok());
        let mut next = || words.next().flatten();
        Some(Self {
            threads: u32::try_from(next()?).ok()?,
            pause_us: next()?,
            big: next()? != 0,
            fleeting: next()? != 0,
        })
    }

    /// Returns the command that starts `program` as such a child.
    ///
    /// # Errors
    /// When the system has no descriptor for the board.
    pub fn command(self, program: &std::path::Path, board: &Board) -> std::io::Result<Command> {
        let mut command = Command::new(program);
        command.arg(ROLE).args(self.to_words());
        command
            .stdin(Stdio::from(board.for_child()?))
            .stdout(Stdio::null());
        Ok(command)
    }
}

/// Runs as a child if the arguments select this role. Every program that starts such children must
/// call this function first.
pub fn run_if_asked() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (role, words) = arguments.split_first()?;
    if role != ROLE {
        return None;
    }
    let run = Nature::from_words(words)
        .context("a bad nature")
        .and_then(run);
    Some(run.map_or(ExitCode::from(3), |()| ExitCode::SUCCESS))
}

fn run(nature: Nature) -> anyhow::Result<()> {
    let parent = rustix::process::getppid();
    let rows = board::map(std::io::stdin())?;
    profiler_child::init();
    for _ in 0..nature.threads {
        start_writer(nature, rows)?;
    }
    while rustix::process::getppid() == parent {
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Starts a thread that records. If writers are fleeting, the thread starts the next writer when it
/// ends.
fn start_writer(nature: Nature, rows: &'static [Row]) -> std::io::Result<()> {
    let writer = NEXT.fetch_add(1, Ordering::Relaxed);
    let Some(row) = rows.get(writer as usize) else {
        return Ok(());
    };
    let stays = !nature.fleeting || writer + nature.threads >= WRITERS;
    let body = move || {
        write(nature, row, writer, if stays { u64::MAX } else { FLEETING });
        let _ = start_writer(nature, rows);
    };
    Builder::new()
        .name(thread_name(writer))
        .spawn(body)
        .map(drop)
}

fn write(nature: Nature, row: &Row, writer: u32, count: u64) {
    let pause = Duration::from_micros(nature.pause_us);
    for number in 0..count {
        row.around(number, || entry::record(writer, number, nature.big));
        if number % BREATH == BREATH - 1 && !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// Returns the name of a writer's thread.
fn thread_name(writer: u32) -> String {
    format!("writer-{writer}")
}

/// Returns the writer whose thread has this name.
pub(super) fn writer_of(name: &str) -> Option<u32> {
    name.strip_prefix("writer-")?.parse().ok()
}
