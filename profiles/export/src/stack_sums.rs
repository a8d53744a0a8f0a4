//! The samples of one thread, summed by stack and by a context, such as the span that was open.
//!
//! Used by the formats pprof and OTLP. Invariant: memory grows with the number of different stacks
//! and contexts, not with the number of samples.

use std::collections::HashMap;
use std::hash::Hash;

use super::slices::Slice;
use profiler_reader::NodeId;

/// The largest number that is written: readers use signed integers.
const MAX: u64 = i64::MAX.unsigned_abs();

/// The samples of a thread with one stack and one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StackSum<C> {
    pub(super) stack: Option<NodeId>,
    pub(super) context: C,
    pub(super) samples: u64,
    /// Time, whether the thread ran or waited.
    pub(super) wall_ns: u64,
    /// Processor time.
    pub(super) cpu_ns: u64,
}

impl<C> StackSum<C> {
    /// The same sum with another context.
    pub(super) fn with_context<D>(self, context: impl FnOnce(C) -> D) -> StackSum<D> {
        StackSum {
            stack: self.stack,
            context: context(self.context),
            samples: self.samples,
            wall_ns: self.wall_ns,
            cpu_ns: self.cpu_ns,
        }
    }
}

/// Sums the samples of a thread, in the order of the first of each stack.
pub(super) fn stack_sums<C: Copy + Eq + Hash>(
    slices: &[Slice],
    mut context: impl FnMut(&Slice) -> C,
) -> Vec<StackSum<C>> {
    let mut all: Vec<StackSum<C>> = Vec::new();
    let mut places: HashMap<(Option<NodeId>, C), usize> = HashMap::new();
    let mut last = None;
    for slice in slices.iter().filter(|slice| slice.is_sample) {
        let key = (slice.stack, context(slice));
        let next = all.len();
        // Samples in succession often have the same stack.
        let place = match last.filter(|(known, _)| *known == key) {
            Some((_, place)) => place,
            None => *places.entry(key).or_insert(next),
        };
        last = Some((key, place));
        if place == next {
            let (stack, context) = key;
            all.push(StackSum {
                stack,
                context,
                samples: 0,
                wall_ns: 0,
                cpu_ns: 0,
            });
        }
        if let Some(sum) = all.get_mut(place) {
            sum.samples += 1;
            sum.wall_ns = sum.wall_ns.saturating_add(slice.length()).min(MAX);
            sum.cpu_ns = sum.cpu_ns.saturating_add(slice.cpu).min(MAX);
        }
    }
    all
}
