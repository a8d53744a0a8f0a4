//! Rules that a marker schema must keep before it is stored.
//!
//! Called by the recording API when a call site first records markers of a type. Viewers would show
//! a schema that breaks a rule wrongly or not at all, so the recording replaces it by a plain one.

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

/// Names of types that the profiler and its integrations use themselves. Types of one name are merged
/// in a profile, so a type of an application with such a name would take the fields from the markers
/// of the profiler, or lose its own.
const OWN_NAMES: [&str; 26] = [
    "FlowBegin",
    "FlowEnd",
    "FlowStep",
    "HistogramBytes",
    "HistogramTime",
    "HistogramValue",
    "IncompleteProcess",
    "Level",
    "LogRecord",
    "MemoryLevel",
    "NoPayloadUserData",
    "Numbers",
    "Panic",
    "ProfilerLosses",
    "SampleContext",
    "ScopedFuture",
    "SlowRun",
    "Span",
    "SpanDetail",
    "SpanFlow",
    "SpanLink",
    "SpanPoll",
    "Text",
    "TokioLongPoll",
    "TokioPoll",
    "rayon jobs",
];
/// Beginnings of such names.
const OWN_PREFIXES: [&str; 2] = ["Span ", "LogRecord "];

/// The reason why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// The type has no name.
    NoName,
    /// The name has another meaning: for viewers (see [`RESERVED_NAMES`]), or because the profiler or
    /// one of its integrations has a type of this name.
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
                write!(f, "the marker type name {name:?} is reserved")
            }
            Self::DuplicateKey(key) => write!(f, "the field key {key:?} is used twice"),
            Self::ReservedKey(key) => write!(f, "a field must not be called {key:?}"),
            Self::UnknownKey(key) => write!(f, "there is no field {key:?}"),
        }
    }
}

impl error::Error for SchemaError {}

/// Whether all names that begin as this one does are those of the profiler's own types.
pub(super) fn has_own_prefix(name: &str) -> bool {
    OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl MarkerSchema {
    /// Whether the schema can be used for a marker type of an application.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), SchemaError> {
        let name = self.name.as_str();
        let is_own = OWN_NAMES.contains(&name) || has_own_prefix(name);
        if is_own || RESERVED_NAMES.contains(&name) {
            return Err(SchemaError::ReservedName(self.name.clone()));
        }
        self.check_of_profiler()
    }

    /// Whether the schema can be used for a marker type of the profiler or of an integration, which
    /// may have any name.
    ///
    /// # Errors
    /// The first rule that it breaks.
    #[doc(hidden)]
    pub fn check_of_profiler(&self) -> Result<(), SchemaError> {
        if self.name.is_empty() {
            return Err(SchemaError::NoName);
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
