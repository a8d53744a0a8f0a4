//! `profiler top`: the live page's table of groups in a terminal.
//!
//! ```text
//! $ PROFILER_LIVE_URL=http://127.0.0.1:41229/5a…/ profiler top
//! 3 processes running, 12.1 MiB of 128.0 MiB recorded; 1 of 1 groups, last 10.0 s, by wall
//! GROUP            KIND     TIME     CPU      BLOCKING ENTRIES  MEDIAN   99%      LONGEST  PROCESSES
//! spell checker    plugin   2.31 s   2.30 s   –        412      5.12 ms  21.9 ms  64.2 ms  3
//! ```
//!
//! Invariants: it changes nothing; in a pipe it prints plain text without control characters; the
//! address, which is a secret, does not have to be an argument, because every user of the machine
//! can read arguments.

mod address;
mod fetch;
mod table;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

pub(crate) use address::VARIABLE;
use fetch::LivePage;
use table::Everything;

const EVERY: Duration = Duration::from_secs(1);
/// Rows in a pipe, and where the size of the terminal is unknown.
const ROWS: usize = 20;
/// The number of lines that are not groups.
const OTHER_LINES: usize = 6;
/// Moves to the first place and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the slowest groups of a program that is being recorded
///
/// URL is the address of a live page, as `profiler record --live` prints it. The table shows the
/// groups of all processes, the slowest first, and is renewed every second. Stops on Ctrl-C, or
/// when the session ends.
///
/// The address gives access to everything that the page shows, and every user of the machine can
/// read the arguments of running commands. So pass the address in the environment variable
/// PROFILER_LIVE_URL, or as a line on standard input with `-`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The live page's address; `-` reads it from standard input [default: the value of
    /// PROFILER_LIVE_URL]
    url: Option<String>,
    /// Prints the table once and ends
    #[arg(long)]
    once: bool,
    /// The column to sort by
    #[arg(long, value_enum, value_name = "KEY", default_value_t)]
    sort: Sort,
    /// The period that the numbers cover
    #[arg(long, value_enum, value_name = "TIME", default_value_t)]
    window: Window,
    /// The number of rows; 0 shows all [default: as many as fit, or 20 in a pipe]
    #[arg(short = 'n', long, value_name = "N")]
    rows: Option<usize>,
    /// Shows only groups of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Shows only groups whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Shows the processes, too
    #[arg(long)]
    processes: bool,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Time in the group
    #[default]
    Wall,
    Cpu,
    OffCpu,
    Blocking,
    Ticks,
    Runs,
    Median,
    P99,
    Longest,
    /// Runs of more than 64 ms
    Janky,
    Processes,
    Kind,
    Name,
}

/// A range of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Window {
    /// Since the session's start
    #[default]
    Start,
    /// The last ten seconds, as far as the live page was in use
    #[value(name = "10s")]
    Lately,
}

pub(crate) fn run(options: &TopArgs) -> Result<()> {
    let page = LivePage::at(&address::of(options.url.as_deref())?)?;
    let is_terminal = io::stdout().is_terminal();
    if options.once && (options.window == Window::Lately || options.processes) {
        // Ask twice: recent changes and rates need an earlier snapshot.
        let _ = page.ask(&options.query(ROWS));
        std::thread::sleep(EVERY * 2); // the page polls less often if a poll is costly
    }
    let mut shown = 0_u64;
    loop {
        let size = size_of_terminal().filter(|_| is_terminal);
        let rows = options.rows_for(size.map(|(_, lines)| lines));
        let found = match page.ask(&options.query(rows)) {
            Ok(text) => serde_json::from_str::<Everything>(&text)
                .context("the answer is not that of a live page")?,
            Err(_) if shown > 0 => return Ok(()), // the session has ended
            Err(error) => return Err(error),
        };
        let text = found.shown(
            is_terminal,
            size.map(|(columns, _)| columns),
            options.processes,
        );
        let clear = if is_terminal && !options.once {
            CLEAR
        } else {
            ""
        };
        let end = if options.once || is_terminal {
            ""
        } else {
            "\n"
        };
        let mut out = io::stdout().lock();
        if write!(out, "{clear}{text}{end}")
            .and_then(|()| out.flush())
            .is_err()
            || options.once
        {
            return Ok(()); // the reader has closed the pipe
        }
        drop(out);
        shown += 1;
        std::thread::sleep(EVERY);
    }
}

impl TopArgs {
    fn rows_for(&self, lines: Option<usize>) -> usize {
        let fit = lines.map_or(ROWS, |lines| lines.saturating_sub(OTHER_LINES).max(1));
        self.rows
            .unwrap_or(if self.processes { fit / 2 } else { fit })
    }

    fn query(&self, rows: usize) -> Vec<(&'static str, String)> {
        let named = |value: Option<clap::builder::PossibleValue>| {
            value
                .map(|value| value.get_name().to_owned())
                .unwrap_or_default()
        };
        let top = if rows == 0 {
            "all".to_owned()
        } else {
            rows.to_string()
        };
        let processes = if self.processes {
            top.clone()
        } else {
            "0".to_owned()
        };
        vec![
            ("sort", named(self.sort.to_possible_value())),
            ("window", named(self.window.to_possible_value())),
            ("top", top),
            ("psort", "cpu".to_owned()),
            ("ptop", processes),
            ("kind", self.kind.clone().unwrap_or_default()),
            ("find", self.find.clone().unwrap_or_default()),
        ]
    }
}

/// Columns and lines of the terminal.
#[cfg(unix)]
fn size_of_terminal() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

#[cfg(not(unix))]
fn size_of_terminal() -> Option<(usize, usize)> {
    None
}
