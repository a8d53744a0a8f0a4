//! The rows of one thread in the first pass, and the wait that its last sample shows.
//!
//! Filled by [`super::first_pass`], read by the second pass. Invariant: the rows of a thread are in
//! the order of time, also across the profiles of a series.

use std::io;

use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::entry::trace::{CONTEXT_WORDS, SampleContext};
use profiler_core::internal::reader::ThreadInfo;
use profiler_core::time::Timestamp;
use profiler_gecko::model::Delivery;

use super::borders::{Border, WaitAtBorder, WaitStack};
use super::reassigned_markers::ReassignedMarkers;
use super::rows::Rows;
use super::stacks::NodeId;
use super::store::RowStore;
use super::window::Window;

/// The words of a row with a context.
const CONTEXT_ROW: usize = 1 + CONTEXT_WORDS;

/// The entries of one thread.
#[derive(Debug, Default)]
pub(super) struct SortedThread {
    /// Rows of time, processor time plus one (0: not measured), node plus one (0: none), and
    /// weight: the time that the sample stands for in nanoseconds, or a number of ticks if the
    /// interval is not known.
    pub(super) samples: Rows<4>,
    /// Rows of time, and the words of a context: of each sample that has one, and of the first
    /// after it that has none.
    pub(super) contexts: Rows<CONTEXT_ROW>,
    /// The context of the last sample.
    context: SampleContext,
    /// Rows of time, bytes, address, and node plus one.
    pub(super) allocations: Rows<4>,
    /// Indices of the thread's chunks that contain its own markers.
    pub(super) marker_chunks: Vec<usize>,
    /// Markers that other threads recorded for this thread.
    pub(super) reassigned_markers: ReassignedMarkers,
    pub(super) markers: u32,
    /// Nanoseconds of processor time in all samples but the first.
    pub(super) cpu_ns: u64,
    /// The wait that the last sample shows, if the thread has waited since.
    pub(super) open_wait: OpenWait,
    /// The stack of this wait, if there is room for it.
    pub(super) wait_stack: Option<Box<WaitStack>>,
    /// The last row in earlier profiles of the series.
    pub(super) border: Option<Box<Border>>,
    /// Whether the processor time of the last sample is measured.
    pub(super) has_cpu: bool,
    /// Number of samples with a stack, without those in which no processor time was used.
    pub(super) busy_samples: u32,
    /// The entries that the thread recorded, by whether they are in the profile; without its own
    /// markers that are.
    pub(super) delivery: Delivery,
}

impl SortedThread {
    /// Whether the thread `info` has recorded entries for other threads only, and has no rows
    /// itself. The sampler's thread may have lost all entries.
    pub(super) fn is_servant(&self, info: &ThreadInfo) -> bool {
        (self.delivery.delivered > 0 || info.is_servant())
            && self.samples.is_empty()
            && self.allocations.is_empty()
            && self.markers == 0
    }

    /// A thread with this last row in earlier profiles.
    pub(super) fn after(border: Option<&Border>) -> Self {
        let wait = border.and_then(|border| border.wait.as_ref());
        Self {
            open_wait: wait.map_or_else(OpenWait::default, OpenWait::after),
            border: border.cloned().map(Box::new),
            has_cpu: border.is_some_and(|border| border.has_cpu),
            ..Self::default()
        }
    }

    /// Adds the first row of a profile that continues a series: it stands for no time, and the next
    /// row lasts since then. Returns the earliest time of the next row.
    pub(super) fn begin(&mut self, window: Window, rows: &mut RowStore) -> io::Result<Timestamp> {
        let border = self.border.as_deref();
        let border = border.filter(|_| self.samples.is_empty());
        let is_in = |border: &&Border| window.since.is_none_or(|since| border.at >= since);
        if let Some(Border { at, has_cpu, .. }) = border.filter(is_in) {
            let row = [at.raw(), u64::from(*has_cpu), 0, 0];
            self.samples.push(rows, row)?;
        }
        Ok(self
            .border
            .as_ref()
            .map_or(Timestamp::ZERO, |border| border.at))
    }

    /// When the thread's latest sample was taken, in this profile or in earlier ones of the series.
    pub(super) fn previous_sample(&self) -> Option<Timestamp> {
        if self.samples.is_empty() {
            self.border.as_ref().map(|border| border.at)
        } else {
            Some(Timestamp::from_raw(self.samples.last_time()))
        }
    }

    /// Adds a row with this weight.
    pub(super) fn push_sample(
        &mut self,
        [at, cpu, node, weight]: [u64; 4],
        window: Window,
        rows: &mut RowStore,
    ) -> io::Result<()> {
        let least = self.begin(window, rows)?;
        if !self.samples.is_empty() {
            self.cpu_ns = self.cpu_ns.saturating_add(cpu.saturating_sub(1));
        }
        let at = Timestamp::from_raw(at).max(least);
        self.has_cpu = cpu > 0;
        self.samples.push(rows, [at.raw(), cpu, node, weight])
    }

    /// Notes the context of a sample; `None` stands for that of the one before.
    pub(super) fn note_context(
        &mut self,
        at: Timestamp,
        context: Option<SampleContext>,
        rows: &mut RowStore,
    ) -> io::Result<()> {
        let context = context.unwrap_or(self.context);
        let before = std::mem::replace(&mut self.context, context);
        if before.is_empty() && context.is_empty() {
            return Ok(());
        }
        let ([first, second, third, fourth], _) = context.encode();
        let row = [at.raw(), first, second, third, fourth];
        self.contexts.push(rows, row)
    }

    /// The last row in the profiles of the series that ends with this one.
    pub(super) fn next_border(&self) -> Option<Border> {
        let at = match &self.border {
            _ if !self.samples.is_empty() => Timestamp::from_raw(self.samples.last_time()),
            Some(border) => border.at,
            None => return None,
        };
        let wait = self.open_wait.is_open().then(|| WaitAtBorder {
            since: self.open_wait.since,
            ticks: self.open_wait.ticks,
            stack: self.wait_stack.as_deref().cloned(),
        });
        let has_cpu = self.has_cpu;
        Some(Border { at, has_cpu, wait })
    }
}

/// A wait without an end: the thread has no later sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenWait {
    /// Zero if there is none.
    pub(super) since: Timestamp,
    /// Node plus one, as in the rows of samples.
    pub(super) node: u32,
    /// The ticks since then that are written.
    pub(super) ticks: u32,
}

impl OpenWait {
    /// The wait that a sample begins, if it does.
    pub(super) fn of(sample: &SampleEntry<'_>, node: Option<NodeId>) -> Self {
        if !sample.waits {
            return Self::default();
        }
        Self {
            since: sample.at,
            node: u32::try_from(plus_one(node)).unwrap_or(0),
            ticks: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.since > Timestamp::ZERO
    }

    /// The wait that goes on since an earlier profile, without a stack.
    const fn after(wait: &WaitAtBorder) -> Self {
        Self {
            since: wait.since,
            node: 0,
            ticks: wait.ticks,
        }
    }

    /// The written ticks after a sample that is part of the wait.
    pub(super) fn ticks_after(&self, sample: &SampleEntry<'_>) -> u32 {
        let ticks = u32::try_from(sample.ticks).unwrap_or(u32::MAX);
        match sample.waited {
            true => self.ticks.saturating_sub(ticks),
            false => 0,
        }
    }

    /// The number of ticks of the sample after the wait that no earlier profile has.
    pub(super) fn new_ticks(&self, sample: &SampleEntry<'_>, ticks: u64) -> u64 {
        if sample.waited {
            ticks.saturating_sub(self.ticks.into())
        } else {
            ticks
        }
    }
}

/// Encodes a node for a row: 0 means no node.
pub(super) fn plus_one(node: Option<NodeId>) -> u64 {
    node.map_or(0, |node| u64::from(node.0) + 1)
}
