//! Payload types that every profile has.

use serde::Serialize;

use super::ProfilerMarker;
use crate::schema::{Format, Location, MarkerSchema};

/// A text beside the marker's name. The viewer knows this type.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Text<'a> {
    /// The text.
    pub name: &'a str,
}

impl ProfilerMarker for Text<'_> {
    const TYPE_NAME: &'static str = "Text";

    fn schema() -> MarkerSchema {
        MarkerSchema::new(
            Self::TYPE_NAME,
            [Location::MarkerChart, Location::MarkerTable, Location::TimelineOverview],
        )
        .tooltip_label("{marker.name}")
        .chart_label("{marker.name} — {marker.data.name}")
        .table_label("{marker.name} — {marker.data.name}")
        .key_label_format("name", "Details", Format::String)
    }
}
