//! `profiler top`: the live page's tables of groups and of functions in a terminal.
//!
//! ```text
//! $ PROFILER_LIVE_URL=http://127.0.0.1:41229/5a…/ profiler top
//! 3 processes running, 12.1 MiB of 128.0 MiB recorded; 1 of 1 groups, last 10.0 s, by wall
//! GROUP          KIND    TIME    ON CPU  OFF CPU  BLOCKING  ENTRIES  P50      P99      LONGEST  …
//! spell checker  plugin  2.31 s  2.30 s  10.0 ms  –         412      5.12 ms  21.9 ms  64.2 ms  …
//!
//! $ PROFILER_LIVE_URL=http://127.0.0.1:41229/5a…/ profiler top --functions
//! 3 processes: 9.80 s on CPU, 52.1 s off CPU in 9.98 s; 1 of 311 functions by self (on-cpu)
//! SELF%  SELF    TOTAL%  TOTAL   CHANGE  LIBRARY  FUNCTION
//! 61.2%  6.00 s  98.3%   9.63 s  +3.10%  spell    spell::dictionary::lookup
//!
//! $ PROFILER_LIVE_URL=http://127.0.0.1:41229/5a…/ profiler top --waits
//! 2 of 2 waits for other processes and threads, in 10.0 s
//! TIME    THREADS  PROCESS        KIND  WAITS FOR
//! 7.12 s  0.71     editor (2210)  pipe  spell checker [2217]
//! ```
//!
//! Invariants: it changes nothing; in a pipe it prints plain text without control characters; the
//! address, which is a secret, does not have to be an argument, because every user of the machine
//! can read arguments.

mod functions;
mod table;
mod text;
mod waits;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use functions::FunctionsAnswer;
use table::Everything;
use waits::WaitsAnswer;

use crate::live_page::{LivePage, address};

const EVERY: Duration = Duration::from_secs(1);
/// Rows in a pipe, and where the size of the terminal is unknown.
const ROWS: usize = 20;
/// The number of lines that are not groups.
const OTHER_LINES: usize = 6;
/// Maximum number of requests before the answer that `--once` shows.
const WARM_UP: usize = 50;
/// Moves to the first place and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Shows the slowest groups or functions of a program that is being recorded
///
/// URL is the address of a live page, as `profiler record --live` prints it. The table shows the
/// groups of all processes, the slowest first, and is updated every second. With `--functions`, it
/// shows the functions of all processes by the time that their threads spend in them, and with
/// `--waits`, for which process the threads of each process wait. Stops on Ctrl-C, or when the
/// session ends.
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
    /// Shows functions instead of groups
    #[arg(long)]
    functions: bool,
    /// Shows which process waits for which process
    #[arg(long, conflicts_with_all = ["functions", "sort"])]
    waits: bool,
    /// The column to sort by [default: wall; with --functions, self]
    #[arg(long, value_enum, value_name = "KEY")]
    sort: Option<Sort>,
    /// The period that the numbers cover [default: start; with --functions or --waits, 10s]
    #[arg(long, value_enum, value_name = "TIME")]
    window: Option<Window>,
    /// The kind of time that functions are shown by
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        default_value_t,
        requires = "functions"
    )]
    time: Time,
    /// The number of rows; 0 shows all [default: as many as fit, or 20 in a pipe]
    #[arg(short = 'n', long, value_name = "N")]
    rows: Option<usize>,
    /// Shows only groups of this kind
    #[arg(long, conflicts_with_all = ["functions", "waits"])]
    kind: Option<String>,
    /// Shows only groups, functions or processes whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
    /// Shows the processes, too
    #[arg(long, conflicts_with_all = ["functions", "waits"])]
    processes: bool,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Time in the group
    Wall,
    /// Time on the processor
    #[value(name = "on-cpu", alias = "cpu")]
    OnCpu,
    /// Time off the processor
    OffCpu,
    /// Time in blocking calls
    Blocking,
    /// Entries
    Ticks,
    #[value(alias = "median")]
    P50,
    P99,
    Longest,
    /// Runs of more than 64 ms
    Janky,
    Processes,
    Kind,
    /// Name of the group or function
    Name,
    /// Of functions: the time in the function itself
    #[value(name = "self")]
    OwnTime,
    /// Of functions: the time with everything that it calls
    Total,
    /// Of functions: the change of their own time to the window before
    Change,
}

impl Sort {
    const fn is_of_functions(self) -> bool {
        matches!(
            self,
            Self::OwnTime | Self::Total | Self::Change | Self::Name
        )
    }

    const fn is_of_groups(self) -> bool {
        !matches!(self, Self::OwnTime | Self::Total | Self::Change)
    }

    /// The name in a request.
    fn name(self) -> String {
        match self {
            Self::OnCpu => "cpu".to_owned(),
            other => name_of(other),
        }
    }
}

/// A range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Window {
    /// Since the session's start; for functions, since the oldest sample that is kept
    Start,
    /// The last ten seconds; for groups, only the time in which the live page was in use
    #[value(name = "10s")]
    TenSeconds,
    /// The last minute, for functions and waits
    #[value(name = "60s")]
    Minute,
}

/// A kind of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Time {
    /// Time on the processor
    #[default]
    OnCpu,
    /// Time in which threads wait
    OffCpu,
    /// Both
    All,
}

/// The name of a value in the command line and in requests.
fn name_of(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

pub(crate) fn run(options: &TopArgs) -> Result<()> {
    options.check()?;
    let page = LivePage::at(&address(options.url.as_deref())?)?;
    let is_terminal = io::stdout().is_terminal();
    if options.once {
        options.warm_up(&page);
    }
    let mut shown = 0_u64;
    loop {
        let size = size_of_terminal().filter(|_| is_terminal);
        let rows = options.rows_for(size.map(|(_, lines)| lines));
        let columns = size.map(|(columns, _)| columns);
        let text = match options.table(&page, rows, is_terminal, columns) {
            Ok(text) => text,
            Err(_) if shown > 0 => return Ok(()), // the session has ended
            Err(error) => return Err(error),
        };
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
    /// Refuses a column or a period that the chosen table does not have.
    fn check(&self) -> Result<()> {
        let is_there = |sort: Sort| match self.functions {
            true => sort.is_of_functions(),
            false => sort.is_of_groups(),
        };
        if let Some(sort) = self.sort.filter(|sort| !is_there(*sort)) {
            let table = if self.functions {
                "functions"
            } else {
                "groups"
            };
            bail!("the table of {table} has no column {}", name_of(sort));
        }
        let is_minute = self.window == Some(Window::Minute);
        ensure!(
            self.functions || self.waits || !is_minute,
            "groups are shown for 10s or since the start; 60s needs --functions or --waits"
        );
        Ok(())
    }

    /// Sends requests before the one that `--once` shows: recent changes and rates of groups need
    /// an earlier snapshot, and functions need the recorded samples and their names.
    fn warm_up(&self, page: &LivePage) {
        if self.waits {
            return warm_up(
                || {
                    let text = page.ask("waits.json", &self.waits_query()).ok()?;
                    serde_json::from_str(&text).ok()
                },
                WaitsAnswer::is_final,
            );
        }
        if !self.functions {
            if self.window == Some(Window::TenSeconds) || self.processes {
                let _ = page.ask("live.json", &self.groups_query(ROWS));
                std::thread::sleep(EVERY * 2); // the page polls less often if a poll is costly
            }
            return;
        }
        let ask = || {
            let text = page.ask("flame.json", &self.functions_query(1)).ok()?;
            serde_json::from_str(&text).ok()
        };
        warm_up(ask, FunctionsAnswer::is_final);
    }

    /// Asks for the chosen table, and formats it.
    fn table(
        &self,
        page: &LivePage,
        rows: usize,
        is_terminal: bool,
        columns: Option<usize>,
    ) -> Result<String> {
        const WRONG: &str = "the answer is not that of a live page";
        if self.functions {
            let text = page.ask("flame.json", &self.functions_query(rows))?;
            let found: FunctionsAnswer = serde_json::from_str(&text).context(WRONG)?;
            return Ok(found.shown(is_terminal, columns));
        }
        if self.waits {
            let text = page.ask("waits.json", &self.waits_query())?;
            let found: WaitsAnswer = serde_json::from_str(&text).context(WRONG)?;
            let find = self.find.as_deref().unwrap_or_default();
            return Ok(found.shown((rows, find), is_terminal, columns));
        }
        let text = page.ask("live.json", &self.groups_query(rows))?;
        let found: Everything = serde_json::from_str(&text).context(WRONG)?;
        Ok(found.shown(is_terminal, columns, self.processes))
    }

    fn rows_for(&self, lines: Option<usize>) -> usize {
        let fit = lines.map_or(ROWS, |lines| lines.saturating_sub(OTHER_LINES).max(1));
        self.rows
            .unwrap_or(if self.processes { fit / 2 } else { fit })
    }

    fn groups_query(&self, rows: usize) -> Vec<(&'static str, String)> {
        let top = number_of_rows(rows);
        let processes = if self.processes {
            top.clone()
        } else {
            "0".to_owned()
        };
        vec![
            ("sort", self.sort.unwrap_or(Sort::Wall).name()),
            ("window", name_of(self.window.unwrap_or(Window::Start))),
            ("top", top),
            ("psort", "cpu".to_owned()),
            ("ptop", processes),
            ("kind", self.kind.clone().unwrap_or_default()),
            ("find", self.find.clone().unwrap_or_default()),
        ]
    }

    fn waits_query(&self) -> Vec<(&'static str, String)> {
        let window = self.window.unwrap_or(Window::TenSeconds);
        vec![("window", name_of(window))]
    }

    fn functions_query(&self, rows: usize) -> Vec<(&'static str, String)> {
        let window = self.window.unwrap_or(Window::TenSeconds);
        vec![
            ("sort", self.sort.unwrap_or(Sort::OwnTime).name()),
            ("window", name_of(window)),
            ("time", name_of(self.time)),
            ("rows", number_of_rows(rows)),
            ("nodes", "0".to_owned()),
            ("compare", "1".to_owned()),
            ("find", self.find.clone().unwrap_or_default()),
        ]
    }
}

/// Asks until an answer is final, or there is none.
fn warm_up<A>(ask: impl Fn() -> Option<A>, is_final: impl Fn(&A) -> bool) {
    for _ in 0..WARM_UP {
        if ask().is_none_or(|answer| is_final(&answer)) {
            return;
        }
        std::thread::sleep(EVERY / 5);
    }
}

/// The number of rows in a request; 0 stands for all.
fn number_of_rows(rows: usize) -> String {
    if rows == 0 {
        "all".to_owned()
    } else {
        rows.to_string()
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
