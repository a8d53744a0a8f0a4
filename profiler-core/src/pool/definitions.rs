//! The definitions region: everything that an entry refers to by number, never overwritten.
//!
//! Recording threads append to it at the first use of a call site, category, marker type or
//! counter; `reader` reads it through the file. Evicting entries never loses a name, because names
//! are not in the chunks.
//!
//! ```text
//! record:  word 0   payload bytes (low 32) | state (high 32): 1 = being written, 2 = ready
//!          word 1…  bincode of one `Definition`, padded with zeros to whole words
//! region:  record, record, …, then zeros
//! ```
//!
//! A writer claims the first zero word by compare-and-swap (length and "being written"), fills in
//! the payload, and publishes with a release store of "ready". A writer that dies in between leaves
//! a record that readers skip; nothing refers to it, because its number was never returned. The
//! number of a record is its offset in words, plus one.

use serde::{Deserialize, Serialize};

use super::budget::{Budget, ChargedPages};
use super::layout::{Extent, Layout, Region};
use super::mapping::Words;
use crate::codec;
use crate::ids::{CounterIndex, DefinitionId, GroupIndex};
pub use crate::sample_types::ModuleDefinition;
use crate::sync::{AtomicU64, Ordering};

/// State of a record that is being written.
pub(crate) const BUSY: u64 = 1;
/// State of a complete record.
pub(crate) const READY: u64 = 2;

/// A definition that entries refer to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Definition {
    /// A category; its subcategory 0 is "Other" and not listed.
    Category(CategoryDefinition),
    /// A type of marker payload.
    MarkerType {
        /// The encoded `marker::schema::MarkerSchema`: how the viewer shows the type.
        schema: Vec<u8>,
        /// Keys of the payload's values, in the order in which they are encoded.
        keys: Vec<String>,
    },
    /// The properties shared by all markers of one call site.
    Site(SiteDefinition),
    /// A counter.
    Counter(CounterDefinition),
    /// A file whose code runs in the process: the program, a library, or code that the system maps
    /// into every process. A file that is unloaded and loaded again, at any address, is the same
    /// module.
    Module(ModuleDefinition),
    /// A label that the program sets: a frame by name.
    Label(LabelDefinition),
    /// A group of work.
    Group {
        /// Row in the group table.
        cell: GroupIndex,
        /// The kind of the group, see `groups::GroupKind`.
        kind: String,
        /// Shown name.
        name: String,
        /// Further labels.
        labels: Vec<(String, String)>,
        /// Whether the group is measured only while fine groups are requested.
        is_fine: bool,
    },
    /// A description of data missing from the process's profile, with the reason.
    Notice {
        /// A sentence without a full stop.
        text: String,
    },
}

/// The properties shared by all markers of a call site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteDefinition {
    /// Name; empty when each entry carries its own.
    pub name: String,
    /// Category.
    pub category: DefinitionId,
    /// Subcategory, 0 = "Other".
    pub subcategory: u16,
    /// Payload type or [`DefinitionId::NONE`].
    pub marker_type: DefinitionId,
}

/// A category.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CategoryDefinition {
    /// Shown name.
    pub name: String,
    /// The viewer's name of its colour.
    pub color: String,
    /// Subcategories 1, 2, ….
    pub subcategories: Vec<String>,
}

/// The category of the counters that show a group over time.
pub const GROUP_TRACK_CATEGORY: &str = "Group";

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterDefinition {
    /// Its row in the counter table.
    pub cell: CounterIndex,
    /// Shown name.
    pub name: String,
    /// The viewer's kind of counter: "Memory", "Bandwidth", "CPU", or any other word.
    pub category: String,
    /// What it counts.
    pub description: String,
}

/// A label that the program sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelDefinition {
    /// Shown name.
    pub name: String,
    /// Category.
    pub category: DefinitionId,
    /// Subcategory, 0 = "Other".
    pub subcategory: u16,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line in the file; 0 if unknown.
    pub line: u32,
}

/// Why a definition could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DefineError {
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
    /// Where the last append ended: a hint for the next one.
    tail: AtomicU64,
    charged: ChargedPages,
}

impl DefinitionWriter {
    pub(crate) fn new(layout: &Layout) -> Self {
        let region = layout.region(Region::Definitions);
        Self {
            region,
            tail: AtomicU64::new(0),
            charged: ChargedPages::new(layout.page),
        }
    }

    /// Appends a definition. Lock-free; charges pages as they are needed.
    pub(crate) fn define(
        &self,
        map: &impl Words,
        budget: &Budget,
        definition: &Definition,
    ) -> Result<DefinitionId, DefineError> {
        let payload = codec::encode(definition)?;
        let len = payload.len() as u64;
        let record = 8 + len.div_ceil(8) * 8;
        let at = self.claim(map, budget, len, record)?;
        let offset = self.region.offset.saturating_add(at);
        map.write_words(offset.saturating_add(8), &payload)
            .ok_or(DefineError::NoRoom)?;
        let head = map.word(offset).ok_or(DefineError::NoRoom)?;
        head.store(len | (READY << 32), Ordering::Release);
        u32::try_from(at / 8 + 1)
            .map(DefinitionId::new)
            .map_err(|_| DefineError::NoRoom)
    }

    /// Finds the first free word and claims a record of `record` bytes there.
    fn claim(
        &self,
        map: &impl Words,
        budget: &Budget,
        len: u64,
        record: u64,
    ) -> Result<u64, DefineError> {
        let mut at = self.tail.load(Ordering::Acquire);
        loop {
            let end = at.saturating_add(record);
            if end > self.region.len {
                return Err(DefineError::NoRoom);
            }
            if !self.charged.cover(map, budget, self.region, end) {
                return Err(DefineError::NoRoom);
            }
            let head = map
                .word(self.region.offset.saturating_add(at))
                .ok_or(DefineError::NoRoom)?;
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::ids::ByteLimit;
    use crate::pool::slot::model::Chunk;

    const PLACES: usize = 6;

    /// A definitions region of a few words that begins at offset 0.
    struct ModelledRegion {
        words: [AtomicU64; PLACES],
        writer: DefinitionWriter,
        budget: Budget,
    }

    impl Words for ModelledRegion {
        fn word(&self, offset: u64) -> Option<&AtomicU64> {
            self.words.get(usize::try_from(offset / 8).ok()?)
        }
    }

    impl ModelledRegion {
        fn new() -> Self {
            let writer = DefinitionWriter {
                region: Extent {
                    offset: 0,
                    len: PLACES as u64 * 8,
                },
                tail: AtomicU64::new(0),
                charged: ChargedPages::new(4096),
            };
            // Room for one page only, so that charging races too.
            let budget = Budget::new(ByteLimit::new(2 * 4096), 0, 4096);
            Self {
                words: std::array::from_fn(|_| AtomicU64::new(0)),
                writer,
                budget,
            }
        }

        fn define(&self, name: &str) -> Result<DefinitionId, DefineError> {
            self.writer.define(self, &self.budget, &category(name))
        }

        /// Finds the complete records as the reader does: from head to head.
        fn read(&self) -> Vec<(u64, Definition)> {
            let mut found = Vec::new();
            let mut at = 0;
            while let Some(head) = self.words.get(at).map(|word| word.load(Ordering::Acquire)) {
                let len = (head & 0xffff_ffff) as usize;
                let state = head >> 32;
                if state == 0 {
                    break;
                }
                let words = &self.words[at + 1..at + 1 + len.div_ceil(8)];
                if state == READY {
                    let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
                    let bytes: Vec<u8> = words.iter().flat_map(load).take(len).collect();
                    found.push((
                        at as u64 + 1,
                        codec::decode(&bytes).expect("a torn definition"),
                    ));
                }
                at += 1 + words.len();
            }
            found
        }
    }

    fn category(name: &str) -> Definition {
        Definition::Category(CategoryDefinition {
            name: name.to_owned(),
            color: String::new(),
            subcategories: Vec::new(),
        })
    }

    #[test]
    fn loom_concurrent_definitions_get_separate_records_and_a_reader_sees_only_whole_ones() {
        loom::model(|| {
            let shared = Arc::new(ModelledRegion::new());
            let definers = ["a", "b"].map(|name| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || (name, shared.define(name).unwrap()))
            });
            shared.read();
            let ids = definers.map(|definer| definer.join().unwrap());
            let all = shared.read();
            for (name, id) in ids {
                assert!(
                    all.contains(&(u64::from(id.get()), category(name))),
                    "{name} is lost"
                );
            }
            assert_eq!(shared.budget.used_and_allowed().0, 4096);
        });
    }

    #[test]
    fn loom_a_reader_skips_the_record_of_a_definer_that_died() {
        loom::model(|| {
            let shared = Arc::new(ModelledRegion::new());
            let dying = {
                let shared = Arc::clone(&shared);
                // Claims a record and never fills it.
                thread::spawn(move || {
                    shared
                        .writer
                        .claim(&*shared, &shared.budget, 5, 16)
                        .unwrap()
                })
            };
            let id = shared.define("b").unwrap();
            dying.join().unwrap();
            assert_eq!(shared.read(), [(u64::from(id.get()), category("b"))]);
        });
    }

    #[test]
    fn loom_a_committed_entry_only_refers_to_complete_definitions() {
        loom::model(|| {
            let shared = Arc::new((ModelledRegion::new(), Chunk::new()));
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (pool, chunk) = &*shared;
                    let id = u64::from(pool.define("a").unwrap().get());
                    chunk.open(id);
                    chunk.write(id, 1);
                })
            };
            let (pool, chunk) = &*shared;
            // Same order as the snapshot: chunks first, then names.
            let entries = chunk.copy().map_or_else(Vec::new, |(_, entries)| entries);
            let known = pool.read();
            for entry in entries {
                assert!(
                    known.contains(&(entry, category("a"))),
                    "an entry without its name"
                );
            }
            writer.join().unwrap();
        });
    }
}
