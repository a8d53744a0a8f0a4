//! Marker schemas: how a viewer shows the markers of one type.
//!
//! A marker type builds its [`MarkerSchema`] once; the recording API stores it in the pool as a
//! definition, encoded with `codec`, so that a profile can be written from the pool alone. Profile
//! writers convert it to JSON (`profiler_gecko::model`). Applications use this module as
//! [`crate::marker::schema`].
//!
//! Invariants: field keys are those of the payload's struct; a schema that passes
//! [`MarkerSchema::check`] has a valid name and unique keys; a schema that does not is not stored.

pub use check::{RESERVED_NAMES, SchemaError};
pub use color::{CategoryColor, GraphColor};
pub use format::{FieldFormat, Format, TableColumn};

mod check;
mod color;
mod format;
#[cfg(feature = "engine")]
mod plain;

/// Where a viewer shows the markers of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
#[non_exhaustive]
pub enum Location {
    /// The marker chart: a row of bars over time.
    MarkerChart,
    /// The marker table: a row per marker.
    MarkerTable,
    /// The overview of the thread's track. Viewers draw it for main threads.
    TimelineOverview,
    /// The memory track.
    TimelineMemory,
    /// The track of messages between processes.
    TimelineIpc,
    /// The track of file accesses.
    TimelineFileIo,
    /// The network track.
    TimelineNetwork,
    /// The stack chart.
    StackChart,
}

impl Location {
    /// The location's name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MarkerChart => "marker-chart",
            Self::MarkerTable => "marker-table",
            Self::TimelineOverview => "timeline-overview",
            Self::TimelineMemory => "timeline-memory",
            Self::TimelineIpc => "timeline-ipc",
            Self::TimelineFileIo => "timeline-fileio",
            Self::TimelineNetwork => "timeline-network",
            Self::StackChart => "stack-chart",
        }
    }
}

/// A field of the payload, as the viewer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct MarkerField {
    /// Name of the field in the payload's struct.
    pub key: String,
    /// The label that is shown instead of the key.
    pub label: Option<String>,
    /// How the value is shown.
    pub format: FieldFormat,
    /// Whether tooltip and sidebar leave the field out. Labels, graphs and colours can still use
    /// it.
    pub hidden: bool,
    /// Whether the viewer's search finds the field.
    pub searchable: bool,
}

impl MarkerField {
    /// A field that is shown under its key and found by search.
    pub fn new(key: impl Into<String>, format: impl Into<FieldFormat>) -> Self {
        Self {
            key: key.into(),
            label: None,
            format: format.into(),
            hidden: false,
            searchable: true,
        }
    }

    /// Shows `label` instead of the key.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Keeps the field out of tooltip and sidebar.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Keeps the field out of the viewer's search.
    #[must_use]
    pub const fn not_searchable(mut self) -> Self {
        self.searchable = false;
        self
    }
}

/// One row of a marker's tooltip.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub enum SchemaRow {
    /// A field of the payload.
    Field(MarkerField),
    /// A text that is the same for every marker of the type. Viewers show one such text per type,
    /// as its description.
    Static {
        /// The label before the text.
        label: String,
        /// The text.
        value: String,
    },
}

/// How a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub enum GraphType {
    /// A bar per marker.
    Bar,
    /// A line through the values.
    Line,
    /// A line with the area below it filled.
    LineFilled,
}

impl GraphType {
    /// The type's name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bar => "bar",
            Self::Line => "line",
            Self::LineFilled => "line-filled",
        }
    }
}

/// A graph over the values of one field; the type gets a track of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct MarkerGraph {
    /// Key of a field that is a number.
    pub key: String,
    /// How it is drawn.
    pub kind: GraphType,
    /// Its colour; without one the viewer chooses.
    pub color: Option<GraphColor>,
}

/// How a viewer shows the markers of one type; see the [module](self).
///
/// Labels may contain `{marker.name}`, `{marker.start}`, `{marker.end}`, `{marker.duration}`,
/// `{marker.category}`, `{marker.data.KEY}` and `{marker.data.KEY ? 'a' : 'b'}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
pub struct MarkerSchema {
    /// Name of the type: the `type` of each payload.
    pub name: String,
    /// Where the markers are shown.
    pub locations: Vec<Location>,
    /// Text in the bar of the marker chart; without one the bar is blank.
    pub chart_label: Option<String>,
    /// First line of the tooltip; without one the marker's name.
    pub tooltip_label: Option<String>,
    /// Text in the marker table; without one the marker's name.
    pub table_label: Option<String>,
    /// Fields and static texts, in the order in which they are shown.
    pub rows: Vec<SchemaRow>,
    /// Graphs over fields.
    pub graphs: Vec<MarkerGraph>,
    /// Key of a field whose value names the marker's colour, one of [`GraphColor`].
    pub color_field: Option<String>,
    /// Whether the markers of one thread nest like calls, so that a viewer may stack them.
    pub is_stack_based: bool,
}

/// Building a schema.
impl MarkerSchema {
    /// A type of this name, shown at these places.
    pub fn new(name: impl Into<String>, locations: impl IntoIterator<Item = Location>) -> Self {
        Self {
            name: name.into(),
            locations: locations.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A type of this name, shown in the marker chart and the marker table.
    pub fn in_chart_and_table(name: impl Into<String>) -> Self {
        Self::new(name, [Location::MarkerChart, Location::MarkerTable])
    }

    /// Sets the text in the bar of the marker chart.
    #[must_use]
    pub fn chart_label(mut self, label: impl Into<String>) -> Self {
        self.chart_label = Some(label.into());
        self
    }

    /// Sets the first line of the tooltip.
    #[must_use]
    pub fn tooltip_label(mut self, label: impl Into<String>) -> Self {
        self.tooltip_label = Some(label.into());
        self
    }

    /// Sets the text in the marker table.
    #[must_use]
    pub fn table_label(mut self, label: impl Into<String>) -> Self {
        self.table_label = Some(label.into());
        self
    }

    /// Sets the same text for chart, tooltip and table.
    #[must_use]
    pub fn all_labels(self, label: impl Into<String>) -> Self {
        let label = label.into();
        self.chart_label(label.clone())
            .tooltip_label(label.clone())
            .table_label(label)
    }

    /// Adds a field; [`MarkerField`] has options beyond key and format.
    #[must_use]
    pub fn field(mut self, field: MarkerField) -> Self {
        self.rows.push(SchemaRow::Field(field));
        self
    }

    /// Adds a field that is shown under its key.
    #[must_use]
    pub fn key_format(self, key: impl Into<String>, format: impl Into<FieldFormat>) -> Self {
        self.field(MarkerField::new(key, format))
    }

    /// Adds a field that is shown under a label.
    #[must_use]
    pub fn key_label_format(
        self,
        key: impl Into<String>,
        label: impl Into<String>,
        format: impl Into<FieldFormat>,
    ) -> Self {
        self.field(MarkerField::new(key, format).label(label))
    }

    /// Adds a text that is the same for every marker of the type.
    #[must_use]
    pub fn static_label_value(
        mut self,
        label: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.rows.push(SchemaRow::Static {
            label: label.into(),
            value: value.into(),
        });
        self
    }

    /// Adds a graph over a field.
    #[must_use]
    pub fn graph(
        mut self,
        key: impl Into<String>,
        kind: GraphType,
        color: Option<GraphColor>,
    ) -> Self {
        self.graphs.push(MarkerGraph {
            key: key.into(),
            kind,
            color,
        });
        self
    }

    /// Colours each marker by the value of a field, which names a [`GraphColor`].
    #[must_use]
    pub fn color_field(mut self, key: impl Into<String>) -> Self {
        self.color_field = Some(key.into());
        self
    }

    /// Declares that the markers of one thread nest like calls.
    #[must_use]
    pub const fn stack_based(mut self) -> Self {
        self.is_stack_based = true;
        self
    }
}

/// Reading a schema.
impl MarkerSchema {
    /// The fields, in the order in which they are shown.
    pub fn fields(&self) -> impl Iterator<Item = &MarkerField> {
        self.rows.iter().filter_map(|row| match row {
            SchemaRow::Field(field) => Some(field),
            SchemaRow::Static { .. } => None,
        })
    }

    /// The field with this key.
    pub fn field_named(&self, key: &str) -> Option<&MarkerField> {
        self.fields().find(|field| field.key == key)
    }
}

#[cfg(all(test, feature = "engine", unix))]
mod tests;
