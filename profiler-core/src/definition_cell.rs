//! Caches the number of a static (call site, category, counter) in the pool.
//!
//! Every static that entries refer to has a cell. The number is determined once per pool and then
//! read with one relaxed load. Invariant: a number is only used with the pool whose
//! [tag](crate::pool::tag) is stored with it, so a process that gets another pool defines its
//! statics again.

use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;
use crate::pool::tag::belongs_to;
use crate::sync::fixed::{AtomicU64, Ordering};

/// A definition's number, cached per pool.
#[derive(Debug)]
pub(crate) struct DefinitionCell {
    /// Tag (high 32), number (low 32).
    word: AtomicU64,
}

impl DefinitionCell {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
        }
    }

    /// The number, if this static is defined in the pool with this tag.
    #[inline(always)]
    pub(crate) fn get(&self, tag: u64) -> Option<DefinitionId> {
        let word = self.word.load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation)] // the low half is the number
        let number = word as u32;
        (belongs_to(word, tag) && number != 0).then(|| DefinitionId::new(number))
    }

    /// The number; defines the static first if necessary, or returns the reason why an entry
    /// without it is dropped. Two threads may define it twice: both numbers stay valid, and one is
    /// cached.
    pub(crate) fn get_or_define(
        &self,
        manager: &ChunkManager,
        definition: impl FnOnce() -> Result<Definition, DropReason>,
    ) -> Result<DefinitionId, DropReason> {
        let tag = manager.tag();
        if let Some(id) = self.get(tag) {
            return Ok(id);
        }
        let id = define(manager, &definition()?)?;
        self.set(tag, id);
        Ok(id)
    }

    /// Caches a number for the pool with this tag.
    pub(crate) fn set(&self, tag: u64, id: DefinitionId) {
        self.word
            .store((tag << 32) | u64::from(id.get()), Ordering::Relaxed);
    }
}

/// Numbers of definitions that have no static of their own, by the hash of their content.
///
/// Lock-free: open addressing; entries are added and never removed; an entry of an older pool is
/// reused. Two contents with the same 64-bit hash would share a number: with at most 512 contents,
/// less likely than one in 10^14.
#[derive(Debug)]
pub(crate) struct DefinitionTable {
    /// Hash of the content, 0 = free.
    keys: [AtomicU64; Self::PLACES],
    ids: [AtomicU64; Self::PLACES],
}

impl DefinitionTable {
    const PLACES: usize = 1024;

    pub(crate) const fn new() -> Self {
        Self {
            keys: [const { AtomicU64::new(0) }; Self::PLACES],
            ids: [const { AtomicU64::new(0) }; Self::PLACES],
        }
    }

    /// The number of `content`; defines it first if necessary, or returns the reason why an entry
    /// without it is dropped.
    pub(crate) fn get_or_define(
        &self,
        manager: &ChunkManager,
        content: &impl std::hash::Hash,
        definition: impl FnOnce() -> Result<Definition, DropReason>,
    ) -> Result<DefinitionId, DropReason> {
        let tag = manager.tag();
        let id = self
            .place(hash_of(content))
            .ok_or(DropReason::NoDefinitions)?;
        let known = id.load(Ordering::Acquire);
        if known >> 32 == tag & 0xffff_ffff {
            let number = u32::try_from(known & 0xffff_ffff).unwrap_or(0);
            return Ok(DefinitionId::new(number));
        }
        let number = define(manager, &definition()?)?;
        id.store((tag << 32) | u64::from(number.get()), Ordering::Release);
        Ok(number)
    }

    /// The place of `hash`: its own, or a free one that it claims.
    fn place(&self, hash: u64) -> Option<&AtomicU64> {
        let start = usize::try_from(hash % Self::PLACES as u64).unwrap_or(0);
        let places = self.keys.iter().zip(&self.ids);
        let mut around = places
            .clone()
            .skip(start)
            .chain(places.take(start))
            .take(Self::PLACES / 2);
        let found = around.find(|(key, _)| {
            let seen = key.load(Ordering::Acquire);
            seen == hash
                || (seen == 0
                    && match key.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => true,
                        Err(other) => other == hash,
                    })
        });
        found.map(|(_, id)| id)
    }
}

fn define(manager: &ChunkManager, definition: &Definition) -> Result<DefinitionId, DropReason> {
    manager
        .pool()
        .define(definition)
        .map_err(|_| DropReason::NoDefinitions)
}

fn hash_of(content: &impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish().max(1)
}
