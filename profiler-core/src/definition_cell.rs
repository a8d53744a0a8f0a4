//! From a static (call site, category, counter) to its number in the pool.
//!
//! Held by every static that entries refer to. The number is looked up once per pool and then
//! read with one relaxed load. Invariant: a number is used only with the pool whose tag stands
//! beside it, so a process that gets another pool defines its statics anew.

use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;
use crate::sync::fixed::{AtomicU64, Ordering};

/// Tag of the pool that this process records into; 0 = none. One pool at a time.
static POOL_TAG: AtomicU64 = AtomicU64::new(0);

/// The tag now.
#[inline(always)]
pub(crate) fn pool_tag() -> u64 {
    POOL_TAG.load(Ordering::Relaxed)
}

/// A new tag for a new pool; numbers under older tags are void from now on.
pub(crate) fn next_pool_tag() -> u64 {
    POOL_TAG.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// A definition's number, remembered per pool.
#[derive(Debug)]
pub(crate) struct DefinitionCell {
    /// Tag (high 32), number (low 32).
    word: AtomicU64,
}

impl DefinitionCell {
    pub(crate) const fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// The number, if this static is defined in the pool with this tag.
    #[inline(always)]
    pub(crate) fn get(&self, tag: u64) -> Option<DefinitionId> {
        let word = self.word.load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation)] // the low half is the number
        let number = word as u32;
        (word >> 32 == tag & 0xffff_ffff && number != 0).then(|| DefinitionId::new(number))
    }

    /// The number; defines it first if need be. Two threads may define it twice: both numbers
    /// stay valid, one is remembered.
    pub(crate) fn get_or_define(
        &self,
        manager: &ChunkManager,
        definition: impl FnOnce() -> Option<Definition>,
    ) -> Option<DefinitionId> {
        let tag = manager.tag();
        if let Some(id) = self.get(tag) {
            return Some(id);
        }
        let id = manager.pool().define(&definition()?).ok()?;
        self.word.store((tag << 32) | u64::from(id.get()), Ordering::Relaxed);
        Some(id)
    }
}
