//! The words of a stack that is unwound.
//!
//! Implemented here for a copied stack, and by the sampler for the stack of the calling thread.

/// A source of a stack's words.
pub trait StackWords {
    /// The word at an address of the stack, if available.
    fn word(&self, address: u64) -> Option<u64>;
    /// Whether the address is in the stack but beyond the available piece.
    fn is_beyond(&self, address: u64) -> bool;
}

/// A copy of the start of a stack.
#[derive(Clone, Copy, Debug)]
pub struct CopiedStack<'a> {
    /// The address it was copied from.
    pub start: u64,
    /// Its words.
    pub words: &'a [u64],
    /// Whether the stack was longer than the copy.
    pub is_cut: bool,
}

impl StackWords for CopiedStack<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let offset = address
            .checked_sub(self.start)
            .filter(|offset| offset % 8 == 0)?;
        self.words.get(usize::try_from(offset / 8).ok()?).copied()
    }

    fn is_beyond(&self, address: u64) -> bool {
        let end = self.start.saturating_add(self.words.len() as u64 * 8);
        // A frame may reach a limited distance past the end of the piece.
        self.is_cut && address >= end && address - end < 1 << 20
    }
}
