//! An empty `DefinitionCell`: without the engine there is no pool, so statics have no numbers.

/// Stores nothing.
#[derive(Debug)]
pub(crate) struct DefinitionCell;

impl DefinitionCell {
    pub(crate) const fn new() -> Self {
        Self
    }
}
