//! The crashes that a profile shows: the verdicts of its log, with the stacks of the markers.
//!
//! The markers are read only if a verdict names a crash. Stacks of the Gecko format are left out:
//! its stacks belong to threads.

use profiler_reader as reading;
use profiler_reader::{NodeId, ReadError, Survey, Tables, Thread, ThreadSink};
use serde::Deserialize;

use crate::crash_row::CrashRow;

/// The most functions of a stack that are shown.
const MAX_FRAMES: usize = 24;

/// The crashes of a profile.
#[derive(Debug, Default)]
pub(super) struct Crashes(Vec<CrashRow>);

/// The fields of a marker that are needed.
#[derive(Deserialize)]
struct CrashFields<'m> {
    #[serde(rename = "type")]
    kind: &'m str,
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
        let processes = logs.flat_map(|log| &log.processes);
        let rows = processes
            .filter_map(|process| CrashRow::of(&process.name, process.pid, &process.verdict));
        Self(rows.collect())
    }

    pub(super) const fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn into_rows(self) -> Vec<CrashRow> {
        self.0
    }
}

impl ThreadSink for Crashes {
    type Error = ReadError;
    const WITH_MARKERS: bool = true;

    /// Takes the stack of the latest crash.
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ReadError> {
        let pid = thread.raw.pid.split('.').next();
        let pid = pid.and_then(|pid| pid.parse::<u64>().ok());
        let mut rows = self.0.iter_mut();
        let Some(row) = rows.find(|row| Some(row.pid) == pid) else {
            return Ok(());
        };
        if thread.has_own_tables {
            return Ok(());
        }
        let markers = thread.raw.markers.iter();
        let stacks = markers.filter_map(|marker| stack_of(marker.data?));
        if let Some(stack) = stacks.last() {
            row.stack = functions(thread.tables, stack);
        }
        Ok(())
    }
}

/// The stack of a marker of a crash.
fn stack_of(data: &str) -> Option<NodeId> {
    let fields: CrashFields<'_> = serde_json::from_str(data).ok()?;
    let stack = fields.cause.filter(|_| fields.kind == "Crash")?;
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
