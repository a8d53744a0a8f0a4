//! The Gecko format: one JSON object per process, children under `processes`.
//!
//! A [`ProcessPart`] writes the object of one process from its pool: a child writes its own, the
//! parent writes its own and those of children that cannot. It is a sink of the
//! [profile model](super::model): the modules here know the tables of the format and their keys.
//! The version is [`GECKO_VERSION`](profiler_json::GECKO_VERSION) throughout. Viewers refuse newer
//! versions than their own and upgrade older ones, so this is the oldest version with all features
//! that are used here.
//!
//! Invariants: memory does not grow with the number of entries (one chunk, the names, the texts of
//! one thread); all processes have the same `startTime`, so viewers shift none of them; for any
//! contents of a pool, the output is well-formed JSON that a viewer can load. The order of keys is
//! free in the format, so `meta` comes last: the root's `meta` contains the shown range of time,
//! which is known when all processes have been written.

mod allocations;
mod chunk_owners;
mod contexts;
mod counters;
mod frames;
mod levels;
mod libs;
mod markers;
mod meta;
mod overhead;
mod periodic;
mod process;
mod process_tables;
mod samples;
mod stacks;
mod table;
mod threads;

pub use super::model::{IncompleteProcess, merge_categories, write_schema, write_value};
pub use process::{LateMarkers, ProcessPart};

#[cfg(test)]
mod tests;
