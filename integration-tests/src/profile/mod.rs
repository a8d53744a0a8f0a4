//! A saved profile, parsed for tests: processes, threads, markers, samples, counts and verdicts.
//!
//! Used by tests and figures. Both formats give the same [`Profile`]: [`gecko`] and [`processed`]
//! parse the file, and check the shape of what they read. [`Process::counts`] and
//! [`Process::numbers`] check that no entry is lost or doubled without being counted.

mod counters;
mod counts;
mod gecko;
mod processed;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::marks::check_of;
use crate::patience::HeldUp;
use crate::samples::Samples;
pub use counters::{Counter, CounterChange};
pub use counts::{COUNTS, LoggedCounts, same_rows};

/// The verdict on a child that made no progress for the progress timeout.
pub const FROZEN: &str = "recovered: frozen: made no progress";

/// The verdict on a child that was killed and recovered.
pub const KILLED: &str = "recovered: ended by signal 9 (SIGKILL)";

/// A parsed profile.
#[derive(Debug)]
pub struct Profile {
    /// The parent first, then its children in the order of the file.
    pub processes: Vec<Process>,
    /// The whole file.
    pub json: Value,
}

/// One process of a profile.
#[derive(Debug)]
pub struct Process {
    /// Shown name.
    pub name: String,
    /// Process number.
    pub pid: u64,
    /// Threads, in the order of the file.
    pub threads: Vec<Thread>,
    /// The counts of the whole process, including entries that are in no thread's counts. All zero
    /// if the part has none.
    pub total: LoggedCounts,
    /// Counters, in the order of the file.
    pub counters: Vec<Counter>,
    /// Paused ranges: start and end in milliseconds.
    pub pauses: Vec<(f64, Option<f64>)>,
}

/// One thread of a process.
#[derive(Debug)]
pub struct Thread {
    /// Name.
    pub name: String,
    /// Markers, in the order of the file.
    pub marks: Vec<Mark>,
    /// Samples with their stacks.
    pub samples: Samples,
    /// The counts of the thread, if the profile contains them.
    pub counts: Option<LoggedCounts>,
}

/// One marker.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Name.
    pub name: String,
    /// The start in milliseconds since the session began, or the end of a marker without a start.
    pub time: f64,
    /// Payload.
    pub data: Value,
}

/// The content of a file, which is compressed if its name ends in `.gz`.
fn json_in(path: &Path) -> anyhow::Result<Value> {
    let file = BufReader::new(File::open(path)?);
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    Ok(match is_packed {
        true => serde_json::from_reader(BufReader::new(GzDecoder::new(file)))?,
        false => serde_json::from_reader(file)?,
    })
}

impl Profile {
    /// Reads a saved profile.
    ///
    /// # Errors
    /// When the file is not a profile.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let json = json_in(path)?;
        let processes = if is_processed(&json) {
            processed::processes(&json)?
        } else {
            gecko::processes(&json)?
        };
        Ok(Self { processes, json })
    }

    /// Reads a saved profile in which some parts may be any JSON. Parses only the parent and the
    /// children with these names.
    ///
    /// # Errors
    /// When the file is not JSON, or one of the parsed parts is not the part of a process.
    pub fn read_some(path: &Path, names: &[&str]) -> anyhow::Result<Self> {
        let json = json_in(path)?;
        let processes = if is_processed(&json) {
            processed::some_processes(&json, names)?
        } else {
            gecko::some_processes(&json, names)?
        };
        Ok(Self { processes, json })
    }

    /// The process with this shown name.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn process(&self, name: &str) -> anyhow::Result<&Process> {
        let mut found = self.processes.iter().filter(|process| process.name == name);
        let process = found.next().with_context(|| format!("no process {name}"))?;
        ensure!(found.next().is_none(), "two processes {name}");
        Ok(process)
    }

    /// The parent.
    pub fn parent(&self) -> &Process {
        &self.processes[0]
    }

    /// Returns the rows of the gathering log: one for each process.
    ///
    /// # Errors
    /// When there is no log.
    pub fn log_rows(&self) -> anyhow::Result<&[Value]> {
        let log = self.json["profileGatheringLog"].as_object();
        let log = log.and_then(|log| log.values().next());
        let rows = log.and_then(|log| log["processes"].as_array());
        Ok(rows.context("no gathering log")?)
    }

    /// Returns the verdict on the process with this name, from the gathering log.
    ///
    /// # Errors
    /// When the log has no row for the process, or more than one.
    pub fn verdict(&self, name: &str) -> anyhow::Result<String> {
        let mut found = self.log_rows()?.iter().filter(|row| row["name"] == name);
        let row = found.next().with_context(|| format!("no row for {name}"))?;
        ensure!(found.next().is_none(), "two rows for {name}");
        Ok(row["verdict"].as_str().context("no verdict")?.to_owned())
    }

    /// Checks the verdict on the process with this name, and the number of its entries that the
    /// profile holds.
    ///
    /// # Errors
    /// When one of them differs, or the counts do not add up.
    pub fn holds(&self, name: &str, verdict: &str, delivered: u64) -> anyhow::Result<()> {
        let (found, counts) = (self.verdict(name)?, self.process(name)?.counts()?);
        ensure!(found == verdict, "{name} is {found}");
        ensure!(counts.delivered == delivered, "{name}: {counts:?}");
        Ok(())
    }

    /// Checks that the verdict on a healthy child is `complete`.
    ///
    /// # Errors
    /// [`HeldUp`] if the capture did not wait for the child because the child made no progress in
    /// time, or if its part was not read by the deadline. Otherwise an error with the verdict.
    pub fn is_complete(&self, name: &str) -> anyhow::Result<()> {
        let verdict = self.verdict(name)?;
        let late = [
            FROZEN,
            "recovered: not finished at the deadline",
            "recovered: refused: cannot read: reading it takes too long",
        ];
        if late.contains(&verdict.as_str()) {
            return Err(HeldUp(name.to_owned()).into());
        }
        ensure!(verdict == "complete", "{name} is {verdict}");
        Ok(())
    }

    /// Returns name and verdict of the incomplete processes that the parent's main thread shows.
    pub fn incomplete(&self) -> Vec<(String, String)> {
        let main = self
            .parent()
            .threads
            .iter()
            .filter(|thread| thread.name == "GeckoMain");
        let marks = main
            .flat_map(|thread| &thread.marks)
            .filter(|mark| mark.name == "Incomplete process");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        marks
            .map(|mark| (text(&mark.data["process"]), text(&mark.data["verdict"])))
            .collect()
    }
}

impl Process {
    /// The thread with this name.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn thread(&self, name: &str) -> anyhow::Result<&Thread> {
        let mut found = self.threads.iter().filter(|thread| thread.name == name);
        let thread = found.next().with_context(|| format!("no thread {name}"))?;
        ensure!(found.next().is_none(), "two threads {name}");
        Ok(thread)
    }

    /// The counter with this name.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn counter(&self, name: &str) -> anyhow::Result<&Counter> {
        let mut found = self.counters.iter().filter(|counter| counter.name == name);
        let counter = found.next().with_context(|| format!("no counter {name}"))?;
        ensure!(found.next().is_none(), "two counters {name}");
        Ok(counter)
    }

    /// Returns the numbers of all numbered markers by thread number, in the order of the file.
    ///
    /// # Errors
    /// When a checksum is wrong, or one track contains markers of two threads.
    pub fn numbers(&self) -> anyhow::Result<BTreeMap<u32, Vec<u64>>> {
        let mut numbers: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for thread in &self.threads {
            let mut owner = None;
            for mark in thread.marks.iter().filter(|mark| mark.name == "numbered") {
                let (number, sequence) = mark.number()?;
                ensure!(
                    *owner.get_or_insert(number) == number,
                    "two writers in {}",
                    thread.name
                );
                numbers.entry(number).or_default().push(sequence);
            }
        }
        Ok(numbers)
    }

    /// Checks that each thread has all numbered markers up to `count`, in order, and that there are
    /// `threads` such threads.
    ///
    /// # Errors
    /// When a marker is missing, doubled or out of order.
    pub fn numbers_up_to(&self, count: u64, threads: usize) -> anyhow::Result<()> {
        let numbers = self.numbers()?;
        let are_whole = numbers.values().all(|all| all.iter().copied().eq(0..count));
        ensure!(
            are_whole && numbers.len() == threads,
            "{}: {numbers:?}",
            self.name
        );
        Ok(())
    }

    /// Returns all markers with this name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Mark> {
        self.threads
            .iter()
            .flat_map(|thread| &thread.marks)
            .filter(move |mark| mark.name == name)
    }

    /// Checks for every thread that each recorded entry is delivered, outside of the range, or
    /// lost. Returns the sum of the counts of all threads.
    ///
    /// # Errors
    /// When the counts of a thread do not add up, or it has more than one unfinished entry.
    pub fn counts(&self) -> anyhow::Result<LoggedCounts> {
        let mut sum = LoggedCounts::default();
        for thread in &self.threads {
            let Some(counts) = &thread.counts else {
                continue;
            };
            let lost = counts.evicted + counts.dropped + counts.unfinished;
            let parts = counts.delivered + counts.outside + lost;
            ensure!(counts.recorded == parts, "{}: {counts:?}", thread.name);
            ensure!(counts.unfinished <= 1, "{}: {counts:?}", thread.name);
            sum.add(counts);
        }
        Ok(sum)
    }

    /// Returns the time from the first to the last numbered marker, in milliseconds.
    pub fn span(&self) -> f64 {
        let times = self.named("numbered").map(|mark| mark.time);
        let (first, last) = times.fold((f64::MAX, f64::MIN), |(a, b), time| {
            (a.min(time), b.max(time))
        });
        (last - first).max(0.0)
    }
}

impl Mark {
    /// Returns thread and number of a numbered marker.
    ///
    /// # Errors
    /// When the checksum is wrong.
    pub fn number(&self) -> anyhow::Result<(u32, u64)> {
        let field = |name: &str| {
            self.data[name]
                .as_u64()
                .with_context(|| format!("no {name}"))
        };
        let thread = u32::try_from(field("thread")?)?;
        let sequence = field("sequence")?;
        ensure!(
            field("check")? == check_of(thread, sequence),
            "a torn marker: {}",
            self.data
        );
        Ok((thread, sequence))
    }
}

/// Whether a profile is in the processed format.
fn is_processed(json: &Value) -> bool {
    json["meta"]["preprocessedProfileVersion"].is_u64()
}

/// The paused ranges of a part or of a thread.
fn pauses(json: &Value) -> Vec<(f64, Option<f64>)> {
    let all = json["pausedRanges"].as_array().into_iter().flatten();
    all.filter_map(|range| Some((range["startTime"].as_f64()?, range["endTime"].as_f64())))
        .collect()
}
