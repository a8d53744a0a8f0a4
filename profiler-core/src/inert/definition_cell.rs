//! The place of a definition's number, which is never needed without a pool.

/// Nothing.
#[derive(Debug)]
pub(crate) struct DefinitionCell;

impl DefinitionCell {
    pub(crate) const fn new() -> Self {
        Self
    }
}
