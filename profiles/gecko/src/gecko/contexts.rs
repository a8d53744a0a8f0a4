//! The traces and groups of a thread's samples, as markers of the thread.
//!
//! Used by [`super::threads`], for threads that have any. Reads the thread's samples once more.

use std::io::Write;

use super::markers::MarkerTable;
use super::process::GeckoProcess;
use super::threads::{Threads, read};
use crate::failure::Failure;
use crate::model::{ContextRuns, Place};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::trace::SampleContext;
use profiler_core::internal::reader::{ByteSource, ThreadInfo};

impl<S: ByteSource> Threads<'_, S> {
    /// Writes the runs of samples with the same context. As in the sample table, samples of
    /// several recorders are sorted first.
    pub(super) fn write_contexts<W: Write>(
        &mut self,
        process: &GeckoProcess<'_>,
        place: Place,
        info: &ThreadInfo,
        table: &mut MarkerTable<'_, '_, W>,
    ) -> Result<(), Failure> {
        let chunks = self.owners.sample_chunks(place).to_vec();
        let mut samples: Vec<(i64, SampleContext)> = Vec::new();
        let mut runs = ContextRuns::default();
        let mut add = |samples: &mut Vec<(i64, SampleContext)>,
                       table: &mut MarkerTable<'_, '_, W>| {
            for (at_ns, context) in samples.drain(..) {
                if let Some(run) = runs.add(at_ns, context, &process.model) {
                    table.write_own(&run);
                }
            }
        };
        let is_one = chunks
            .windows(2)
            .all(|pair| matches!(pair, [a, b] if a.recorder == b.recorder));
        for chunk in &chunks {
            let Some(entries) = read(self.part, &mut self.buffer, chunk.info)? else {
                continue;
            };
            for entry in entries {
                let Entry::Sample(sample) = entry else {
                    continue;
                };
                let tid = sample.foreign;
                let is_its = tid.map_or(chunk.recorder == place, |tid| tid == info.tid)
                    && process.is_wanted(sample.at)
                    && self.owners.threads.of_sample(chunk.recorder, &sample) == Some(place);
                if is_its {
                    samples.push((process.ns(sample.at), sample.context));
                }
            }
            if is_one {
                add(&mut samples, table);
            }
        }
        samples.sort_by_key(|(at_ns, _)| *at_ns);
        add(&mut samples, table);
        if let Some(run) = runs.finish(&process.model) {
            table.write_own(&run);
        }
        Ok(())
    }
}
