//! Rules that a marker schema must keep before it is stored.
//!
//! Asked by the recording API when a marker type is registered: what breaks a rule would be
//! shown wrongly by viewers, or not at all.

use std::collections::HashSet;

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

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The type has no name.
    #[error("a marker type needs a name")]
    NoName,
    /// The name means something else to viewers; see [`RESERVED_NAMES`].
    #[error("the marker type name {0:?} is reserved by viewers")]
    ReservedName(String),
    /// Two rows have the same key.
    #[error("the field key {0:?} is used twice")]
    DuplicateKey(String),
    /// The payload's `type` is written by the profiler.
    #[error("a field must not be called {0:?}")]
    ReservedKey(String),
    /// A graph or the colour refers to no field.
    #[error("there is no field {0:?}")]
    UnknownKey(String),
}

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
        let referred = self.graphs.iter().map(|graph| &graph.key).chain(&self.color_field);
        match referred.into_iter().find(|key| !keys.contains(key.as_str())) {
            Some(key) => Err(SchemaError::UnknownKey(key.clone())),
            None => Ok(()),
        }
    }
}
