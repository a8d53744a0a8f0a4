//! The definitions region: everything that an entry refers to by number, never overwritten.
//!
//! Recording threads append to it at the first use of a call site, category, marker type or
//! counter; `reader` reads it through the file. Overwriting entries in the ring never loses a name,
//! because names are not in the ring.
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

use super::budget::{BookedPages, Budget};
use super::layout::{Extent, Layout, Region};
use super::mapping::Words;
use crate::codec;
use crate::ids::{CounterIndex, DefinitionId, GroupIndex};
use crate::sync::{AtomicU64, Ordering};

/// State of a record that is being written.
pub const BUSY: u64 = 1;
/// State of a complete record.
pub const READY: u64 = 2;

/// A definition that entries refer to.
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
    /// The properties shared by all markers of one call site.
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
    /// A file whose code runs in the process: the program, a library, or code that the system maps
    /// into every process. A file that is unloaded and loaded again, at any address, is the same
    /// module.
    Module {
        /// Path of the file; a name such as `[vdso]` if there is no file.
        path: String,
        /// The linker's identity of its contents (ELF: the GNU build id); empty if it has none.
        build_id: Vec<u8>,
        /// Address 0 of the file in this process when it was first seen: frames are relative to
        /// this.
        base: u64,
        /// Its first mapped address.
        start: u64,
        /// The address after its last.
        end: u64,
    },
    /// A label that the program sets: a frame by name.
    Label {
        /// Shown name.
        name: String,
        /// Its category.
        category: DefinitionId,
        /// Index of the subcategory.
        subcategory: u16,
        /// Source file; empty if unknown.
        file: String,
        /// Line in it; 0 if unknown.
        line: u32,
    },
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
        /// Whether it is measured only while fine groups are requested.
        is_fine: bool,
    },
    /// A description of data missing from the process's profile, with the reason.
    Notice {
        /// A sentence without a full stop.
        text: String,
    },
}

/// A file whose code ran in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleDefinition {
    /// Path of the file as the process saw it; a name such as `[vdso]` if there is no file.
    pub path: String,
    /// The linker's identity of its contents; empty if it has none.
    pub build_id: Vec<u8>,
    /// Address 0 of the file in the process.
    pub base: u64,
    /// Its first mapped address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
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
        map: &impl Words,
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
    fn claim(&self, map: &impl Words, budget: &Budget, len: u64, record: u64) -> Result<u64, DefineError> {
        let mut at = self.tail.load(Ordering::Acquire);
        loop {
            let end = at.saturating_add(record);
            if end > self.region.len {
                return Err(DefineError::NoRoom);
            }
            if !self.booked.cover(map, budget, self.region, end) {
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
                region: Extent { offset: 0, len: PLACES as u64 * 8 },
                tail: AtomicU64::new(0),
                booked: BookedPages::new(4096),
            };
            // Room for one page only, so that booking races too.
            let budget = Budget::new(ByteLimit::new(2 * 4096), 0, 4096);
            Self { words: std::array::from_fn(|_| AtomicU64::new(0)), writer, budget }
        }

        fn define(&self, name: &str) -> Result<DefinitionId, DefineError> {
            self.writer.define(self, &self.budget, &category(name))
        }

        /// Finds the complete records as the reader does: from head to head.
        fn read(&self) -> Vec<(u64, Definition)> {
            let mut found = Vec::new();
            let mut at = 0;
            while let Some(head) = self.words.get(at).map(|word| word.load(Ordering::Acquire)) {
                let (len, state) = ((head & 0xffff_ffff) as usize, head >> 32);
                if state == 0 {
                    break;
                }
                let words = &self.words[at + 1..at + 1 + len.div_ceil(8)];
                if state == READY {
                    let load = |word: &AtomicU64| word.load(Ordering::Relaxed).to_ne_bytes();
                    let bytes: Vec<u8> = words.iter().flat_map(load).take(len).collect();
                    found.push((at as u64 + 1, codec::decode(&bytes).expect("a torn definition")));
                }
                at += 1 + words.len();
            }
            found
        }
    }

    fn category(name: &str) -> Definition {
        Definition::Category { name: name.to_owned(), color: String::new(), subcategories: Vec::new() }
    }

    #[test]
    fn loom_two_definers_get_records_of_their_own_and_a_reader_sees_no_half_one() {
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
                assert!(all.contains(&(u64::from(id.get()), category(name))), "{name} is lost");
            }
            assert_eq!(shared.budget.used_and_allowed().0, 4096);
        });
    }

    #[test]
    fn loom_a_reader_walks_over_the_record_of_a_definer_that_died() {
        loom::model(|| {
            let shared = Arc::new(ModelledRegion::new());
            let dying = {
                let shared = Arc::clone(&shared);
                // Claims a record and never fills it.
                thread::spawn(move || shared.writer.claim(&*shared, &shared.budget, 5, 16).unwrap())
            };
            let id = shared.define("b").unwrap();
            dying.join().unwrap();
            assert_eq!(shared.read(), [(u64::from(id.get()), category("b"))]);
        });
    }

    #[test]
    fn loom_a_committed_entry_never_refers_to_a_definition_that_is_not_there() {
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
                assert!(known.contains(&(entry, category("a"))), "an entry without its name");
            }
            writer.join().unwrap();
        });
    }
}
