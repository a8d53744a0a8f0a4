//! The tables of the whole process: counters over time, and the costs of the sampler.
//!
//! Written by [`super::process`] after the threads, which have noted the chunks of these entries.
//! Each counter is written in a separate pass over its chunks, so that no table is held in memory.

use std::io::Write;

use super::chunk_owners::OwnedChunk;
use super::counters::CounterTable;
use super::levels::{LevelMarkers, is_shown_as_markers};
use super::markers::MarkerTable;
use super::overhead;
use super::process::GeckoProcess;
use super::threads::Threads;
use crate::failure::Failure;
use crate::model::{CounterPoint, is_counter_shown, resident_memory};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ByteSource, CounterInfo};
use profiler_json::JsonWriter;

/// Writes the keys `counters` and `profilerOverhead`. All entries of these kinds count as delivered
/// here, also values of counters that have no name.
pub(super) fn write<S: ByteSource, W: Write>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'_, S>,
    out: &mut JsonWriter<W>,
) -> Result<(), Failure> {
    out.key("counters");
    out.begin_array();
    let all = &process.model.snapshot.counters;
    for counter in all
        .iter()
        .filter(|counter| is_counter_shown(counter) && !is_shown_as_markers(counter, all))
    {
        write_counter(process, threads, counter, out)?;
    }
    if let Some(counter) = resident_memory(&process.model) {
        CounterTable::begin(&process.model, &counter, true, out).end();
    }
    out.end_array();
    write_overhead(process, threads, out)
}

fn write_counter<S: ByteSource, W: Write>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'_, S>,
    counter: &CounterInfo,
    out: &mut JsonWriter<W>,
) -> Result<(), Failure> {
    let chunks = threads.periodic.of(counter.definition.cell);
    let is_whole = is_whole(process, &chunks);
    let mut table = CounterTable::begin(&process.model, counter, is_whole, out);
    for_each_value(process, threads, counter, chunks, |value| {
        table.write(value)
    })?;
    table.end();
    Ok(())
}

/// Calls `each` with the values of a counter over time, from these chunks.
fn for_each_value<'a, S: ByteSource>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'a, S>,
    counter: &CounterInfo,
    chunks: Vec<OwnedChunk<'a>>,
    mut each: impl FnMut(CounterPoint),
) -> Result<(), Failure> {
    let cell = counter.definition.cell;
    for chunk in chunks {
        threads.for_each_entry(process, chunk, |entry| {
            let Entry::Counters(counters) = entry else {
                return;
            };
            let at_ns = process.ns(counters.at);
            let values = counters.values().filter(|counter| counter.cell == cell);
            values.for_each(|counter| {
                each(CounterPoint {
                    at_ns,
                    value: counter.value,
                    number: counter.number,
                });
            });
        })?;
    }
    Ok(())
}

/// Writes the markers of all levels that are shown as markers.
pub(super) fn write_levels<S: ByteSource, W: Write>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'_, S>,
    markers: &mut MarkerTable<'_, '_, W>,
) -> Result<(), Failure> {
    let all = &process.model.snapshot.counters;
    for counter in all
        .iter()
        .filter(|counter| is_shown_as_markers(counter, all))
    {
        let chunks = threads.periodic.of(counter.definition.cell);
        let zero = CounterPoint {
            at_ns: process.model.recording_start_ns(),
            ..CounterPoint::default()
        };
        let first = is_whole(process, &chunks).then_some(zero);
        let mut level = LevelMarkers::new(&counter.definition, first);
        for_each_value(process, threads, counter, chunks, |value| {
            level.value(value, markers);
        })?;
        let end_ns = process.model.end_ns();
        let CounterInfo { value, number, .. } = *counter;
        let present = CounterPoint {
            at_ns: end_ns,
            value,
            number,
        };
        level.value(present, markers);
        level.end(end_ns, markers);
    }
    Ok(())
}

/// Whether all values of a counter that were recorded are in these chunks.
fn is_whole(process: &GeckoProcess<'_>, chunks: &[OwnedChunk<'_>]) -> bool {
    let is_first = chunks.first().is_none_or(|chunk| is_first(process, chunk));
    process.model.spec.since.is_none() && is_first
}

/// Whether no entry that the thread recorded before this chunk is evicted.
fn is_first(process: &GeckoProcess<'_>, chunk: &OwnedChunk<'_>) -> bool {
    process
        .model
        .snapshot
        .threads
        .get(chunk.recorder)
        .is_none_or(|thread| thread.evicted == 0)
}

fn write_overhead<S: ByteSource, W: Write>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'_, S>,
    out: &mut JsonWriter<W>,
) -> Result<(), Failure> {
    let mut is_begun = false;
    let mut last_ns = i64::MIN;
    for chunk in threads.periodic.chunks() {
        let mut written = 0_u64;
        threads.for_each_entry(process, chunk, |entry| {
            if let Entry::Overhead(overhead) = entry {
                if !is_begun {
                    overhead::begin(out);
                    is_begun = true;
                }
                last_ns = last_ns.max(process.ns(overhead.at));
                overhead::write_row(last_ns, overhead, out);
            }
            written = written.saturating_add(u64::from(matches!(
                entry,
                Entry::Overhead(_) | Entry::Counters(_)
            )));
        })?;
        threads.count(chunk.recorder, written);
    }
    if is_begun {
        overhead::end(out);
    }
    Ok(())
}
