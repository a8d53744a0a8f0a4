//! The samples of threads: a row has the samples of one thread within ten seconds.
//!
//! A sample is the time since the previous sample of its thread. A row has the start of its first
//! sample; each sample has its length, its processor time and the number of its stack. An index
//! into a list of the row's stacks would be shorter by a third of a byte, but a query would copy
//! the list for every sample. A pause of the recording ends a row, so the start of a sample is the
//! row's start and the lengths before it. Invariant: lengths are differences of instants in whole
//! microseconds, and processor times differences of sums in whole microseconds.

use super::FleetTable;
use super::rows::{Row, Rows, instant};
use super::stacks::Stacks;
use crate::ExportError;
use crate::recording::Thread;
use crate::slices::Slice;
use crate::tree::ThreadTree;

/// The length of a row's window, in microseconds.
const WINDOW_US: i64 = 10_000_000;
/// Most samples of a row.
const MAX_SAMPLES: usize = 16_384;

/// Writes the samples of threads. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct SampleRows {
    tree: ThreadTree,
    stacks: Stacks,
    window: Window,
}

/// The row that is being collected. Times are in microseconds.
#[derive(Debug, Default)]
struct Window {
    number: i64,
    start: i64,
    end: i64,
    stack: Vec<u64>,
    wall: Vec<u64>,
    cpu: Vec<u64>,
}

impl SampleRows {
    /// Writes the samples of a thread.
    pub(super) fn write(
        &mut self,
        thread: &Thread<'_>,
        rows: &mut Rows<'_>,
    ) -> Result<(), ExportError> {
        self.tree.begin(thread.tables);
        self.stacks.begin();
        let mut cpu_ns = 0_u64;
        for slice in thread.slices {
            if !slice.is_sample {
                self.window.pass(thread, rows)?;
                continue;
            }
            let before = cpu_ns / 1000;
            cpu_ns = cpu_ns.saturating_add(slice.cpu);
            self.add(slice, cpu_ns / 1000 - before, thread, rows)?;
        }
        self.window.pass(thread, rows)
    }

    fn add(
        &mut self,
        slice: &Slice,
        cpu_us: u64,
        thread: &Thread<'_>,
        rows: &mut Rows<'_>,
    ) -> Result<(), ExportError> {
        let end_ns = rows.identity.unix_ns(slice.end);
        let start = rows.identity.unix_ns(slice.start).div_euclid(1000);
        let end = end_ns.div_euclid(1000);
        let number = end.div_euclid(WINDOW_US);
        if !self.window.takes(number) {
            self.window.pass(thread, rows)?;
        }
        let node = self.tree.place(thread.tables, slice);
        let stack = self
            .stacks
            .number(&self.tree.calls, node, thread, end_ns, rows)?;
        self.window.add(number, (start, end), stack, cpu_us);
        Ok(())
    }
}

impl Window {
    fn takes(&self, number: i64) -> bool {
        self.number == number && self.stack.len() < MAX_SAMPLES
    }

    fn add(&mut self, number: i64, (start, end): (i64, i64), stack: u64, cpu: u64) {
        if self.stack.is_empty() {
            (self.number, self.start) = (number, start);
        }
        self.end = end;
        self.stack.push(stack);
        self.wall.push(end.saturating_sub(start).unsigned_abs());
        self.cpu.push(cpu);
    }

    /// Writes the row, and begins another one.
    fn pass(&mut self, thread: &Thread<'_>, rows: &mut Rows<'_>) -> Result<(), ExportError> {
        if self.stack.is_empty() {
            return Ok(());
        }
        let end_ns = self.end.saturating_mul(1000);
        rows.add(FleetTable::Samples, end_ns, |row| self.write(thread, row))?;
        self.stack.clear();
        self.wall.clear();
        self.cpu.clear();
        Ok(())
    }

    fn write(&self, thread: &Thread<'_>, row: &mut Row) {
        write_thread(thread, row);
        row.entry_u64("start_us", instant(self.start));
        row.entry_u64("end_us", instant(self.end));
        for (column, values) in [
            ("sample.stack", &self.stack),
            ("sample.wall_us", &self.wall),
            ("sample.cpu_us", &self.cpu),
        ] {
            row.entry_list(column, values, |value, row| row.u64(*value));
        }
    }
}

/// Writes the columns that name a thread.
pub(super) fn write_thread(thread: &Thread<'_>, row: &mut Row) {
    row.entry_str("process", thread.process);
    row.entry_str("pid", thread.pid);
    row.entry_str("thread", thread.name);
    row.entry_u64("tid", thread.tid);
}
