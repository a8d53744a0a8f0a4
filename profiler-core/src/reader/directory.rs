//! Reads the chunk directory. Used by `snapshot` and `follow`.
//!
//! A slot is accepted only if its generation, read before and after its fields, is the same odd
//! number; its numbers are clamped to the layout's limits before they are used. Accepted chunks do
//! not overlap, so together they are no larger than the pool, even if the directory is forged.

use std::io;

use super::source::{ByteSource, high, low, word};
use crate::ids::{ChunkIndex, ThreadIndex};
use crate::pool::layout::{Extent, Layout, Region, SIZE_CLASSES, SLOT_BYTES};
use crate::pool::slot::{Commit, HAS_FOREIGN};
use crate::time::Timestamp;

/// A chunk that holds entries: the contents of its directory slot, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Row in the directory.
    pub index: ChunkIndex,
    /// Number of the chunk's life; a copy is valid while this stays the same.
    pub generation: u64,
    /// The chunk's place in the pool.
    pub extent: Extent,
    /// Row of the thread that wrote it.
    pub thread: ThreadIndex,
    /// When the thread took it.
    pub start: Timestamp,
    /// When the thread left it; `None` while the thread writes into it.
    pub done: Option<Timestamp>,
    /// Number of its first entry among all entries of the thread.
    pub first_entry: u64,
    /// Committed bytes.
    pub bytes: u64,
    /// Committed entries.
    pub entries: u64,
    /// Whether an entry was being written.
    pub unfinished: bool,
    /// Whether some entries belong to other threads.
    pub has_foreign: bool,
}

impl ChunkInfo {
    fn parse(layout: &Layout, index: u32, slot: &[u8]) -> Option<Self> {
        let generation = word(slot, 0);
        let extent = Extent {
            offset: word(slot, 1),
            len: u64::from(low(word(slot, 2))),
        };
        let largest = layout.class_bytes(SIZE_CLASSES - 1);
        let fits = layout.region(Region::Chunks).contains(extent) && extent.len <= largest;
        if generation & 1 == 0 || !fits {
            return None;
        }
        let commit = Commit::from_word(word(slot, 8));
        let done = word(slot, 4);
        // An entry has at least two words, so a higher number of entries is invalid.
        let bytes = commit.bytes().min(extent.len);
        let entries = commit.entries().min(bytes / 16);
        Some(Self {
            index: ChunkIndex::new(index),
            generation,
            extent,
            thread: ThreadIndex::new(high(word(slot, 2))),
            start: Timestamp::from_raw(word(slot, 3)),
            done: (done != 0).then(|| Timestamp::from_raw(done)),
            first_entry: word(slot, 5),
            bytes,
            entries,
            unfinished: word(slot, 9) > commit.entries(),
            has_foreign: word(slot, 6) & HAS_FOREIGN != 0,
        })
    }
}

/// Reads all chunks that hold entries.
pub(super) fn read(source: &impl ByteSource, layout: &Layout) -> io::Result<Vec<ChunkInfo>> {
    let region = layout.region(Region::Directory);
    let mut pages = SlotPages::new(layout);
    let mut chunks = Vec::new();
    let slots_per_page = u32::try_from(layout.page / SLOT_BYTES).unwrap_or(0);
    for page in 0..region.len / layout.page {
        pages.read(source, region.offset.saturating_add(page * layout.page))?;
        // Slot numbers are allocated lowest first, so an untouched page is the end.
        if pages.fields.iter().all(|byte| *byte == 0) {
            break;
        }
        let base = u32::try_from(page)
            .unwrap_or(u32::MAX)
            .saturating_mul(slots_per_page);
        let stable = (base..)
            .zip(pages.slots())
            .filter_map(|(number, slot)| Some((number, slot?)));
        chunks.extend(stable.filter_map(|(number, slot)| ChunkInfo::parse(layout, number, slot)));
    }
    without_overlap(source, layout, chunks)
}

/// Three reads of one page of slots. A copy of a page has no guaranteed order, so the generations
/// before and after the fields come from separate copies.
struct SlotPages {
    before: Vec<u8>,
    fields: Vec<u8>,
    after: Vec<u8>,
}

impl SlotPages {
    fn new(layout: &Layout) -> Self {
        let page = vec![0; usize::try_from(layout.page).unwrap_or(4096)];
        Self {
            before: page.clone(),
            fields: page.clone(),
            after: page,
        }
    }

    fn read(&mut self, source: &impl ByteSource, offset: u64) -> io::Result<()> {
        source.read_at(&mut self.before, offset)?;
        crate::sync::full_fence();
        source.read_at(&mut self.fields, offset)?;
        crate::sync::full_fence();
        source.read_at(&mut self.after, offset)
    }

    /// The fields of each slot whose generation stayed the same.
    fn slots(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let slots = self.fields.len() / SLOT_BYTES as usize;
        (0..slots).map(move |place| self.slot(place))
    }

    /// The fields of a slot of the page, if its generation stayed the same.
    fn slot(&self, place: usize) -> Option<&[u8]> {
        let start = place.checked_mul(SLOT_BYTES as usize)?;
        let range = start..start.saturating_add(SLOT_BYTES as usize);
        let fields = self.fields.get(range.clone())?;
        let generation = |page: &[u8]| page.get(range.clone()).map(|slot| word(slot, 0));
        let same = Some(word(fields, 0));
        let is_stable = generation(&self.before) == same && generation(&self.after) == same;
        is_stable.then_some(fields)
    }
}

/// Reads slots in the order of their numbers, and each page of the directory once: three system
/// calls per page instead of three per slot.
pub(super) struct SlotReader {
    pages: SlotPages,
    /// The page that was read last.
    page: Option<u64>,
}

impl SlotReader {
    pub(super) fn new(layout: &Layout) -> Self {
        Self {
            pages: SlotPages::new(layout),
            page: None,
        }
    }

    /// The contents of a slot when its page was read: `None` if it held nothing, or changed
    /// meanwhile.
    pub(super) fn read(
        &mut self,
        source: &impl ByteSource,
        layout: &Layout,
        index: ChunkIndex,
    ) -> io::Result<Option<ChunkInfo>> {
        let number = u64::from(index.get());
        let per_page = (layout.page / SLOT_BYTES).max(1);
        let page = number / per_page;
        if self.page != Some(page) {
            let offset = layout.region(Region::Directory).row(page, layout.page);
            self.page = None;
            self.pages
                .read(source, offset.ok_or(io::ErrorKind::InvalidInput)?)?;
            self.page = Some(page);
        }
        let place = usize::try_from(number % per_page).unwrap_or(usize::MAX);
        let fields = self.pages.slot(place);
        Ok(fields.and_then(|fields| ChunkInfo::parse(layout, index.get(), fields)))
    }
}

/// Removes chunks whose memory overlaps another's. Of two overlapping chunks, the one that was
/// closed since it was read is removed. If neither was closed, the pool is forged, and the chunk at
/// the higher address is removed.
fn without_overlap(
    source: &impl ByteSource,
    layout: &Layout,
    mut chunks: Vec<ChunkInfo>,
) -> io::Result<Vec<ChunkInfo>> {
    chunks.sort_by_key(|chunk| (chunk.extent.offset, chunk.index));
    let mut kept: Vec<ChunkInfo> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        if kept
            .last()
            .is_some_and(|last| last.extent.end() > chunk.extent.offset)
        {
            if generation(source, layout, chunk.index)? != chunk.generation {
                continue;
            }
            let Some(last) = kept.pop() else { continue };
            if generation(source, layout, last.index)? == last.generation {
                kept.push(last);
                continue;
            }
        }
        kept.push(chunk);
    }
    Ok(kept)
}

/// The present contents of one slot: `None` if it holds nothing, or changed during the read.
pub(super) fn read_slot(
    source: &impl ByteSource,
    layout: &Layout,
    index: ChunkIndex,
) -> io::Result<Option<ChunkInfo>> {
    let before = generation(source, layout, index)?;
    crate::sync::full_fence();
    let mut slot = [0; SLOT_BYTES as usize];
    let offset = layout
        .region(Region::Directory)
        .row(u64::from(index.get()), SLOT_BYTES);
    source.read_at(&mut slot, offset.ok_or(io::ErrorKind::InvalidInput)?)?;
    crate::sync::full_fence();
    let is_stable = word(&slot, 0) == before && generation(source, layout, index)? == before;
    Ok(if is_stable {
        ChunkInfo::parse(layout, index.get(), &slot)
    } else {
        None
    })
}

/// The present generation of a slot.
pub(super) fn generation(
    source: &impl ByteSource,
    layout: &Layout,
    index: ChunkIndex,
) -> io::Result<u64> {
    let region = layout.region(Region::Directory);
    let offset = region
        .row(u64::from(index.get()), SLOT_BYTES)
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut bytes = [0; 8];
    source.read_at(&mut bytes, offset)?;
    Ok(u64::from_ne_bytes(bytes))
}
