//! The definition of a category in the pool.

use super::{Category, CategoryPair};
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::{CategoryDefinition, Definition};

impl Category {
    fn define(&self, manager: &ChunkManager) -> Result<DefinitionId, DropReason> {
        self.cell.get_or_define(manager, || {
            Ok(Definition::Category(CategoryDefinition {
                name: self.name.to_owned(),
                color: self.color.name().to_owned(),
                subcategories: self
                    .subcategories
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect(),
            }))
        })
    }
}

impl CategoryPair {
    pub(crate) fn define(self, manager: &ChunkManager) -> Result<DefinitionId, DropReason> {
        self.category.define(manager)
    }
}
