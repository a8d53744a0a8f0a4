//! Rules that a marker schema must keep before it is stored.
//!
//! Called by the recording API when a marker type is registered. Viewers would show a schema that
//! breaks a rule wrongly or not at all.

use std::collections::HashSet;
use std::{error, fmt};

use super::MarkerSchema;

/// Names that viewers treat specially; [`MarkerSchema::check`] refuses them.
pub const RESERVED_NAMES: [&str; 14] = [
    "Network",
    "IPC",
    "CompositorScreenshot",
    "GCSlice",
    "GCMajor",
    "JS allocation",
    "Native allocation",
    "Text",
    "Log",
    "FileIO",
    "tracing",
    "UserTiming",
    "Jank",
    "PreferenceRead",
];

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The type has no name.
    NoName,
    /// The name has another meaning for viewers; see [`RESERVED_NAMES`].
    ReservedName(String),
    /// Two rows have the same key.
    DuplicateKey(String),
    /// The profiler writes a field with this key itself.
    ReservedKey(String),
    /// A graph or the colour refers to a field that does not exist.
    UnknownKey(String),
}

/// Written by hand, because this file is also compiled without the feature `engine`, where
/// `thiserror` is not available.
impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("a marker type needs a name"),
            Self::ReservedName(name) => {
                write!(f, "the marker type name {name:?} is reserved by viewers")
            }
            Self::DuplicateKey(key) => write!(f, "the field key {key:?} is used twice"),
            Self::ReservedKey(key) => write!(f, "a field must not be called {key:?}"),
            Self::UnknownKey(key) => write!(f, "there is no field {key:?}"),
        }
    }
}

impl error::Error for SchemaError {}

impl MarkerSchema {
    /// Whether the schema can be used for a marker type of an application.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), SchemaError> {
        if self.name.is_empty() {
            return Err(SchemaError::NoName);
        }
        if RESERVED_NAMES.contains(&self.name.as_str()) {
            return Err(SchemaError::ReservedName(self.name.clone()));
        }
        self.check_keys()
    }

    fn check_keys(&self) -> Result<(), SchemaError> {
        let mut keys = HashSet::new();
        for key in self.fields().map(|field| field.key.as_str()) {
            if matches!(key, "type" | "stack") {
                return Err(SchemaError::ReservedKey(key.to_owned()));
            }
            if !keys.insert(key) {
                return Err(SchemaError::DuplicateKey(key.to_owned()));
            }
        }
        let referred = self
            .graphs
            .iter()
            .map(|graph| &graph.key)
            .chain(&self.color_field);
        match referred
            .into_iter()
            .find(|key| !keys.contains(key.as_str()))
        {
            Some(key) => Err(SchemaError::UnknownKey(key.clone())),
            None => Ok(()),
        }
    }
}
