//! The samples of one thread, summed by stack and by the span that was open.
//!
//! Used by [`super::profiles`]. Invariant: memory grows with the number of different stacks and
//! spans, not with the number of samples.

use std::collections::HashMap;

use super::super::recording::Thread;
use super::open_spans::{OpenSpans, SampleContext};
use profiler_reader::NodeId;

/// The largest number that is written: readers use signed integers.
const MOST: u64 = i64::MAX.unsigned_abs();

/// The samples of a thread with one stack and one span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleSum {
    pub(super) stack: Option<NodeId>,
    pub(super) belongs: SampleContext,
    /// Time, whether the thread ran or waited.
    pub(super) wall_ns: u64,
    /// Processor time.
    pub(super) cpu_ns: u64,
}

/// Sums the samples of a thread, in the order of the first of each stack.
pub(super) fn sums<'m>(thread: &Thread<'m>, spans: &mut OpenSpans<'m>) -> Vec<SampleSum> {
    let mut all: Vec<SampleSum> = Vec::new();
    let mut places: HashMap<(Option<NodeId>, SampleContext), usize> = HashMap::new();
    for slice in thread.slices.iter().filter(|slice| slice.is_sample) {
        let belongs = spans.at(slice.at, slice.stack, thread.tables);
        let place = *places.entry((slice.stack, belongs)).or_insert(all.len());
        if place == all.len() {
            all.push(SampleSum {
                stack: slice.stack,
                belongs,
                wall_ns: 0,
                cpu_ns: 0,
            });
        }
        if let Some(sum) = all.get_mut(place) {
            sum.wall_ns = sum.wall_ns.saturating_add(slice.length()).min(MOST);
            sum.cpu_ns = sum.cpu_ns.saturating_add(slice.cpu).min(MOST);
        }
    }
    all
}
