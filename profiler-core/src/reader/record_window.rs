//! Reads the records of the definitions, many with two reads.
//!
//! Used by [`super::definitions`]. A pool has some dozens of short records, and a parent reads the
//! pools of hundreds of processes, so a read for each record would be most of its system calls. A
//! window is a part of the region, copied twice:
//!
//! ```text
//! first copy    │ head │          │ head │    │ head │ …     whether each record is ready
//! second copy   │      │ content  │      │ …  │      │ …     read only if one is ready
//! ```
//!
//! Invariant: the content of a record is from a copy that began after the copy of its head was
//! complete. A single copy reads its bytes in no guaranteed order, so it may contain the head of a
//! finished record together with bytes from before its content was written.

use std::borrow::Cow;
use std::io;

use super::source::{ByteSource, high, low, word};
use crate::codec;
use crate::pool::definitions::READY;
use crate::pool::layout::Extent;

/// Bytes of a window: room for some dozens of short records.
const WINDOW_BYTES: u64 = 4096;
/// Bytes of a record's head.
const HEAD_BYTES: u64 = 8;

/// The contents of a record's first word.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHead {
    len: u32,
    /// Whether the content is complete.
    pub(super) is_ready: bool,
    /// The offset of the next record.
    pub(super) end: u64,
}

/// A part of the region of definitions. Offsets are from the start of the region.
pub(super) struct RecordWindow<'s, S> {
    source: &'s S,
    region: Extent,
    start: u64,
    heads: Vec<u8>,
    /// The second copy; empty if it was not needed yet.
    contents: Vec<u8>,
}

impl<'s, S: ByteSource> RecordWindow<'s, S> {
    /// An empty window.
    pub(super) const fn new(source: &'s S, region: Extent) -> Self {
        Self {
            source,
            region,
            start: 0,
            heads: Vec::new(),
            contents: Vec::new(),
        }
    }

    /// The head of the record at `at`; `None` if none was ever written there.
    pub(super) fn head(&mut self, at: u64) -> io::Result<Option<RecordHead>> {
        if at.saturating_add(HEAD_BYTES) > self.region.len {
            return Ok(None);
        }
        let place = match self.place(at, HEAD_BYTES) {
            Some(place) => place,
            None => {
                self.begin(at)?;
                0
            }
        };
        let head = word(self.heads.get(place..).unwrap_or_default(), 0);
        let (len, state) = (low(head), high(head));
        let end = at
            .saturating_add(HEAD_BYTES)
            .saturating_add(u64::from(len).div_ceil(8) * 8);
        let fits = end <= self.region.len && len as usize <= codec::MAX_ENCODED_BYTES;
        Ok((state != 0 && fits).then_some(RecordHead {
            len,
            is_ready: u64::from(state) == READY,
            end,
        }))
    }

    /// The content of the record at `at`, whose head says that it is ready.
    pub(super) fn content(&mut self, at: u64, head: &RecordHead) -> io::Result<Cow<'_, [u8]>> {
        let (at, len) = (at.saturating_add(HEAD_BYTES), head.len as usize);
        let Some(place) = self.place(at, head.len.into()) else {
            let mut content = vec![0; len];
            self.copy(at, &mut content)?;
            return Ok(Cow::Owned(content));
        };
        if self.contents.is_empty() {
            let mut contents = vec![0; self.heads.len()];
            self.copy(self.start, &mut contents)?;
            self.contents = contents;
        }
        let content = self.contents.get(place..place.saturating_add(len));
        Ok(Cow::Borrowed(content.unwrap_or_default()))
    }

    /// Moves the window to `at`.
    fn begin(&mut self, at: u64) -> io::Result<()> {
        let len = WINDOW_BYTES.min(self.region.len.saturating_sub(at));
        let mut heads = vec![0; usize::try_from(len).unwrap_or(0)];
        self.copy(at, &mut heads)?;
        crate::sync::full_fence();
        (self.start, self.heads) = (at, heads);
        self.contents.clear();
        Ok(())
    }

    /// The place of these bytes in the window; `None` if it does not have all of them.
    fn place(&self, at: u64, len: u64) -> Option<usize> {
        let place = at.checked_sub(self.start)?;
        let is_there = place.saturating_add(len) <= self.heads.len() as u64;
        is_there.then(|| usize::try_from(place).ok()).flatten()
    }

    fn copy(&self, at: u64, to: &mut [u8]) -> io::Result<()> {
        self.source
            .read_at(to, self.region.offset.saturating_add(at))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A region that is written to between two reads.
    struct ChangingRegion {
        bytes: RefCell<Vec<u8>>,
        /// Offsets and new bytes. Each read removes the last change and applies it afterwards.
        changes: RefCell<Vec<(usize, Vec<u8>)>>,
        reads: RefCell<u32>,
    }

    impl ChangingRegion {
        fn new(len: usize) -> Self {
            Self {
                bytes: RefCell::new(vec![0; len]),
                changes: RefCell::default(),
                reads: RefCell::default(),
            }
        }

        fn record(&self, at: usize, content: &[u8]) -> usize {
            let head = (READY << 32) | content.len() as u64;
            let mut bytes = self.bytes.borrow_mut();
            bytes[at..at + 8].copy_from_slice(&head.to_ne_bytes());
            bytes[at + 8..at + 8 + content.len()].copy_from_slice(content);
            at + 8 + content.len().div_ceil(8) * 8
        }

        fn window(&self) -> RecordWindow<'_, Self> {
            let len = self.bytes.borrow().len() as u64;
            RecordWindow::new(self, Extent { offset: 0, len })
        }
    }

    impl ByteSource for ChangingRegion {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
            *self.reads.borrow_mut() += 1;
            self.bytes.borrow()[..].read_at(buffer, offset)?;
            if let Some((at, new)) = self.changes.borrow_mut().pop() {
                self.bytes.borrow_mut()[at..at + new.len()].copy_from_slice(&new);
            }
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.borrow().len() as u64)
        }
    }

    /// All records up to the first one that is missing.
    fn all(region: &ChangingRegion) -> Vec<Vec<u8>> {
        let mut window = region.window();
        let mut at = 0;
        let mut records = Vec::new();
        while let Some(head) = window.head(at).unwrap() {
            records.push(window.content(at, &head).unwrap().into_owned());
            at = head.end;
        }
        records
    }

    #[test]
    fn records_within_and_across_windows_are_read_whole() {
        let region = ChangingRegion::new(1 << 20);
        let lengths = [1, 7, 8, 9, 4000, 100, 4096, 20_000, 3, 4080, 4088, 12, 0, 5];
        let mut at = 0;
        let mut expected = Vec::new();
        for (number, len) in lengths.into_iter().enumerate() {
            let content = vec![number as u8 + 1; len];
            at = region.record(at, &content);
            expected.push(content);
        }
        assert_eq!(all(&region), expected);
    }

    #[test]
    fn short_records_take_two_reads_for_each_window() {
        let region = ChangingRegion::new(1 << 20);
        let mut at = 0;
        for number in 0..100 {
            at = region.record(at, &[number; 24]);
        }
        assert_eq!(all(&region).len(), 100);
        assert_eq!(*region.reads.borrow(), 2);
        *region.reads.borrow_mut() = 0;
        assert!(region.window().head(at as u64).unwrap().is_none());
        assert_eq!(*region.reads.borrow(), 1);
    }

    #[test]
    fn a_content_is_read_after_its_head() {
        let region = ChangingRegion::new(4096);
        region.record(0, b"complete");
        // The copy with the heads has an earlier content.
        region.bytes.borrow_mut()[8..16].copy_from_slice(b"earlier.");
        region.changes.borrow_mut().push((8, b"complete".to_vec()));
        assert_eq!(all(&region), [b"complete".to_vec()]);
    }

    #[test]
    fn a_head_beyond_the_region_is_no_record() {
        let region = ChangingRegion::new(64);
        region.record(0, &[1; 8]);
        let too_long = (READY << 32) | 41;
        region.bytes.borrow_mut()[16..24].copy_from_slice(&too_long.to_ne_bytes());
        assert_eq!(all(&region).len(), 1);
        assert!(region.window().head(60).unwrap().is_none());
        assert!(region.window().head(u64::MAX).unwrap().is_none());
    }
}
