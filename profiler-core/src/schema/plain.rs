//! The schema that replaces one which [`MarkerSchema::check`] refuses.
//!
//! Called by the recording API, which also reports the reason.

use super::check::has_own_prefix;
use super::{Format, MarkerField, MarkerSchema, SchemaError};

/// The name of a type without a name.
const NAMELESS: &str = "(no name)";

impl MarkerSchema {
    /// The schema that replaces this one, which was refused because of `error`: it shows the values
    /// of `keys`, each under its key. A reserved name gets an underscore at its end, or at its
    /// beginning if all names with this beginning are reserved.
    pub(crate) fn plain(&self, keys: &[String], error: &SchemaError) -> Self {
        let name = match error {
            SchemaError::NoName => NAMELESS.to_owned(),
            SchemaError::ReservedName(name) if has_own_prefix(name) => format!("_{name}"),
            SchemaError::ReservedName(name) => format!("{name}_"),
            _ => self.name.clone(),
        };
        let fields = keys.iter().map(|key| MarkerField::new(key, Format::String));
        fields.fold(Self::in_chart_and_table(name), Self::field)
    }
}
