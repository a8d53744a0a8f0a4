//! Programs that know which processes they wait for, and the answers that their profiles give.
//!
//! Used by the tests `for_whom` and by the figures `known_waits`. `holders.c` waits for another
//! process or thread in each way that leads to its holder; `path.c` knows its critical path. Both
//! print what they know.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::foreign::Workplace;
use crate::known_waits::compile;
use crate::tools;

const HOLDERS: &str = include_str!("holders.c");
const PATH: &str = include_str!("path.c");

/// A recorded run of one of the programs.
#[derive(Debug)]
pub struct KnownRun {
    place: Workplace,
    /// What it has printed.
    pub printed: String,
}

impl KnownRun {
    /// Records a run of `holders.c`: waits of this length, this many of each kind. With
    /// `records_itself`, the waiting process has a recorder of its own.
    ///
    /// # Errors
    /// When the program cannot be compiled or recorded.
    pub fn of_holders(milliseconds: u32, count: u32, records_itself: bool) -> Result<Self> {
        let words = [milliseconds.to_string(), count.to_string()];
        Self::record(HOLDERS, &words, records_itself)
    }

    /// Records a run of `path.c` with this many rounds.
    ///
    /// # Errors
    /// When the program cannot be compiled or recorded.
    pub fn of_path(rounds: u32) -> Result<Self> {
        Self::record(PATH, &[rounds.to_string()], false)
    }

    fn record(source: &str, words: &[String], records_itself: bool) -> Result<Self> {
        let place = Workplace::new()?;
        let program = compile(&place, ("known", source), records_itself)?;
        let mut command = Command::new(tools::profiler()?);
        // The processed format, because the Gecko format has no weights.
        command.args(["record", "-o", "out.json", "--"]);
        command.arg(program).args(words).current_dir(place.path());
        command.env("LD_LIBRARY_PATH", place.prefix().join("lib"));
        command.env("XDG_CACHE_HOME", tools::cache()?);
        let recorded = place.recorded(command.stdin(Stdio::null()).output()?);
        ensure!(recorded.output.status.success(), "{}", recorded.said());
        let printed = String::from_utf8(recorded.output.stdout.clone())?;
        Ok(Self { place, printed })
    }

    /// The path of the profile.
    ///
    /// # Errors
    /// When the path is not UTF-8.
    pub fn profile(&self) -> Result<String> {
        let path = self.place.path().join("out.json");
        Ok(path.to_str().context("a path that is no text")?.to_owned())
    }

    /// The answer of `profiler waits --json` with these options.
    ///
    /// # Errors
    /// When the command fails.
    pub fn waits(&self, options: &[&str]) -> Result<Value> {
        let profile = self.profile()?;
        let mut words = vec!["waits", "--json", &profile];
        words.extend(options);
        Ok(serde_json::from_str(&tools::run(&words)?.out)?)
    }
}

/// The waits in one function, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HolderTimes {
    /// The processes or threads that end the waits.
    pub holders: BTreeSet<String>,
    /// All waits.
    pub all_ms: f64,
    /// The waits for one of the holders, and for no other process.
    pub right_ms: f64,
    /// The waits for processes of which none is a holder.
    pub wrong_ms: f64,
}

/// The holders of the waits of `holders.c`, by function.
#[derive(Clone, Debug, Default)]
pub struct KnownHolders {
    /// By the functions' names.
    pub functions: BTreeMap<String, HolderTimes>,
}

impl KnownHolders {
    /// What the profile of a run says.
    ///
    /// # Errors
    /// When the command fails, or its answer has another form.
    pub fn of(run: &KnownRun) -> Result<Self> {
        let mut known = Self::default();
        for line in run.printed.lines() {
            let (function, holder) = line.split_once(' ').context("two words")?;
            let times = known.functions.entry(function.to_owned()).or_default();
            times.holders.insert(format!("[{holder}]"));
        }
        let report = run.waits(&[])?;
        let threads = report["threads"].as_array().context("threads")?;
        let rows = threads
            .iter()
            .filter_map(|thread| thread["waits"].as_array());
        for row in rows.flatten() {
            let place = row["place"].as_str().context("a place")?;
            let Some(times) = known.functions.get_mut(place) else {
                continue;
            };
            let whom = row["for"].as_str().unwrap_or_default();
            times.add(whom, row["ms"].as_f64().context("a time")?);
        }
        Ok(known)
    }

    /// The share of the waiting time whose holder is named, in percent, for the function with the
    /// smallest share.
    #[must_use]
    pub fn named_pct(&self) -> f64 {
        let all = self.functions.values();
        all.map(|times| 100.0 * times.right_ms / times.all_ms.max(1e-9))
            .fold(100.0, f64::min)
    }

    /// The share of the waiting time with a wrong holder, in percent, over all functions.
    #[must_use]
    pub fn wrong_pct(&self) -> f64 {
        let sum = |part: fn(&HolderTimes) -> f64| self.functions.values().map(part).sum::<f64>();
        100.0 * sum(|times| times.wrong_ms) / sum(|times| times.all_ms).max(1e-9)
    }
}

impl HolderTimes {
    fn add(&mut self, whom: &str, ms: f64) {
        self.all_ms += ms;
        let has_holder = self.holders.iter().any(|holder| whom.contains(holder));
        if has_holder && !whom.contains(" or ") {
            self.right_ms += ms;
        } else if whom.contains('[') && !has_holder {
            self.wrong_ms += ms;
        }
    }
}

/// The critical path of `path.c`: the time of each process, in milliseconds.
#[derive(Clone, Debug, Default)]
pub struct KnownPath {
    /// By the number of the process: what it knows, and what the profile says.
    pub processes: BTreeMap<String, (f64, f64)>,
    /// The length of the path.
    pub ms: f64,
}

impl KnownPath {
    /// What the profile of a run says.
    ///
    /// # Errors
    /// When the command fails, or its answer has another form.
    pub fn of(run: &KnownRun) -> Result<Self> {
        let mut known = Self::default();
        for line in run.printed.lines() {
            let (pid, ms) = line.split_once(' ').context("two words")?;
            known.processes.insert(pid.to_owned(), (ms.parse()?, 0.0));
        }
        let path = run.waits(&["--path", "known"])?;
        known.ms = path["ms"].as_f64().context("a length")?;
        for part in path["parts"].as_array().context("parts")? {
            let pid = part["pid"].as_str().context("a process")?;
            if let Some((_, told)) = known.processes.get_mut(pid) {
                *told += part["ms"].as_f64().context("a time")?;
            }
        }
        Ok(known)
    }

    /// The largest difference between a process's time on the path and what the program knows, in
    /// percent of the length.
    #[must_use]
    pub fn error_pct(&self) -> f64 {
        let all = self.processes.values();
        let most = all
            .map(|(known, told)| (known - told).abs())
            .fold(0.0, f64::max);
        100.0 * most / self.ms.max(1e-9)
    }
}
