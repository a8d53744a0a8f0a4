//! The record of a thread: the trace that the thread works for at present.
//!
//! Written by its thread only. Read by the signal handler of the samples on this thread, by the
//! sampler's thread while the thread waits, and by profilers outside of the process while they have
//! stopped the thread. The first 28 bytes have the layout of OpenTelemetry's thread context (OTEP
//! 4947); identifiers are in the order of their bytes in the header.
//!
//! ```text
//! byte 0…15  trace id   16…23  span id   24  1 = valid   25  flags   26…27  bytes of attributes: 0
//! byte 32…   the number of changes
//! ```
//!
//! ```text
//! owner   valid 0 · changes + 1 (release) · identifiers (release) · valid 1 (release)
//! reader  changes (acquire) · valid = 1? · identifiers (acquire) · changes as before?
//! ```
//!
//! A reader that sees a new identifier sees the number of changes that precedes it, and one that
//! sees this number sees that the record is not valid, or all of the new identifiers. So a context
//! that a reader accepts was whole. The memory of a record is never freed.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::context::TraceContext;
use super::slot;

/// The trace that a thread works for. See the [module](self).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ThreadRecord {
    trace_id: [AtomicU64; 2],
    span_id: AtomicU64,
    valid: AtomicU8,
    flags: AtomicU8,
    attributes_size: AtomicU16,
    /// Attributes would begin here; the size says that there are none.
    _no_attributes: AtomicU32,
    changes: AtomicU32,
}

/// The layout that readers outside of the process expect.
const _: () = {
    assert!(std::mem::offset_of!(ThreadRecord, span_id) == 16);
    assert!(std::mem::offset_of!(ThreadRecord, valid) == 24);
    assert!(std::mem::offset_of!(ThreadRecord, flags) == 25);
    assert!(std::mem::offset_of!(ThreadRecord, attributes_size) == 26);
    assert!(std::mem::offset_of!(ThreadRecord, changes) >= 28);
};

impl ThreadRecord {
    /// A record without a trace.
    pub const fn new() -> Self {
        Self {
            trace_id: [AtomicU64::new(0), AtomicU64::new(0)],
            span_id: AtomicU64::new(0),
            valid: AtomicU8::new(0),
            flags: AtomicU8::new(0),
            attributes_size: AtomicU16::new(0),
            _no_attributes: AtomicU32::new(0),
            changes: AtomicU32::new(0),
        }
    }

    /// Changes the trace. Called by the owner only.
    #[inline]
    pub fn set(&self, context: Option<TraceContext>) {
        self.valid.store(0, Ordering::Relaxed);
        // For a handler on this thread.
        compiler_fence(Ordering::SeqCst);
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes
            .store(changes.wrapping_add(1), Ordering::Release);
        let Some(context) = context else { return };
        let words = context.to_words().map(u64::to_be);
        let places = [&self.trace_id[0], &self.trace_id[1], &self.span_id];
        for (place, word) in places.into_iter().zip(words) {
            place.store(word, Ordering::Release);
        }
        self.flags.store(context.flags(), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        self.valid.store(1, Ordering::Release);
    }

    /// The trace; `None` if there is none, or if its thread changes it at this moment. Takes no
    /// lock and allocates nothing, so signal handlers may call it.
    #[inline]
    pub fn get(&self) -> Option<TraceContext> {
        let changes = self.changes.load(Ordering::Acquire);
        if self.valid.load(Ordering::Acquire) != 1 {
            return None;
        }
        let places = [&self.trace_id[0], &self.trace_id[1], &self.span_id];
        let words = places.map(|place| u64::from_be(place.load(Ordering::Acquire)));
        let flags = self.flags.load(Ordering::Acquire);
        let is_whole = self.changes.load(Ordering::Relaxed) == changes;
        is_whole
            .then(|| TraceContext::from_words(words, flags))
            .flatten()
    }

    /// Lets readers outside of the process find the record as that of the calling thread, unless
    /// another library has published one. Does nothing on other systems than Linux on x86-64 and
    /// AArch64.
    pub fn publish(&'static self) {
        slot::replace(std::ptr::null_mut(), address(self));
    }

    /// Undoes [`Self::publish`]. Called by the owner, before another thread gets the record.
    pub fn withdraw(&'static self) {
        slot::replace(address(self), std::ptr::null_mut());
        self.set(None);
    }
}

fn address(record: &'static ThreadRecord) -> *mut () {
    std::ptr::from_ref(record).cast_mut().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(number: u8) -> TraceContext {
        TraceContext::from_bytes([number; 16], [number; 8], number).unwrap()
    }

    #[test]
    fn a_record_returns_what_was_set_last() {
        let record = ThreadRecord::new();
        assert_eq!(record.get(), None);
        record.set(Some(context(1)));
        record.set(Some(context(2)));
        assert_eq!(record.get(), Some(context(2)));
        record.set(None);
        assert_eq!(record.get(), None);
    }

    #[test]
    fn another_thread_never_reads_parts_of_two_contexts() {
        let record = ThreadRecord::new();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..200_000_u32 {
                    record.set(Some(context(1 + (round % 200) as u8)));
                }
                is_over.store(true, Ordering::Release);
            });
            while !is_over.load(Ordering::Acquire) {
                if let Some(read) = record.get() {
                    assert_eq!(read, context(read.flags()));
                }
            }
        });
    }

    #[cfg(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    #[test]
    fn the_symbol_points_to_the_record_of_its_thread_only() {
        static RECORD: ThreadRecord = ThreadRecord::new();
        static OTHER: ThreadRecord = ThreadRecord::new();
        RECORD.publish();
        assert_eq!(slot::published(), address(&RECORD));
        OTHER.publish();
        assert_eq!(
            slot::published(),
            address(&RECORD),
            "it was published first"
        );
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(slot::published().is_null()));
        });
        OTHER.withdraw();
        assert_eq!(slot::published(), address(&RECORD));
        RECORD.withdraw();
        assert!(slot::published().is_null());
    }
}
