//! The tables of the whole process: counters over time, and the costs of the sampler.
//!
//! Written by [`super::process`] after the threads, which have noted the chunks of these entries.
//! Each counter is written in a separate pass over its chunks, so that no table is held in memory.

use std::io::Write;

use super::chunk_owners::OwnedChunk;
use super::counters::CounterTable;
use super::overhead;
use super::process::GeckoProcess;
use super::threads::Threads;
use crate::entry::Entry;
use crate::profile::failure::Failure;
use crate::profile::json::JsonWriter;
use crate::profile::model::{CounterPoint, resident_memory};
use crate::reader::{ByteSource, CounterInfo};

/// Writes the keys `counters` and `profilerOverhead`. All entries of these kinds count as delivered
/// here, also values of counters that have no name.
pub(super) fn write<S: ByteSource, W: Write>(
    process: &GeckoProcess<'_>,
    threads: &mut Threads<'_, S>,
    out: &mut JsonWriter<W>,
) -> Result<(), Failure> {
    out.key("counters");
    out.begin_array();
    for counter in &process.model.snapshot.counters {
        write_counter(process, threads, counter, out)?;
    }
    if let Some(counter) = resident_memory(&process.model) {
        CounterTable::begin(&process.model, &counter, out).end();
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
    let cell = counter.definition.cell;
    let chunks = threads.periodic.of(cell);
    let is_first = chunks.first().is_none_or(|chunk| is_first(process, chunk));
    let is_whole = process.model.spec.since.is_none() && is_first;
    let mut table = CounterTable::begin(&process.model, counter, out);
    for chunk in chunks {
        threads.for_each_entry(process, chunk, |entry| {
            let Entry::Counters(counters) = entry else {
                return;
            };
            let at_ns = process.ns(counters.at);
            for counter in counters.values().filter(|counter| counter.cell == cell) {
                let point = CounterPoint {
                    at_ns,
                    value: counter.value,
                    number: counter.number,
                };
                table.write(point, is_whole);
            }
        })?;
    }
    table.end();
    Ok(())
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
