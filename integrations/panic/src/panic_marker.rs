//! The marker of a panic: its name, category, fields, and how viewers show them.

use profiler_core::marker::schema::{CategoryColor, Format, MarkerSchema};
use profiler_core::marker::{Category, ProfilerMarker};
use serde::Serialize;

/// The category of panics.
pub(crate) static PANICS: Category = Category::new("Panic", CategoryColor::Red, &[]);

/// The fields of a panic.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct PanicMarker<'a> {
    pub(crate) message: &'a str,
    pub(crate) location: &'a str,
    /// The name of the thread, if it has one.
    pub(crate) thread: Option<&'a str>,
}

impl ProfilerMarker for PanicMarker<'_> {
    const TYPE_NAME: &'static str = "Panic";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .chart_label("{marker.data.message}")
            .table_label("{marker.data.location}: {marker.data.message}")
            .tooltip_label("Panic: {marker.data.message}")
            .key_label_format("message", "Message", Format::SanitizedString)
            .key_label_format("location", "Location", Format::String)
            .key_label_format("thread", "Thread", Format::String)
            .static_label_value(
                "Description",
                "A thread of the program panicked. The stack is that of the panic.",
            )
    }
}
