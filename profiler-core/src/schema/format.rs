//! How a field's value is shown.
//!
//! Part of a marker schema. A table cannot contain tables. The types enforce this: a column has a
//! [`Format`], and only a field has a [`FieldFormat`]. So a forged schema cannot nest tables
//! either.

/// How one value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Format {
    /// A URL. Removed when the user shares the profile without personal data.
    Url,
    /// A path of a file. Removed when the user shares the profile without personal data.
    FilePath,
    /// Text that is removed when the user shares the profile without personal data.
    SanitizedString,
    /// Text, stored in the row. It is never removed from a shared profile, so it must not be
    /// personal.
    String,
    /// Text that often repeats, stored once per thread. It is never removed from a shared profile.
    UniqueString,
    /// An identifier that ties markers of several threads and processes into one flow.
    FlowId,
    /// A flow identifier that ends with this marker.
    TerminatingFlowId,
    /// Milliseconds, shown in the unit that fits.
    Duration,
    /// Milliseconds since the profile's start.
    Time,
    /// Milliseconds, shown as seconds.
    Seconds,
    /// Milliseconds, shown as milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes, shown in the unit that fits.
    Bytes,
    /// A number from 0 to 1, shown as percent.
    Percentage,
    /// A whole number.
    Integer,
    /// A number with decimals.
    Decimal,
    /// A whole number, shown in hexadecimal. Versions of the Gecko format before 35 do not know it;
    /// there it is written as [`Format::Integer`].
    Hexadecimal,
    /// A process number.
    Pid,
    /// A thread number.
    Tid,
    /// Several values; the field must be a sequence.
    List,
}

impl Format {
    /// First version of the Gecko format that knows `hexadecimal`.
    const HEXADECIMAL_SINCE: u32 = 35;

    /// The format's name in a profile of this Gecko version.
    pub const fn name(self, gecko_version: u32) -> &'static str {
        match self {
            Self::Url => "url",
            Self::FilePath => "file-path",
            Self::SanitizedString => "sanitized-string",
            Self::String => "string",
            Self::UniqueString => "unique-string",
            Self::FlowId => "flow-id",
            Self::TerminatingFlowId => "terminating-flow-id",
            Self::Duration => "duration",
            Self::Time => "time",
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
            Self::Bytes => "bytes",
            Self::Percentage => "percentage",
            Self::Hexadecimal if gecko_version >= Self::HEXADECIMAL_SINCE => "hexadecimal",
            Self::Integer | Self::Hexadecimal => "integer",
            Self::Decimal => "decimal",
            Self::Pid => "pid",
            Self::Tid => "tid",
            Self::List => "list",
        }
    }

    /// Whether rows hold the number of a text in the thread's string table, not the text.
    pub const fn is_string_index(self) -> bool {
        matches!(
            self,
            Self::UniqueString | Self::FlowId | Self::TerminatingFlowId
        )
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct TableColumn {
    /// How its values are shown.
    pub format: Format,
    /// Its heading.
    pub label: Option<String>,
}

impl TableColumn {
    /// A column with a heading.
    pub fn new(label: impl Into<String>, format: Format) -> Self {
        Self {
            format,
            label: Some(label.into()),
        }
    }
}

/// How a field is shown: as one value or as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub enum FieldFormat {
    /// One value.
    Value(Format),
    /// Rows of values; the field must be a sequence of sequences.
    Table(Vec<TableColumn>),
}

impl FieldFormat {
    /// A table with these columns.
    pub fn table(columns: impl IntoIterator<Item = TableColumn>) -> Self {
        Self::Table(columns.into_iter().collect())
    }
}

impl From<Format> for FieldFormat {
    fn from(format: Format) -> Self {
        Self::Value(format)
    }
}
