//! A call site: the common properties of its markers, defined in the pool under one number.
//!
//! The macros make one static per call; the functions look one up by content. Invariant: the
//! payload type of a site never changes, because each static is used with one type.

use super::ProfilerMarker;
use super::payload::field_keys;
use crate::category::CategoryPair;
use crate::codec::{self, CodecError};
use crate::definition_cell::{DefinitionCell, DefinitionTable};
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::{Definition, SiteDefinition};
use crate::schema::{MarkerSchema, SchemaError};

/// The static behind a macro call. Not for direct use.
#[derive(Debug)]
pub struct MarkerSite {
    name: &'static str,
    cell: DefinitionCell,
}

impl MarkerSite {
    /// A site whose markers have this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            cell: DefinitionCell::new(),
        }
    }

    /// The name of its markers.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    /// The site's number in the pool with this tag, if it is defined there.
    #[inline(always)]
    pub(super) fn known(&self, tag: u64) -> Option<DefinitionId> {
        self.cell.get(tag)
    }

    /// The site's number; defines the site if it is new.
    pub(super) fn define(
        &self,
        manager: &ChunkManager,
        category: CategoryPair,
        marker_type: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    ) -> Result<DefinitionId, DropReason> {
        self.cell.get_or_define(manager, || {
            site_definition(manager, self.name, category, marker_type)
        })
    }
}

/// The definition of a site with its category and type, which are defined first.
pub(super) fn site_definition(
    manager: &ChunkManager,
    name: &str,
    category: CategoryPair,
    marker_type: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
) -> Result<Definition, DropReason> {
    Ok(Definition::Site(SiteDefinition {
        name: name.to_owned(),
        category: category.define(manager)?,
        subcategory: category.subcategory(),
        marker_type: marker_type(manager)?,
    }))
}

/// Defines a payload type from its schema and a first value, which supplies the keys.
pub(super) fn define_type<M: ProfilerMarker>(
    manager: &ChunkManager,
    payload: &M,
) -> Result<DefinitionId, DropReason> {
    let keys = field_keys(payload).map_err(|_| DropReason::Unencodable)?;
    let keys = keys.into_iter().map(str::to_owned).collect();
    let schema = M::schema();
    let checked = match M::IS_OF_PROFILER {
        true => schema.check_of_profiler(),
        false => schema.check(),
    };
    define_checked(manager, &schema, checked, keys)
}

/// Defines a payload type of an integration from its schema and the keys of its fields.
pub(super) fn define_schema(
    manager: &ChunkManager,
    schema: &MarkerSchema,
    keys: Vec<String>,
) -> Result<DefinitionId, DropReason> {
    define_checked(manager, schema, schema.check_of_profiler(), keys)
}

/// Defines a payload type. If its schema was refused, defines it with a plain schema and reports
/// why.
fn define_checked(
    manager: &ChunkManager,
    schema: &MarkerSchema,
    checked: Result<(), SchemaError>,
    keys: Vec<String>,
) -> Result<DefinitionId, DropReason> {
    let encoded = match checked {
        Ok(()) => codec::encode(schema),
        Err(error) => encode_plain(manager, schema, &keys, &error),
    };
    let schema = encoded.map_err(|_| DropReason::NoDefinitions)?;
    define_encoded(manager, schema, keys)
}

/// Reports that a schema was refused, and encodes a plain one.
#[cold]
#[inline(never)] // few threads need this stack space
fn encode_plain(
    manager: &ChunkManager,
    schema: &MarkerSchema,
    keys: &[String],
    error: &SchemaError,
) -> Result<Vec<u8>, CodecError> {
    report(manager, &schema.name, error);
    codec::encode(&schema.plain(keys, error))
}

#[inline(never)] // the encoder then has more of the stack
fn define_encoded(
    manager: &ChunkManager,
    schema: Vec<u8>,
    keys: Vec<String>,
) -> Result<DefinitionId, DropReason> {
    let marker_type = Definition::MarkerType { schema, keys };
    let number = manager.pool().define(&marker_type);
    number.map_err(|_| DropReason::NoDefinitions)
}

/// Writes a notice about a refused schema, once per pool for each type and reason. If there is no
/// room for it, the profile reports that definitions are missing.
fn report(manager: &ChunkManager, name: &str, error: &SchemaError) {
    static REPORTED: DefinitionTable = DefinitionTable::new();
    let text = format!("markers of the type {name:?} are shown without their schema: {error}");
    let _ = REPORTED.get_or_define(manager, &text, || {
        Ok(Definition::Notice { text: text.clone() })
    });
}

/// The type of a marker without payload.
#[allow(clippy::unnecessary_wraps)] // one signature for both kinds of type
pub(super) fn no_type(_: &ChunkManager) -> Result<DefinitionId, DropReason> {
    Ok(DefinitionId::NONE)
}
