//! The tag of the pool that this process records into.
//!
//! A definition's number is valid only in the pool that it was made for. Statics therefore store it
//! with the tag of that pool. The chunk manager draws the tag of a new pool, the session activates
//! it, and the recording code compares tags. Invariants: no two pools of a process have the same
//! tag; 0 is no pool's tag.

use crate::sync::fixed::{AtomicU64, Ordering};

/// Tag of the pool that this process records into; 0 = none. There is one such pool at a time.
static CURRENT_TAG: AtomicU64 = AtomicU64::new(0);
/// The last tag that was drawn.
static LAST_TAG: AtomicU64 = AtomicU64::new(0);

/// The tag of the pool that this process records into.
#[inline(always)]
pub fn pool_tag() -> u64 {
    CURRENT_TAG.load(Ordering::Relaxed)
}

/// Draws the tag of a new pool. It has no effect before [`use_pool_tag`].
pub(crate) fn next_pool_tag() -> u64 {
    LAST_TAG.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Makes the pool with this tag the one that this process records into. Numbers that are stored
/// with other tags are invalid from now on.
pub(crate) fn use_pool_tag(tag: u64) {
    CURRENT_TAG.store(tag, Ordering::Relaxed);
}

/// Whether a word of a tag (high 32 bits) and a number (low 32 bits) belongs to the pool with this
/// tag.
#[inline(always)]
pub(crate) const fn belongs_to(word: u64, tag: u64) -> bool {
    word >> 32 == tag & 0xffff_ffff
}
