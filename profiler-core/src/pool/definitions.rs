//! The definitions region: everything an entry refers to by number, never overwritten.
//!
//! Appended to by recording threads the first time a call site, category, marker type or
//! counter is used; read through the file by `reader`. A ring overwrite of entries never loses
//! a name, because names are not in the ring.
//!
//! ```text
//! record:  word 0   payload bytes (low 32) | state (high 32): 1 = being written, 2 = ready
//!          word 1…  bincode of one `Definition`, padded with zeros to whole words
//! region:  record, record, …, then zeros
//! ```
//!
//! A writer claims the first zero word by compare-and-swap (length and "being written"), fills
//! in the payload, and publishes with a release store of "ready". A writer that dies in between
//! leaves a record that readers skip; nothing refers to it, because its number was never given
//! out. The number of a record is its offset in words, plus one.

use serde::{Deserialize, Serialize};

use super::budget::{BookedPages, Budget};
use super::layout::{Extent, Layout, Region};
use super::mapping::Mapping;
use crate::codec;
use crate::ids::{CounterIndex, DefinitionId};
use crate::sync::{AtomicU64, Ordering};

/// State of a record that is being written.
pub const BUSY: u64 = 1;
/// State of a complete record.
pub const READY: u64 = 2;

/// Something that entries refer to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Definition {
    /// A category with its colour and subcategories; subcategory 0 is "Other" and not listed.
    Category {
        /// Shown name.
        name: String,
        /// The viewer's name of the colour.
        color: String,
        /// Names of subcategories 1, 2, ….
        subcategories: Vec<String>,
    },
    /// A type of marker payload.
    MarkerType {
        /// How the viewer shows it: an encoded `marker::schema::MarkerSchema`.
        schema: Vec<u8>,
        /// Keys of the payload's values, in the order in which they are encoded.
        keys: Vec<String>,
    },
    /// What all markers of one call site have in common.
    Site {
        /// Name of the marker; empty when each entry carries its own.
        name: String,
        /// Its category.
        category: DefinitionId,
        /// Index of the subcategory.
        subcategory: u16,
        /// Its payload type, or none.
        marker_type: DefinitionId,
    },
    /// A counter.
    Counter {
        /// Row in the counter table.
        cell: CounterIndex,
        /// Shown name.
        name: String,
        /// The viewer's kind of counter: "Memory", "Bandwidth", "CPU", or any other word.
        category: String,
        /// What it counts.
        description: String,
    },
}

/// Why a definition could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefineError {
    /// The region is full, or the allowance has no page left for it.
    #[error("no room left for names and schemas")]
    NoRoom,
    /// The definition cannot be encoded or is too large.
    #[error(transparent)]
    Codec(#[from] codec::CodecError),
}

/// The writer's side of the region.
#[derive(Debug)]
pub(crate) struct DefinitionWriter {
    region: Extent,
    /// Where the last append ended, a hint for the next.
    tail: AtomicU64,
    booked: BookedPages,
}

impl DefinitionWriter {
    pub(crate) fn new(layout: &Layout) -> Self {
        let region = layout.region(Region::Definitions);
        Self { region, tail: AtomicU64::new(0), booked: BookedPages::new(layout.page) }
    }

    /// Appends a definition. Lock-free; books pages as they are needed.
    pub(crate) fn define(
        &self,
        map: &Mapping,
        budget: &Budget,
        definition: &Definition,
    ) -> Result<DefinitionId, DefineError> {
        let payload = codec::encode(definition)?;
        let len = payload.len() as u64;
        let record = 8 + len.div_ceil(8) * 8;
        let at = self.claim(map, budget, len, record)?;
        let offset = self.region.offset.saturating_add(at);
        map.write_words(offset.saturating_add(8), &payload).ok_or(DefineError::NoRoom)?;
        let head = map.word(offset).ok_or(DefineError::NoRoom)?;
        head.store(len | (READY << 32), Ordering::Release);
        u32::try_from(at / 8 + 1).map(DefinitionId::new).map_err(|_| DefineError::NoRoom)
    }

    /// Finds the first free word and claims a record of `record` bytes there.
    fn claim(&self, map: &Mapping, budget: &Budget, len: u64, record: u64) -> Result<u64, DefineError> {
        let mut at = self.tail.load(Ordering::Acquire);
        loop {
            let end = at.saturating_add(record);
            if end > self.region.len {
                return Err(DefineError::NoRoom);
            }
            if !self.booked.cover(budget, end) {
                return Err(DefineError::NoRoom);
            }
            let head = map.word(self.region.offset.saturating_add(at)).ok_or(DefineError::NoRoom)?;
            let claim = len | (BUSY << 32);
            match head.compare_exchange(0, claim, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.tail.fetch_max(end, Ordering::AcqRel);
                    return Ok(at);
                }
                Err(taken) => at = at.saturating_add(8 + (taken & 0xffff_ffff).div_ceil(8) * 8),
            }
        }
    }
}
