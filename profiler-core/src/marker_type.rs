//! The trait of payload types, and the one payload type built into viewers.
//!
//! Compiled with and without the feature `engine`, so it uses only the trait of serde and not the
//! derive macro. Applications use this module as [`crate::marker`].

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use crate::schema::{Format, Location, MarkerSchema};

/// A type of marker payload: a struct of plain fields with a schema.
///
/// The struct derives `serde::Serialize`; fields may borrow. A field may be a boolean, an integer,
/// a float, a character, a text, a variant without data, an option or a newtype of these, or a
/// sequence or tuple of them, up to a sequence of sequences. Markers whose payload has other fields
/// (maps, nested structs, bytes, 128-bit integers) are dropped and counted. The type is registered
/// in the pool when it is first recorded.
///
/// With the feature `derive`, which `profiler-child` and `profiler-parent` have, the schema is
/// given at the fields. Their names, their formats and the fields in labels are checked when the
/// program is compiled. Without `format`, the type of the field decides: see
/// [`MarkerValue`](crate::marker::MarkerValue).
///
/// ```
/// # #[cfg(feature = "derive")] {
/// use profiler_core::marker::ProfilerMarker;
///
/// #[derive(serde::Serialize, ProfilerMarker)]
/// #[marker_type(name = "File", label = "{marker.data.path}")]
/// struct FileMarker<'a> {
///     #[field(format = "file-path", label = "Path")]
///     path: &'a str,
///     #[field(format = "bytes", label = "Size", search = false)]
///     bytes: u64,
/// }
/// # }
/// ```
///
/// The same without the derive macro:
///
/// ```
/// use profiler_core::marker::{ProfilerMarker, schema::{Format, MarkerSchema}};
///
/// #[derive(serde::Serialize)]
/// struct FileMarker<'a> {
///     path: &'a str,
///     bytes: u64,
/// }
///
/// impl ProfilerMarker for FileMarker<'_> {
///     const TYPE_NAME: &'static str = "File";
///
///     fn schema() -> MarkerSchema {
///         MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
///             .all_labels("{marker.data.path}")
///             .key_label_format("path", "Path", Format::FilePath)
///             .key_label_format("bytes", "Size", Format::Bytes)
///     }
/// }
/// ```
pub trait ProfilerMarker: Serialize {
    /// The name of the type, unique in the application; types of all processes are merged by name.
    const TYPE_NAME: &'static str;

    /// Whether the profiler or one of its integrations defines the type, so that its name may be
    /// one that [`MarkerSchema::check`] refuses. Not for applications.
    #[doc(hidden)]
    const IS_OF_PROFILER: bool = false;

    /// How the viewer shows markers of this type. Called when a call site first records one.
    ///
    /// A schema that [`MarkerSchema::check`] refuses is replaced by a plain one, which shows all
    /// fields under their keys, and the profile says so.
    fn schema() -> MarkerSchema;
}

/// A text beside the marker's name. Viewers support this type directly.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The text.
    pub name: &'a str,
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = serializer.serialize_struct("Text", 1)?;
        text.serialize_field("name", self.name)?;
        text.end()
    }
}

impl ProfilerMarker for Text<'_> {
    const TYPE_NAME: &'static str = "Text";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::new(
            Self::TYPE_NAME,
            [
                Location::MarkerChart,
                Location::MarkerTable,
                Location::TimelineOverview,
            ],
        )
        .tooltip_label("{marker.name}")
        .chart_label("{marker.name} — {marker.data.name}")
        .table_label("{marker.name} — {marker.data.name}")
        .key_label_format("name", "Details", Format::String)
    }
}
