//! Levels as markers with a graph: bytes in use, jobs that wait.
//!
//! Viewers draw every counter of this format as a rate, except those of memory, which all have the
//! label "Memory". So one counter of memory is a counter, and all other levels are markers of the
//! main thread: one for each value, from its change to the next. Viewers make a track of the
//! markers of each name. Called by [`super::threads`] and [`super::process_tables`].

use std::io::Write;

use super::markers::MarkerTable;
use crate::model::{
    CounterKind, CounterPoint, LevelUnit, MEMORY, MarkerTimes, OwnMarker, ProcessModel,
};
use profiler_core::internal::reader::{CounterDefinition, CounterInfo};
use profiler_json::JsonWriter;

/// The counter of memory that is preferred as a counter.
const RESIDENT_MEMORY: &str = "Resident memory";

/// Whether a counter of a process is shown as markers.
pub(super) fn is_shown_as_markers(counter: &CounterInfo, all: &[CounterInfo]) -> bool {
    let definition = &counter.definition;
    CounterKind::of(definition) == CounterKind::Level && memory_counter(all) != Some(definition)
}

/// The counter of memory that is written as a counter.
fn memory_counter(all: &[CounterInfo]) -> Option<&CounterDefinition> {
    let of_memory = || {
        let all = all.iter().map(|counter| &counter.definition);
        all.filter(|definition| definition.category == MEMORY)
    };
    of_memory()
        .find(|definition| definition.name == RESIDENT_MEMORY)
        .or_else(|| of_memory().next())
}

/// Converts the values of a level to markers.
#[derive(Debug)]
pub(super) struct LevelMarkers<'a> {
    counter: &'a CounterDefinition,
    /// The present value and the time since when it is known.
    last: Option<CounterPoint>,
}

impl<'a> LevelMarkers<'a> {
    /// Begins with the value that is known first, if any is.
    pub(super) const fn new(counter: &'a CounterDefinition, first: Option<CounterPoint>) -> Self {
        Self {
            counter,
            last: first,
        }
    }

    /// Notes the next value. Writes the marker of the previous one, if it is another.
    pub(super) fn value<W: Write>(
        &mut self,
        value: CounterPoint,
        markers: &mut MarkerTable<'_, '_, W>,
    ) {
        if self.last.is_some_and(|last| last.value == value.value) {
            return;
        }
        if let Some(last) = self.last.replace(value) {
            self.write(last, value.at_ns, markers);
        }
    }

    /// Writes the marker of the last value.
    pub(super) fn end<W: Write>(self, end_ns: i64, markers: &mut MarkerTable<'_, '_, W>) {
        if let Some(last) = self.last {
            self.write(last, end_ns, markers);
        }
    }

    fn write<W: Write>(
        &self,
        last: CounterPoint,
        until_ns: i64,
        markers: &mut MarkerTable<'_, '_, W>,
    ) {
        markers.write_own(&Level {
            name: &self.counter.name,
            unit: LevelUnit::of(self.counter),
            value: last.value,
            from_ns: last.at_ns,
            until_ns,
        });
    }
}

/// A value of a level and the time for which it lasted.
#[derive(Debug)]
struct Level<'a> {
    name: &'a str,
    unit: LevelUnit,
    value: i64,
    from_ns: i64,
    until_ns: i64,
}

impl OwnMarker for Level<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn times(&self, _process: &ProcessModel<'_>) -> MarkerTimes {
        MarkerTimes::interval(self.from_ns, self.until_ns)
    }

    fn write_payload<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_object();
        out.entry_str("type", self.unit.type_name());
        out.key("value");
        out.i64(self.value);
        out.end_object();
    }
}
