//! A call site: what all its markers have in common, known to the pool by one number.
//!
//! The macros make one static per call; the functions look one up by content. Invariant: the
//! payload type of a site never changes, because it is part of the site's static type use.

use super::ProfilerMarker;
use super::payload::field_keys;
use crate::category::CategoryPair;
use crate::codec;
use crate::definition_cell::DefinitionCell;
use crate::ids::DefinitionId;
use crate::entry_counts::DropReason;
use crate::manager::ChunkManager;
use crate::pool::definitions::Definition;

/// The static behind a macro call. Not made by hand.
#[derive(Debug)]
pub struct MarkerSite {
    name: &'static str,
    cell: DefinitionCell,
}

impl MarkerSite {
    /// A site whose markers have this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, cell: DefinitionCell::new() }
    }

    /// The site's number in the pool with this tag, if it is known already.
    #[inline(always)]
    pub(super) fn known(&self, tag: u64) -> Option<DefinitionId> {
        self.cell.get(tag)
    }

    /// The site's number; makes it known first.
    pub(super) fn define(
        &self,
        manager: &ChunkManager,
        category: CategoryPair,
        marker_type: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    ) -> Result<DefinitionId, DropReason> {
        self.cell.get_or_define(manager, || site_definition(manager, self.name, category, marker_type))
    }
}

/// The definition of a site with its category and type, which are defined first.
pub(super) fn site_definition(
    manager: &ChunkManager,
    name: &str,
    category: CategoryPair,
    marker_type: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
) -> Result<Definition, DropReason> {
    Ok(Definition::Site {
        name: name.to_owned(),
        category: category.define(manager)?,
        subcategory: category.subcategory(),
        marker_type: marker_type(manager)?,
    })
}

/// Defines a payload type from its schema and a first value, which shows the keys.
pub(super) fn define_type<M: ProfilerMarker>(
    manager: &ChunkManager,
    payload: &M,
) -> Result<DefinitionId, DropReason> {
    let keys = field_keys(payload).map_err(|_| DropReason::Unencodable)?;
    let keys = keys.into_iter().map(str::to_owned).collect();
    let schema = codec::encode(&M::schema()).map_err(|_| DropReason::NoDefinitions)?;
    let marker_type = Definition::MarkerType { schema, keys };
    manager.pool().define(&marker_type).map_err(|_| DropReason::NoDefinitions)
}

/// The type of a marker without payload.
#[allow(clippy::unnecessary_wraps)] // one signature for both kinds of type
pub(super) fn no_type(_: &ChunkManager) -> Result<DefinitionId, DropReason> {
    Ok(DefinitionId::NONE)
}
