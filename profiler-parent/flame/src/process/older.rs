//! Reads the chunks of a pool that are older than those that were read, the newest first.
//!
//! The samples of a chunk are read in their order. Their stacks share frames only with stacks of
//! the same chunk, and their times are joined with those of newer chunks when the chunk has been
//! read: the first sample of a thread in the newer chunk may end a wait that began in this one
//! ([`crate::usage`]). So the sums do not depend on the order of the chunks. Invariant: what
//! is kept of a chunk is dropped when it has been read.

use std::sync::Arc;

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{Follower, ReadError};
use profiler_sys::OwnFile;

use super::{Pass, SampledProcess};
use crate::hash::FastMap;
use crate::stack_tree::{NodeNumber, RecorderPaths};
use crate::usage::{SampleTimes, Spent, ThreadUsage};
use crate::weights::ThreadNumber;

/// What is needed while the samples of one chunk are read.
#[derive(Debug, Default)]
pub(super) struct OlderChunk {
    pub(super) paths: RecorderPaths,
    /// Threads that do not fit share a number, so the system's number is needed, too.
    usages: FastMap<(ThreadNumber, ThreadId), ThreadUsage>,
}

impl OlderChunk {
    /// The time that the next sample of a thread in this chunk adds to its stack `node`.
    pub(super) fn spent(
        &mut self,
        number: ThreadNumber,
        tid: ThreadId,
        times: &SampleTimes,
        node: NodeNumber,
    ) -> Spent {
        let usage = self.usages.entry((number, tid)).or_default();
        usage.next_or_begin(times, node)
    }
}

impl SampledProcess {
    /// Reads older chunks while the budget of the pass lasts, and at least one of them.
    pub(super) fn read_older(
        &mut self,
        follower: &mut Follower<Arc<OwnFile>>,
        pass: &mut Pass<'_>,
    ) -> Result<(), ReadError> {
        pass.is_older = true;
        let read = self.read_older_chunks(follower, pass);
        pass.is_older = false;
        read?;
        let until = follower.older_until();
        let until_ns = until.map(|until| pass.converter.since_start_ns(until));
        self.whole_since_ns = until_ns.filter(|_| !self.progress.is_behind);
        if until.is_none() {
            self.end_older(pass);
        }
        Ok(())
    }

    fn read_older_chunks(
        &mut self,
        follower: &mut Follower<Arc<OwnFile>>,
        pass: &mut Pass<'_>,
    ) -> Result<(), ReadError> {
        let mut left = pass.budget.saturating_sub(self.progress.bytes).max(1);
        while left > 0 && self.read_older_chunk(follower, pass)? {
            left = left.saturating_sub(self.progress.bytes);
        }
        Ok(())
    }

    /// Reads one chunk; returns whether there was one.
    fn read_older_chunk(
        &mut self,
        follower: &mut Follower<Arc<OwnFile>>,
        pass: &mut Pass<'_>,
    ) -> Result<bool, ReadError> {
        let mut chunk = OlderChunk::default();
        let read = follower.advance_backward(|one| {
            if let Entry::Sample(sample) = &one.entry {
                self.take(one, sample, Some(&mut chunk), pass);
            }
        })?;
        let Some(progress) = read else {
            return Ok(false);
        };
        self.progress = progress;
        self.join(chunk, pass);
        Ok(true)
    }

    /// Joins the times of a chunk with those of newer chunks.
    fn join(&mut self, chunk: OlderChunk, pass: &mut Pass<'_>) {
        for ((number, tid), usage) in chunk.usages {
            if let Some((sample, spent)) = self.threads.precede(number, tid, usage) {
                self.add(number, sample.node, &sample.times, spent, pass);
            }
        }
        self.recent.end_older();
    }

    /// Counts the samples that were put off: there are no older ones.
    pub(super) fn end_older(&mut self, pass: &mut Pass<'_>) {
        if !self.threads.awaits_older() {
            return;
        }
        pass.is_older = true;
        for (number, sample, spent) in self.threads.end_older() {
            self.add(number, sample.node, &sample.times, spent, pass);
        }
        pass.is_older = false;
        self.recent.end_older();
    }
}

#[cfg(test)]
mod tests;
