//! The crashes that a profile shows: the verdicts of its log, with the stacks of the markers.
//!
//! The markers are read only if a verdict names a crash. Stacks of the Gecko format are left out:
//! its stacks belong to threads.

use profiler_reader as reading;
use profiler_reader::{GatheredProcess, NodeId, ReadError, Survey, Tables, Thread, ThreadSink};
use serde::Deserialize;

use crate::crash_row::CrashRow;

/// The most functions of a stack that are shown.
const MAX_FRAMES: usize = 24;

/// The crashes of a profile.
#[derive(Debug, Default)]
pub(super) struct Crashes(Vec<Crash>);

/// A crash, and its threads in the profile.
#[derive(Debug)]
struct Crash {
    row: CrashRow,
    /// Which process with this number it is, if the profile has several.
    life: Option<usize>,
    /// When the latest crash with a stack was, in milliseconds.
    at: f64,
}

/// The fields of a marker that are needed.
#[derive(Deserialize)]
struct CrashFields<'m> {
    #[serde(rename = "type")]
    kind: &'m str,
    /// Only a marker of `profiler-crash` has it.
    registers: &'m str,
    signal: &'m str,
    cause: Option<StackField>,
}

#[derive(Deserialize)]
struct StackField {
    stack: u32,
}

impl Crashes {
    /// The crashes that the verdicts of a profile name.
    pub(super) fn of(survey: &Survey) -> Self {
        let parts = survey.parts.iter();
        let logs = parts.flat_map(|part| part.logs.gathering.values());
        let processes: Vec<_> = logs.flat_map(|log| &log.processes).collect();
        let crash = |(index, process): (usize, &&GatheredProcess)| {
            let row = CrashRow::of(&process.name, process.pid, &process.verdict)?;
            let before = processes.get(..index).unwrap_or_default();
            let others = |all: &[&GatheredProcess]| {
                let is_other = |other: &&&GatheredProcess| other.pid == row.pid && other.present;
                all.iter().filter(is_other).count()
            };
            let life = (others(&processes) > 1).then(|| others(before));
            let at = f64::NEG_INFINITY;
            Some(Crash { row, life, at })
        };
        Self(processes.iter().enumerate().filter_map(crash).collect())
    }

    pub(super) const fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn into_rows(self) -> Vec<CrashRow> {
        self.0.into_iter().map(|crash| crash.row).collect()
    }
}

impl ThreadSink for Crashes {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    /// Takes the stack of the latest crash that the verdict may be about.
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ReadError> {
        let mut crashes = self.0.iter_mut();
        let (pid, life) = match thread.raw.pid.split_once('.') {
            Some((pid, life)) => (pid, life.parse().ok()),
            None => (thread.raw.pid.as_str(), Some(0)),
        };
        let is_its = |crash: &&mut Crash| {
            let is_life = crash.life.is_none() || crash.life == life;
            is_life && pid.parse() == Ok(crash.row.pid)
        };
        let crash = crashes.find(is_its);
        let Some(crash) = crash.filter(|_| !thread.has_own_tables) else {
            return Ok(());
        };
        for marker in thread.raw.markers.iter() {
            let stack = marker
                .data
                .and_then(|data| stack_of(data, &crash.row.verdict));
            if let Some(stack) = stack.filter(|_| marker.start >= crash.at) {
                crash.at = marker.start;
                crash.row.stack = functions(thread.tables, stack);
            }
        }
        Ok(())
    }
}

/// The stack of a marker of a crash with the signal that the verdict names.
fn stack_of(data: &str, verdict: &str) -> Option<NodeId> {
    let fields: CrashFields<'_> = serde_json::from_str(data).ok()?;
    let is_crash = fields.kind == "Crash" && !fields.registers.is_empty();
    let told = format!(": {}: ", fields.signal);
    let stack = fields
        .cause
        .filter(|_| is_crash && verdict.contains(&told))?;
    Some(NodeId(stack.stack))
}

/// The functions of a stack, the innermost first.
fn functions(tables: &Tables, stack: NodeId) -> Vec<String> {
    let name = |function: reading::Function<'_>| match function.library {
        Some(library) if !function.name.starts_with(library) => {
            format!("{} ({library})", function.name)
        }
        _ => function.name.to_owned(),
    };
    let functions = tables.functions(stack);
    let names = functions.filter_map(|function| tables.function(function).map(name));
    names.take(MAX_FRAMES).collect()
}
