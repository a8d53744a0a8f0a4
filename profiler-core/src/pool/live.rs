//! The small live tables: thread rows, counter cells, group cells, paused ranges, latest panics.
//!
//! Written by the process (a row by its thread and by the threads that destroy its chunks, cells by
//! any thread), read through the file at any time without asking the process.
//!
//! ```text
//! thread row  see `row`
//! group       see `group`
//! panics      see `panics`
//! counter     word 0   value   1  number of changes   2  definition, 0 = free
//! pauses      word 0   ranges ever written; then pairs (start, end), end 0 = open
//! ```
//!
//! The step that assigns a row to its thread publishes the row. A row is reused only after all
//! chunks of its thread are gone and its counts were added to row 0, the row of the process.

#![allow(unsafe_code)]

pub(crate) mod exited_threads;
pub(crate) mod group;
pub(crate) mod panics;
pub(crate) mod row;

pub(crate) use group::GroupCell;
pub(crate) use panics::PanicTable;
pub(crate) use row::{NewThread, Occupant, RowUse, ThreadRow};

use super::SharedWords;
use crate::entry::periodic::CounterValue;
use crate::ids::{CounterIndex, DefinitionId};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// Flag of a thread row: the process's main thread.
pub(crate) const MAIN_THREAD: u64 = 1;

/// The words of a counter cell.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CounterCell {
    value: AtomicU64,
    number: AtomicU64,
    definition: AtomicU64,
    spare: [AtomicU64; 5],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for CounterCell {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<CounterCell>() as u64 == super::layout::COUNTER_BYTES);

impl CounterCell {
    /// Adds to the value, which wraps like two's complement.
    #[inline]
    pub(crate) fn add(&self, delta: i64) {
        self.value
            .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds `delta` for `changes` changes at once.
    pub(crate) fn add_many(&self, delta: i64, changes: u64) {
        self.value
            .fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        self.number.fetch_add(changes, Ordering::Relaxed);
    }

    /// The present value of the cell, whose number is `cell`; `None` before it is published.
    pub(crate) fn value(&self, cell: CounterIndex) -> Option<CounterValue> {
        let is_there = self.definition.load(Ordering::Acquire) != 0;
        let number = self.number.load(Ordering::Relaxed);
        is_there.then(|| CounterValue {
            cell,
            value: self.get(),
            number,
        })
    }

    /// Sets the value.
    #[inline]
    pub(crate) fn set(&self, value: i64) {
        self.value.store(value.cast_unsigned(), Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets the cell to zero when a new session begins.
    pub(crate) fn reset(&self) {
        self.value.store(0, Ordering::Relaxed);
        self.number.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed).cast_signed()
    }

    /// Publishes the cell under its definition.
    pub(crate) fn publish(&self, definition: DefinitionId) {
        self.definition
            .store(u64::from(definition.get()), Ordering::Release);
    }
}

/// The words of the paused ranges.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PauseTable {
    count: AtomicU64,
    spare: AtomicU64,
    ranges: [[AtomicU64; 2]; super::layout::MAX_PAUSES as usize],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for PauseTable {}

impl PauseTable {
    /// Opens a range. The caller holds the session's lock.
    pub(crate) fn open(&self, at: Timestamp) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some([start, end]) = self.slot(count) {
            start.store(at.raw(), Ordering::Relaxed);
            end.store(0, Ordering::Relaxed);
        }
        self.count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Closes the last range.
    pub(crate) fn close(&self, at: Timestamp) {
        let last = self.count.load(Ordering::Relaxed).checked_sub(1);
        if let Some([_, end]) = last.and_then(|last| self.slot(last)) {
            end.store(at.raw(), Ordering::Release);
        }
    }

    /// Removes all ranges.
    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    fn slot(&self, index: u64) -> Option<&[AtomicU64; 2]> {
        let len = self.ranges.len() as u64;
        self.ranges.get(usize::try_from(index % len).ok()?)
    }
}
