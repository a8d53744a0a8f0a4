//! The categories, the counter and the marker type of this program.

use profiler_parent::core::counter::Counter;
use profiler_parent::core::marker::schema::{CategoryColor, Format, MarkerSchema};
use profiler_parent::core::marker::{Category, ProfilerMarker};
use serde::Serialize;

/// Work on whole files.
pub(crate) static FILES: Category = Category::new("Files", CategoryColor::Green, &[]);
/// Counting and merging words.
pub(crate) static WORDS: Category =
    Category::new("Words", CategoryColor::Orange, &["Count", "Merge"]);

/// Bytes that this process has read from files.
pub(crate) static BYTES_READ: Counter = Counter::new(
    "Bytes read",
    "Bandwidth",
    "Bytes read from the files that are indexed",
);

/// The interval from the opening of a file until all its words are counted.
#[derive(Debug, Serialize)]
pub(crate) struct FileMarker<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: u64,
    pub(crate) words: u64,
}

impl ProfilerMarker for FileMarker<'_> {
    const TYPE_NAME: &'static str = "File";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .chart_label("{marker.data.path}")
            .table_label("{marker.data.path}")
            .tooltip_label("{marker.name} {marker.data.path}")
            .key_label_format("path", "Path", Format::FilePath)
            .key_label_format("bytes", "Size", Format::Bytes)
            .key_label_format("words", "Words", Format::Integer)
    }
}
